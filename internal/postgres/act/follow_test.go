package act_test

import (
	"errors"
	"slices"
	"testing"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/act"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// B3: a copy that ends at 5 on timeline 1 follows a primary whose history holds that, when nothing takes the log of
// another any more, and is not cut off again for the same primary and term.
func TestACopyIsJudgedBeforeItFollows(t *testing.T) {
	fits := postgres.FollowUpstream{History: postgres.History{{Timeline: 1}, {Timeline: 2, Begin: 5}}}
	other := postgres.FollowUpstream{History: postgres.History{{Timeline: 1}, {Timeline: 2, Begin: 4}}}
	follow := tenure.Standing{
		Serial: 4, Role: tenure.RoleFollow, Term: 2, Upstream: wire.Member{Name: "cities-2", Incarnation: "i2"},
	}
	again := follow
	again.Serial++
	next := follow
	next.Serial, next.Term = 6, 3
	catch := tenure.Standing{Serial: 7, Role: tenure.RoleCatchUp}
	type step struct {
		standing tenure.Standing
		action   postgres.FollowUpstream
		receiver error
		// done is how often the upstream file is written: first to follow nobody, then to follow.
		done []string
	}
	whole, cut := []string{"upstream", "upstream"}, []string{"upstream"}
	for name, steps := range map[string][]step{
		"it fits":                   {{follow, fits, nil, whole}},
		"it has left the history":   {{follow, other, nil, cut}},
		"no history":                {{follow, postgres.FollowUpstream{}, nil, cut}},
		"a receiver lives":          {{follow, fits, errors.New("it lives"), cut}},
		"the same primary and term": {{follow, fits, nil, whole}, {again, fits, nil, cut}},
		"another term":              {{follow, fits, nil, whole}, {next, other, nil, cut}},
		"after the log of another member": {
			{follow, fits, nil, whole}, {catch, postgres.FollowUpstream{}, nil, cut}, {follow, fits, nil, whole},
		},
		"after it did not fit": {{follow, other, nil, cut}, {again, fits, nil, whole}},
	} {
		volume, process := &disk{}, &runner{}
		actor := act.Actor{Ports: postgres.Ports{Disk: volume, Runner: process, Mounts: mounts{}}, Authority: &authority{}}
		for number, step := range steps {
			volume.done, process.receiver = nil, step.receiver
			outcome := actor.Do(t.Context(), step.standing, postgres.Plan{Actions: []postgres.Action{step.action}})
			if !slices.Equal(volume.done, step.done) {
				t.Errorf("%s, step %d: did %v, want %v: %+v", name, number, volume.done, step.done, outcome)
			}
		}
	}
}
