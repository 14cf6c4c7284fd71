package observe_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/observe"
)

func TestFleet(t *testing.T) {
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: "gis", Name: name} }
	fleet := &observe.Fleet{Most: 2, Failures: 2}
	for _, name := range []string{"a", "b"} {
		if why := fleet.Begin(key(name)); why != "" {
			t.Fatalf("%s is held: %s", name, why)
		}
	}
	if why := fleet.Begin(key("c")); !strings.Contains(why, "at most 2") {
		t.Errorf("a third one begins: %q", why)
	}
	if why := fleet.Held(key("a")); why != "" {
		t.Errorf("one that has begun is held: %s", why)
	}
	fleet.Note(key("a"), "")
	if why := fleet.Held(key("c")); why != "" {
		t.Errorf("there is room, and it is held: %s", why)
	}
	fleet.Note(key("a"), database.RollStopped)
	if why := fleet.Held(key("c")); why != "" {
		t.Errorf("held after one failure: %s", why)
	}
	fleet.Note(key("b"), database.RollStopped)
	if why := fleet.Held(key("c")); !strings.Contains(why, "gis/a, gis/b") {
		t.Errorf("goes on after two failures: %q", why)
	}
	fleet.Forget(key("a"))
	if why := fleet.Begin(key("c")); why != "" {
		t.Errorf("held although one was mended: %s", why)
	}
	var none *observe.Fleet
	if why := none.Held(key("a")); why != "" {
		t.Errorf("held without a fleet: %s", why)
	}
}
