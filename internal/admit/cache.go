package admit

import (
	_ "embed" // brings in the names
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"meridian.dev/meridian/api/v1alpha1"
)

// The names of the settings that a server knows, one in each line. The servers tell no types and no ranges. This line,
// run for redis and for valkey, writes a file anew:
//
//	kubectl run catalogue --rm -i -q --restart=Never --image=localhost/meridian/redis:8 --command -- sh -c '
//	  redis-server --port 0 --unixsocket /tmp/socket >/dev/null & sleep 1
//	  redis-cli -s /tmp/socket --raw CONFIG GET "*" | sed -n "p;n" | LC_ALL=C sort' >redis.txt
var (
	//go:embed catalogue/redis.txt
	redisNames string
	//go:embed catalogue/valkey.txt
	valkeyNames string
)

var cacheNames = map[v1alpha1.Engine][]string{
	v1alpha1.EngineRedis:  strings.Fields(redisNames),
	v1alpha1.EngineValkey: strings.Fields(valkeyNames),
}

// managedCacheNames are refused beside those that the rules of the schema know, which are all about files, addresses,
// access, persistence and replication.
var managedCacheNames = []managedName{
	{"rdma-*", addressWhy}, {"socket-mark-id", addressWhy},
	{"dual-channel-replication-enabled", replicationWhy}, {"primary-*", replicationWhy},
	{"propagation-error-behavior", replicationWhy},
	{"shutdown-*", "the agent stops the server, and hands over before"},
	{"import-mode", "keys would no longer expire, and the cache would answer with what is out of date"},
	{"lua-enable-insecure-api", "scripts could leave their sandbox"},
	{"log-format", logWhy}, {"log-timestamp-format", logWhy}, {"crash-log-enabled", logWhy},
	{"key-load-delay", "it is for tests of the server"}, {"watchdog-period", "it is for tests of the server"},
}

// refuseForeignDatabase finds names that would lead out of the namespace. Whether the database exists is not judged:
// both may be applied at once, in any order, and the cache waits for its database.
func refuseForeignDatabase(cache *v1alpha1.GeoCache) []Problem {
	if len(validation.IsDNS1035Label(cache.Spec.DatabaseRef.Name)) == 0 {
		return nil
	}
	return []Problem{{"spec.databaseRef.name", fmt.Sprintf("%q is not the name of a GeoDatabase; write the bare name of "+
		"one in the same namespace, a cache cannot serve a database of another namespace", cache.Spec.DatabaseRef.Name)}}
}

func refuseOddCacheImage(cache *v1alpha1.GeoCache) []Problem { return judgeImage(cache.Spec.Image) }

func refuseUnwritableCacheValue(cache *v1alpha1.GeoCache) []Problem {
	var problems []Problem
	for _, entry := range settings(cache.Spec.Parameters) {
		if why := unwritable(entry.value, `"'\`); why != "" {
			problems = append(problems, entry.problem("%s; write the bare value, as in redis.conf without quotes", why))
		}
	}
	return problems
}

// refuseUnfitCacheNames judges by Meridian's own images: another image may have a server with more settings.
func refuseUnfitCacheNames(cache *v1alpha1.GeoCache) []Problem {
	var problems []Problem
	known := cacheNames[cache.Spec.Engine]
	for _, entry := range settings(cache.Spec.Parameters) {
		if why := managed(managedCacheNames, entry.name); why != "" {
			problems = append(problems, entry.problem("is managed by Meridian; remove it: %s", why))
			continue
		}
		if cache.Spec.Image == "" && len(known) > 0 && !slices.Contains(known, entry.name) {
			problems = append(problems, entry.problem("%s has no such setting%s; correct or remove it",
				cache.Spec.Engine, suggestion(entry.name, known)))
		}
	}
	return problems
}
