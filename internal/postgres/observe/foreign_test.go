package observe_test

import (
	"testing"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/observe"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// B3: a member that has more than the primary is of another timeline, and what the server has counted of it stays for
// as long as that start of the server lives.
func TestAForeignPositionIsRemembered(t *testing.T) {
	var memory observe.Foreign
	pass := func(start string, sender postgres.Sender) string {
		return memory.Look(postgres.Snapshot{
			Standing: tenure.Standing{Role: tenure.RoleLead, Setting: tenure.Setting{K: 1, Names: []wire.Member{two}}},
			Process:  postgres.Process{Running: true, Start: start},
			Server: postgres.Server{Reachable: true, Timeline: 2, Replication: postgres.Replication{
				Flushed: 1000, Senders: []postgres.Sender{sender},
			}},
		})
	}
	for name, sender := range map[string]postgres.Sender{
		"a member that has all":      {Member: two, Flushed: 1000, Priority: 1},
		"one that joins":             {Member: two, Flushed: 1001, Joining: true},
		"one that counts for nobody": {Member: three, Flushed: 1001},
	} {
		if text := pass("s1", sender); text != "" {
			t.Errorf("%s: %s", name, text)
		}
	}
	// A sender that has the priority of before counts, whatever the wish is now.
	for name, sender := range map[string]postgres.Sender{
		"a member":        {Member: two, Flushed: 1001},
		"a former member": {Member: three, Flushed: 1001, Priority: 1},
	} {
		if text := pass(name, sender); text == "" {
			t.Errorf("%s with more than the primary was not noticed", name)
		}
		if text := pass(name, postgres.Sender{}); text == "" {
			t.Errorf("%s: forgotten when it was gone", name)
		}
	}
	if text := pass("s9", postgres.Sender{}); text != "" {
		t.Errorf("another start of the server: %s", text)
	}
}
