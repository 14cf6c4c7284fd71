package operated

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/kit/rule"
	store "meridian.dev/meridian/kit/sim"
	"meridian.dev/meridian/kit/sim/search"
	"meridian.dev/meridian/test/sim/law"
	"meridian.dev/meridian/test/sim/lives"
)

// judge is what somebody knows who sees the whole world, beside what package sim knows of the agents.
type judge struct {
	// down is since when an instance neither serves nor follows, 0 if it does either, and counted since when the lease
	// counts on its copy, 0 if it does not.
	down, counted []time.Duration
	// served is when somebody last let applications write, held since when the holder has been the same.
	served, held time.Duration
	// unwell is when the operator last could not know everything.
	unwell time.Duration
	// renewed is when the lease changed last, and revived when it last did after more than half of its duration.
	renewed, revived time.Duration
	// replaced is when another process of the operator began last.
	replaced time.Duration
	holder   string
}

// lately is how long ago something may have become so that the operator did not know of when it decided.
const lately = 10 * time.Second

// watch looks how all instances are.
func (c *Cluster) watch() {
	record := c.Stored()
	for who := range c.pods {
		_, leads := c.Leads(who)
		if leads {
			c.served = c.Now()
		}
		c.since(&c.down[who], !leads && !(c.Ready(who) && c.of.follows(who)))
		c.since(&c.counted[who], record != nil && record.Has(c.member(who)))
	}
	if holder := c.Holder().Name; holder != c.holder {
		c.holder, c.held = holder, c.Now()
	}
	c.judgeStatus()
	c.of.attend()
	c.After(watchEvery, c.watch)
}

// since notes since when something is so.
func (c *Cluster) since(noted *time.Duration, so bool) {
	switch {
	case !so:
		*noted = 0
	case *noted == 0:
		*noted = c.Now()
	}
}

// member is an instance with the copy that it has.
func (c *Cluster) member(who int) wire.Member {
	return wire.Member{Name: instanceName(who), Incarnation: c.Copy(who)}
}

// judgeCall is asked about every write of the operator right before it is carried out.
func (c *Cluster) judgeCall(call store.Call) {
	c.ask(law.Conditional, call, func(call store.Call) error { return lives.IsConditional(search.State{}, call) })
	c.ask(law.Allowed, call, func(call store.Call) error { return lives.IsAllowed(search.State{}, call) })
	c.ask(law.StopOne, call, c.stopsOne)
	c.of.weigh(call)
}

func (c *Cluster) ask(broken rule.Rule, call store.Call, about func(store.Call) error) {
	if err := about(call); err != nil {
		c.Wrong(broken, "%s: %v", call, err)
	}
}

// takes says which instance a call takes something from, if it does, and would be carried out.
func (c *Cluster) takes(call store.Call, kinds ...string) (int, bool) {
	if call.Verb != store.Delete || !slices.Contains(kinds, call.Kind.Kind) || !c.Serves() {
		return 0, false
	}
	found, err := c.server.Get(store.Target{Kind: call.Kind, Key: call.Key})
	if err != nil || found.GetDeletionTimestamp() != nil || call.UID != "" && call.UID != found.GetUID() ||
		call.ResourceVersion != "" && call.ResourceVersion != found.GetResourceVersion() {
		return 0, false
	}
	return c.whose(call.Key.Name)
}

// stopsOne has the operator stop no primary while another instance could take over, and none while another one is down.
// The pod of a cache's primary hands over when it is told to end, if there is somebody who could take over. A cache
// that counts on an instance no more loses nothing with it.
func (c *Cluster) stopsOne(call store.Call) error {
	who, takes := c.takes(call, "Pod", "StatefulSet")
	record, volatile := c.Stored(), c.Case.Volatile
	if !takes || c.down[who] != 0 || record == nil || volatile && !record.Has(c.member(who)) {
		return nil // It is down already.
	}
	others := 0
	for _, member := range record.Members {
		other, known := c.whose(member.Name)
		if !known || other == who {
			continue
		}
		if since := c.down[other]; since > 0 && c.Now()-since > lately {
			return fmt.Errorf("%s has been down for %s", member.Name, c.Now()-since)
		}
		others++
	}
	ends := volatile && call.Kind.Kind == "Pod"
	switch leads := c.holder == instanceName(who) && c.Now()-c.held > lately; {
	case leads && others > 0 && !ends:
		return fmt.Errorf("%s is the primary", c.holder)
	case leads && others == 0 && ends:
		return errors.New("it has the only copy")
	}
	return nil
}

// judgeStatus asks whether the status says that all is well while nobody serves, and the operator could know.
func (c *Cluster) judgeStatus() {
	if c.Away() || c.operator.ended || c.Now() < c.operator.stalls {
		c.unwell = c.Now()
	}
	silent := min(c.Now()-c.served, c.Now()-c.unwell)
	if silent <= readyAfter || !c.Serves() {
		return
	}
	object := c.of.seen()
	ready := condition.IsTrue(object.conditions, condition.Ready)
	if ready && object.observed == object.GetGeneration() {
		c.Wrong(law.TellTruth, "the status says Ready, and nobody has let applications write for %s", silent)
	}
}

// readyAfter is how long after the last write of applications the status may say that all is well: the lease lasts 10
// seconds, and a pass whose calls are late takes its time.
const readyAfter = 25 * time.Second

// judgePass asks at the end of a pass whether its status calls the lease expired for the first time, while it was
// renewed all the time that the pass took. It is not asked about what a pass before it has said: a pass may leave that.
// Nor is it while a late call of the process before it may arrive, which has seen another lease.
func (c *Cluster) judgePass(o *operator) {
	if o.began > max(c.revived, c.replaced+lately) && !c.isSilent() && !o.saidExpired && c.saysExpired() {
		c.Wrong(law.BelieveRenewals, "the status calls the lease expired, which was renewed %s ago", c.Now()-c.renewed)
	}
}

// isSilent says that the lease was not renewed for half of its duration.
func (c *Cluster) isSilent() bool { return c.Now()-c.renewed > c.lease().Duration/2 }

// noteRenewal takes note of a change of the lease.
func (c *Cluster) noteRenewal() {
	if c.isSilent() {
		c.revived = c.Now()
	}
	c.renewed = c.Now()
}

// saysExpired says that the status calls the lease expired.
func (c *Cluster) saysExpired() bool {
	object := c.of.seen()
	if object == nil {
		return false
	}
	return slices.ContainsFunc(object.conditions, func(said metav1.Condition) bool {
		return said.Reason == "LeaseExpired" || strings.Contains(said.Message, "has not renewed the lease")
	})
}
