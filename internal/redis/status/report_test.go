package status_test

import (
	"testing"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/redis/status"
)

// Whom applications trust changes by a step when every instance presents what the one before has brought, so an
// instance says that it does only when the server has read it and was seen to show it.
func TestWhichCertificateIsReported(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*redis.Snapshot)
		want   string
	}{
		"what is stored is loaded and shown": {func(*redis.Snapshot) {}, "c2"},
		"the server was not told to read it": {func(s *redis.Snapshot) { s.Server.Loaded = "c1" }, ""},
		"it shows another leaf":              {func(s *redis.Snapshot) { s.Server.Presented = "l1" }, ""},
		"nobody could look what it shows":    {func(s *redis.Snapshot) { s.Server.Presented = "" }, ""},
		"the server does not answer":         {func(s *redis.Snapshot) { s.Server.Reachable = false }, ""},
	} {
		snapshot := redis.Snapshot{
			Instance: "tiles-1", Process: redis.Process{Running: true},
			Certificate: redis.Certificate{Mounted: "c2", Installed: "c2", Leaf: "l2"},
			Server:      redis.Server{Reachable: true, Loaded: "c2", Presented: "l2"},
		}
		test.change(&snapshot)
		if got := status.Report(snapshot, redis.Plan{}, redis.Outcome{}).Certificate; got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
