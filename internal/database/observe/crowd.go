package observe

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"meridian.dev/meridian/internal/database"
)

// Crowd is what restores on trial of all databases share: the room of the cluster, the bandwidth of stores, and the
// patience of the API server. What it knows is of this process alone: one that starts learns it with its first look at
// each database. It is safe for concurrent use.
//
// Namespaces are tenants: none learns a name of another.
type Crowd struct {
	// Most is how many restores on trial there may be at once. Zero means any number.
	Most int

	lock    sync.Mutex
	members map[types.NamespacedName]guest
}

// guest is what is known of one database.
type guest struct {
	// tries says that there is a pod that restores on trial, or is about to be.
	tries bool
	// need is what an instance lacks, since when.
	need  database.Need
	since time.Time
	// pod is what the API server was asked about last, at is when, and answer what it said.
	pod    string
	at     time.Time
	answer database.Trials
}

const (
	// nodePatience is how long restores on trial make way everywhere for an instance that finds no node: what has not
	// helped by then does not.
	nodePatience = time.Hour
	// askAgain is how long the API server's no to a pod counts.
	askAgain = 5 * time.Minute
)

// Look takes note of whether a database is restored on trial, and tells what the others leave to it.
func (c *Crowd) Look(key types.NamespacedName, tries bool, now time.Time) database.Crowd {
	if c == nil {
		return database.Crowd{}
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	self := c.members[key]
	self.tries = tries
	c.set(key, self)
	return database.Crowd{Need: c.need(key, now), Held: c.held(key), Since: self.since}
}

// need says which instance of another database goes first.
func (c *Crowd) need(of types.NamespacedName, now time.Time) string {
	var here []string
	elsewhere := false
	for key, one := range c.members {
		lasts := now.Sub(one.since)
		switch {
		case key == of || one.need.Why == "":
		case one.need.Within && (key.Namespace != of.Namespace || lasts < database.NeedPatience):
		case !one.need.Within && lasts > nodePatience:
		case key.Namespace == of.Namespace:
			here = append(here, one.need.Why)
		default:
			elsewhere = true
		}
	}
	if len(here) > 0 {
		return slices.Min(here)
	}
	if elsewhere {
		return "an instance of another namespace finds no node"
	}
	return ""
}

// held says why no restore on trial may begin.
func (c *Crowd) held(of types.NamespacedName) string {
	count := 0
	for key, one := range c.members {
		if one.tries && key != of {
			count++
		}
	}
	if c.Most > 0 && count >= c.Most && !c.members[of].tries {
		return fmt.Sprintf("%d other databases are being restored on trial, and at most %d may be at once", count, c.Most)
	}
	return ""
}

// Begin is asked right before a pod is made: of two passes that saw the same room, one gets it. If it is not made, the
// next look gives the room back.
func (c *Crowd) Begin(key types.NamespacedName) string {
	c.lock.Lock()
	defer c.lock.Unlock()
	if why := c.held(key); why != "" {
		return why
	}
	self := c.members[key]
	self.tries = true
	c.set(key, self)
	return ""
}

// Note takes note of what a pass has found that instances lack.
func (c *Crowd) Note(key types.NamespacedName, need database.Need, now time.Time) {
	c.lock.Lock()
	defer c.lock.Unlock()
	self := c.members[key]
	if need.Why == "" {
		self.since = time.Time{}
	} else if self.since.IsZero() || self.need.Within != need.Within {
		self.since = now
	}
	self.need = need
	c.set(key, self)
}

// refused is what the API server has said lately to the same pod, false if it is to be asked.
func (c *Crowd) refused(key types.NamespacedName, pod string, now time.Time) (database.Trials, bool) {
	if c == nil {
		return database.Trials{}, false
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	one := c.members[key]
	return one.answer, one.pod == pod && one.answer.Refusal != "" && now.Sub(one.at) < askAgain && !now.Before(one.at)
}

// heard remembers what the API server has said to a pod.
func (c *Crowd) heard(key types.NamespacedName, pod string, answer database.Trials, now time.Time) {
	if c == nil {
		return
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	self := c.members[key]
	self.pod, self.answer, self.at = pod, answer, now
	c.set(key, self)
}

func (c *Crowd) set(key types.NamespacedName, one guest) {
	if c.members == nil {
		c.members = map[types.NamespacedName]guest{}
	}
	c.members[key] = one
}

// Forget drops a database that is gone.
func (c *Crowd) Forget(key types.NamespacedName) {
	c.lock.Lock()
	defer c.lock.Unlock()
	delete(c.members, key)
}
