package operated

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"meridian.dev/meridian/api/v1alpha1"
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
	// down is since when an instance neither serves nor follows, 0 if it does either.
	down []time.Duration
	// served is when somebody last let applications write, held since when the holder has been the same.
	served, held time.Duration
	// unwell is when the operator last could not know everything.
	unwell time.Duration
	holder string
}

// lately is how long ago something may have become so that the operator did not know of when it decided.
const lately = 10 * time.Second

// watch looks how all instances are.
func (d *Database) watch() {
	for who := range d.pods {
		_, leads := d.Leads(who)
		if leads {
			d.served = d.Now()
		}
		report, _ := d.Report(who)
		switch up := leads || d.Ready(who) && report.Streams; {
		case up:
			d.down[who] = 0
		case d.down[who] == 0:
			d.down[who] = d.Now()
		}
	}
	if holder := d.Holder().Name; holder != d.holder {
		d.holder, d.held = holder, d.Now()
	}
	d.judgeStatus()
	d.After(watchEvery, d.watch)
}

// judgeCall is asked about every write of the operator right before it is carried out.
func (d *Database) judgeCall(call store.Call) {
	for _, each := range []struct {
		rule rule.Rule
		ask  func(store.Call) error
	}{
		{law.Conditional, func(call store.Call) error { return lives.IsConditional(search.State{}, call) }},
		{law.Allowed, func(call store.Call) error { return lives.IsAllowed(search.State{}, call) }},
		{law.StopOne, d.stopsOne},
		{law.TakeNoCopy, d.takesNoCopy},
		{law.KeepClaims, d.keepsClaims},
	} {
		if err := each.ask(call); err != nil {
			d.Wrong(each.rule, "%s: %v", call, err)
		}
	}
}

// takes says which instance a call takes something from, if it does, and would be carried out.
func (d *Database) takes(call store.Call, kinds ...string) (int, bool) {
	if call.Verb != store.Delete || !slices.Contains(kinds, call.Kind.Kind) || !d.Serves() {
		return 0, false
	}
	found, err := d.server.Get(store.Target{Kind: call.Kind, Key: call.Key})
	if err != nil || found.GetDeletionTimestamp() != nil || call.UID != "" && call.UID != found.GetUID() ||
		call.ResourceVersion != "" && call.ResourceVersion != found.GetResourceVersion() {
		return 0, false
	}
	return d.whose(call.Key.Name)
}

// stopsOne has the operator stop no primary while another instance could take over, and none while another one is down.
func (d *Database) stopsOne(call store.Call) error {
	who, takes := d.takes(call, "Pod", "StatefulSet")
	record := d.Stored()
	if !takes || d.down[who] != 0 || record == nil {
		return nil // It is down already.
	}
	others := 0
	for _, member := range record.Members {
		other, known := d.whose(member.Name)
		if !known || other == who {
			continue
		}
		if since := d.down[other]; since > 0 && d.Now()-since > lately {
			return fmt.Errorf("%s has been down for %s", member.Name, d.Now()-since)
		}
		others++
	}
	if d.holder == instanceName(who) && d.Now()-d.held > lately && others > 0 {
		return fmt.Errorf("%s is the primary", d.holder)
	}
	return nil
}

// takesNoCopy has the operator take nothing away that the agents count on.
func (d *Database) takesNoCopy(call store.Call) error {
	who, takes := d.takes(call, "StatefulSet", "PersistentVolumeClaim")
	record := d.Stored()
	if !takes || record == nil {
		return nil
	}
	member := wire.Member{Name: instanceName(who), Incarnation: d.Copy(who)}
	if record.Has(member) {
		return fmt.Errorf("the lease counts on %s", member)
	}
	return nil
}

// keepsClaims has the operator delete no claim against the word of the spec, and none with the last copy.
func (d *Database) keepsClaims(call store.Call) error {
	who, takes := d.takes(call, "PersistentVolumeClaim")
	record := d.Stored()
	switch {
	case !takes:
		return nil
	case d.object().Spec.Storage.Reclaim != v1alpha1.ReclaimDelete:
		return errors.New("spec.storage.reclaim is not Delete")
	case record == nil || !record.Initialised:
		return nil
	}
	for _, member := range record.Members {
		if other, known := d.whose(member.Name); known && other != who && d.Copy(other) == member.Incarnation {
			return nil
		}
	}
	return errors.New("no other copy is there")
}

// judgeStatus asks whether the status says that all is well while nobody serves, and the operator could know.
func (d *Database) judgeStatus() {
	if d.Away() || d.operator.ended || d.Now() < d.operator.stalls {
		d.unwell = d.Now()
	}
	silent := min(d.Now()-d.served, d.Now()-d.unwell)
	if silent <= readyAfter || !d.Serves() {
		return
	}
	object := d.object()
	ready := condition.IsTrue(object.Status.Conditions, condition.Ready)
	if ready && object.Status.ObservedGeneration == object.Generation {
		d.Wrong(law.TellTruth, "the status says Ready, and nobody has let applications write for %s", silent)
	}
}

// readyAfter is how long after the last write of applications the status may say that all is well: the lease lasts 10
// seconds, and a pass whose calls are late takes its time.
const readyAfter = 25 * time.Second
