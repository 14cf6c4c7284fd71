package admit

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"meridian.dev/meridian/api/v1alpha1"
)

// AllowedCacheNames are the settings of a server that a cache may have: those that both servers know and change while
// they run, and that endanger neither the data, nor who may come in, nor the container. The rules of the schema
// are generated from this list. The folder catalogue has all names of the servers; this line, run for redis and for
// valkey, writes a file anew:
//
//	kubectl run catalogue --rm -i -q --restart=Never --image=localhost/meridian/redis:8 --command -- sh -c '
//	  redis-server --port 0 --unixsocket /tmp/socket >/dev/null & sleep 1
//	  redis-cli -s /tmp/socket --raw CONFIG GET "*" | sed -n "p;n" | LC_ALL=C sort' >redis.txt
var AllowedCacheNames = []string{
	"active-defrag-cycle-max", "active-defrag-cycle-min", "active-defrag-ignore-bytes",
	"active-defrag-max-scan-fields", "active-defrag-threshold-lower", "active-defrag-threshold-upper",
	"active-expire-effort", "activedefrag", "activerehashing",
	"busy-reply-threshold", "hash-max-listpack-entries", "hash-max-listpack-value",
	"hll-sparse-max-bytes", "hz", "latency-monitor-threshold",
	"latency-tracking", "latency-tracking-info-percentiles", "lazyfree-lazy-eviction",
	"lazyfree-lazy-expire", "lazyfree-lazy-server-del", "lazyfree-lazy-user-del",
	"lazyfree-lazy-user-flush", "lfu-decay-time", "lfu-log-factor",
	"list-compress-depth", "list-max-listpack-size", "maxmemory-eviction-tenacity",
	"maxmemory-samples", "notify-keyspace-events", "set-max-intset-entries",
	"set-max-listpack-entries", "set-max-listpack-value", "slowlog-log-slower-than",
	"slowlog-max-len", "stream-node-max-bytes", "stream-node-max-entries",
	"tcp-keepalive", "timeout", "tracking-table-max-keys",
	"zset-max-listpack-entries", "zset-max-listpack-value",
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

// cacheProblem names the field in the way of a map.
func cacheProblem(name, format string, args ...any) Problem {
	return Problem{Field: "spec.parameters[" + name + "]", Detail: fmt.Sprintf(format, args...)}
}

func refuseUnwritableCacheValue(cache *v1alpha1.GeoCache) []Problem {
	var problems []Problem
	for _, entry := range settings(cache.Spec.Parameters) {
		if why := unwritable(entry.value, `"'\`); why != "" {
			problems = append(problems, cacheProblem(entry.name,
				"%s; write the bare value, as in redis.conf without quotes", why))
		}
	}
	return problems
}

// refuseOtherCacheNames leaves what is not on the list to Meridian and to the defaults of the server.
func refuseOtherCacheNames(cache *v1alpha1.GeoCache) []Problem {
	var problems []Problem
	for _, entry := range settings(cache.Spec.Parameters) {
		if !slices.Contains(AllowedCacheNames, entry.name) {
			problems = append(problems, cacheProblem(entry.name, "is not allowed%s; correct or remove it. Allowed are %s",
				suggestion(entry.name, AllowedCacheNames), strings.Join(AllowedCacheNames, ", ")))
		}
	}
	return problems
}
