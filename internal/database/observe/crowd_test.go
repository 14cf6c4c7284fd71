package observe_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/observe"
)

func member(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// TestTrialsOfManyWaitForRoom has a store come back that two hundred databases have waited for: ten begin.
func TestTrialsOfManyWaitForRoom(t *testing.T) {
	crowd, now := &observe.Crowd{Most: 10}, time.Now()
	key := func(number int) types.NamespacedName { return member("gis", "db-"+string(rune('a'+number))) }
	begun := 0
	for number := range 26 {
		if crowd.Look(key(number), false, now).Held == "" && crowd.Begin(key(number)) == "" {
			begun++
		}
	}
	if begun != 10 {
		t.Errorf("%d begin", begun)
	}
	if held := crowd.Look(key(0), true, now).Held; held != "" {
		t.Errorf("one that runs is held: %s", held)
	}
	if why := crowd.Begin(key(20)); !strings.Contains(why, "at most 10") {
		t.Errorf("an eleventh begins: %q", why)
	}
	crowd.Look(key(3), false, now)
	if why := crowd.Begin(key(20)); why != "" {
		t.Errorf("one has ended, and none may begin: %s", why)
	}
	crowd.Forget(key(5))
	if why := crowd.Begin(key(21)); why != "" {
		t.Errorf("one is deleted, and none may begin: %s", why)
	}
	var none *observe.Crowd
	if told := none.Look(key(0), true, now); told != (database.Crowd{}) {
		t.Errorf("without others it is said that %+v", told)
	}
}

// TestInstancesOfOthersGoFirst has instances of other databases lack what a restore on trial may have.
func TestInstancesOfOthersGoFirst(t *testing.T) {
	begin := time.Now()
	const elsewhere = "an instance of another namespace finds no node"
	node, quota := database.Need{Why: "b-2 finds no node"}, database.Need{Why: "b-2 has no pod", Within: true}
	for name, test := range map[string]struct {
		who   types.NamespacedName
		need  database.Need
		after time.Duration
		want  string
	}{
		"nothing":                      {who: member("gis", "b"), after: time.Minute},
		"a node":                       {who: member("gis", "b"), need: node, want: node.Why},
		"a node, for too long":         {who: member("gis", "b"), need: node, after: 2 * time.Hour},
		"a node, in another namespace": {who: member("sea", "b"), need: node, want: elsewhere},
		"its own":                      {who: member("gis", "a"), need: node},
		"a pod, for a moment":          {who: member("gis", "b"), need: quota, after: 5 * time.Second},
		"a pod":                        {who: member("gis", "b"), need: quota, after: time.Minute, want: quota.Why},
		"a pod, in another namespace":  {who: member("sea", "b"), need: quota, after: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			crowd := &observe.Crowd{}
			crowd.Note(test.who, database.Need{Why: "b-3 finds no node"}, begin.Add(-time.Hour))
			crowd.Note(test.who, database.Need{}, begin.Add(-time.Minute))
			crowd.Note(test.who, test.need, begin)
			crowd.Note(test.who, test.need, begin.Add(test.after))
			told := crowd.Look(member("gis", "a"), true, begin.Add(test.after))
			if told.Need != test.want {
				t.Errorf("it is said that %q goes first, want %q", told.Need, test.want)
			}
			if own := test.who == member("gis", "a"); own != told.Since.Equal(begin) {
				t.Errorf("it lacks something itself since %s", told.Since)
			}
		})
	}
}
