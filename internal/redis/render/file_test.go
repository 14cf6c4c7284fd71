package render_test

import (
	"testing"

	"meridian.dev/meridian/internal/redis"
	"meridian.dev/meridian/internal/redis/render"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/scenario"
)

// story is what a file is made of, for people.
type story struct {
	Memory int64            `json:"memory"`
	Policy string           `json:"policy"`
	Fixed  []wire.Parameter `json:"fixed,omitempty"`
}

func TestGolden(t *testing.T) {
	scenario.Run(t, "testdata/*.txtar", func(in scenario.Files) (out scenario.Files) {
		var told story
		in.YAML("start.yaml", &told)
		out.SetText("server.conf", render.File(render.Input{
			Runtime: "/run/meridian", Port: 6379, AgentHash: "5e88",
			Start: redis.StartServer{Memory: told.Memory, Policy: told.Policy, Fixed: told.Fixed},
		}))
		return out
	})
}
