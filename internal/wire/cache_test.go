package wire_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/wire"
)

func cacheSettings() wire.CacheSettings {
	return wire.CacheSettings{
		Version: 1, CacheUID: "4e1a", Cache: "tiles", Engine: "redis", Memory: 64 << 20, EvictionPolicy: "allkeys-lru",
		Parameters: []wire.Parameter{{Name: "hash-max-listpack-entries", Value: "64"}, {Name: "hz", Value: "33"}},
		LeaseUID:   "1e5e", Instances: []string{"tiles-1", "tiles-2"}, LeaseMilliseconds: 10000,
	}
}

func cacheReport() wire.CacheReport {
	return wire.CacheReport{
		Version: 1, CacheUID: "4e1a", Instance: "tiles-1", Incarnation: "c0de", State: wire.StateRunning,
		Role: wire.RolePrimary, Offset: 42, ServerVersion: "8.0.2", SettingsHash: "ab12",
		Memory:         wire.CacheMemory{Allowed: 64 << 20, Used: 32 << 20, Resident: 40 << 20, Limit: 208 << 20},
		Use:            wire.CacheUse{Clients: 3, Hits: 90, Misses: 10, Evicted: 7},
		PendingRestart: []string{"databases"}, Term: 3, Holder: "tiles-1", Standing: "Lead", Serving: true, Flushed: "f1",
		Reason: wire.ReasonMemoryLimited, Message: "it has to grow first",
	}
}

func TestCacheGolden(t *testing.T) {
	document, err := cacheSettings().Encode()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "cache-settings-v1.json", document)
	settings, err := wire.DecodeCacheSettings(document)
	if diff := cmp.Diff(cacheSettings(), settings); diff != "" || err != nil {
		t.Errorf("%v; settings do not come back (-want +got):\n%s", err, diff)
	}
	// The hash is compared between programs of different releases, so it is frozen with the version.
	const frozen = "ab01b9965bce1bf20492ae310f4a6a6ca4be6fd928fee0557801034b4f18cd4f"
	if got := cacheSettings().Hash(); got != frozen {
		t.Errorf("hash %s, want %s", got, frozen)
	}
	if document, err = cacheReport().Encode(); err != nil {
		t.Fatal(err)
	}
	golden(t, "cache-report-v1.json", document)
	report, err := wire.DecodeCacheReport(document)
	if diff := cmp.Diff(cacheReport(), report); diff != "" || err != nil {
		t.Errorf("%v; the report does not come back (-want +got):\n%s", err, diff)
	}
}

func TestDecodeCacheSettingsRefuses(t *testing.T) {
	document, err := cacheSettings().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ old, new, want string }{
		"a newer version":     {`"version":1`, `"version":2,"more":true`, "version: is 2"},
		"an unknown field":    {`"engine":"redis"`, `"engine":"redis","port":1`, `unknown field "port"`},
		"another engine":      {`"engine":"redis"`, `"engine":"memcached"`, "engine"},
		"no cache":            {`"cacheUID":"4e1a"`, `"cacheUID":""`, "cacheUID: is empty"},
		"no memory":           {`"memory":67108864`, `"memory":0`, "memory"},
		"a policy of words":   {`allkeys-lru`, `allkeys-lru\nsave 1 1`, "evictionPolicy"},
		"a second line":       {`"64"`, `"64\nsave 1 1"`, "one line"},
		"a name with a blank": {`"hz"`, `"hz x"`, "is not a name"},
		"parameters unsorted": {`"hz"`, `"a"`, "out of order"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(string(document), test.old, test.new, 1)
			if changed == string(document) {
				t.Fatal("the case changes nothing")
			}
			if _, err := wire.DecodeCacheSettings([]byte(changed)); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestDecodeCacheReportRefuses(t *testing.T) {
	for name, change := range map[string]func(*wire.CacheReport){
		"no instance":              func(r *wire.CacheReport) { r.Instance = "" },
		"an unknown state":         func(r *wire.CacheReport) { r.State = "asleep" },
		"an unknown role":          func(r *wire.CacheReport) { r.Role = "boss" },
		"a failure without reason": func(r *wire.CacheReport) { r.State, r.Reason = wire.StateFailed, "" },
	} {
		t.Run(name, func(t *testing.T) {
			bad := cacheReport()
			change(&bad)
			if _, err := bad.Encode(); err == nil {
				t.Error("encoded")
			}
		})
	}
}

// TestCacheMemory holds the two directions against each other: what was rendered for some data carries exactly that.
func TestCacheMemory(t *testing.T) {
	for _, data := range []int64{wire.LeastMemory, 16 << 20, 64<<20 + 1, 256 << 20, 1 << 40, 12345678901} {
		limit := wire.CacheLimit(data)
		if got := wire.CacheCapacity(limit); got < data || wire.CacheLimit(got) > limit {
			t.Errorf("a container for %d has room for %d", data, got)
		}
		if got := wire.CacheCapacity(limit - 1); got >= data {
			t.Errorf("a container that is one byte smaller than for %d has room for %d", data, got)
		}
		if limit < data+data/8+64<<20 {
			t.Errorf("a container of %d for %d of data is too tight", limit, data)
		}
	}
	if got := wire.CacheCapacity(1000); got != 0 {
		t.Errorf("a tiny container has room for %d", got)
	}
	for _, resident := range []int64{0, 1, 100 << 20, 100<<20 + 1} {
		if got := wire.CacheNeeds(resident); got < resident+64<<20 || got > resident+81<<20 {
			t.Errorf("a server that takes %d needs %d", resident, got)
		}
	}
}
