package agent_test

import (
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/internal/agent"
)

func TestCacheOptions(t *testing.T) {
	whole := agent.CacheOptions{Cache: "tiles", Stop: time.Second, Options: agent.Options{
		Instance: "tiles-1", Namespace: "here", Pod: "tiles-1-0", Address: "10.0.0.1",
	}}
	for name, test := range map[string]struct {
		change func(*agent.CacheOptions)
		want   string
	}{
		"all is there": {func(*agent.CacheOptions) {}, ""},
		"no cache":     {func(o *agent.CacheOptions) { o.Cache = "" }, "MERIDIAN_CACHE"},
		"no instance":  {func(o *agent.CacheOptions) { o.Instance = "" }, "MERIDIAN_INSTANCE"},
		"no pod":       {func(o *agent.CacheOptions) { o.Address = "" }, "POD_IP"},
		"no bound":     {func(o *agent.CacheOptions) { o.Stop = 0 }, "bound of a stop"},
	} {
		t.Run(name, func(t *testing.T) {
			options := whole
			test.change(&options)
			err := options.Check()
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
