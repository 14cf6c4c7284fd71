package operated

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/test/sim"
	"meridian.dev/meridian/test/sim/kube"
	"meridian.dev/meridian/test/sim/law"
)

// Flaw is a mistake put in on purpose where the operator and the agents meet: in what the operator sees of them, so
// that production code stays as it is. Each of them has to be found.
type Flaw struct {
	Name string
	// Rule is the id of the rule that it breaks.
	Rule string
	// Sees makes what changes the objects that the operator reads, Told what changes the reports that it is told of a
	// database, and ToldOfCache those of a cache. Each may be nil. All are made once for each process.
	Sees        func() func(client.Object)
	Told        func(asks[wire.Report]) asks[wire.Report]
	ToldOfCache func(asks[wire.CacheReport]) asks[wire.CacheReport]
	// Cache says that it shows in a cache.
	Cache bool
	// Deaf means that no lease ever seems to expire, OldLeases that no lease is read live.
	Deaf, OldLeases bool
	// Faults are what shows it, beside those of a swarm.
	Faults []sim.Fault
}

// Flaws are all of them.
func Flaws() []Flaw {
	const s = time.Second
	image := sim.Fault{Kind: FaultImage, At: Began + 15*s, Wish: 9}
	return []Flaw{
		{Name: "every replica is taken for one that streams", Rule: law.StopOne.ID, Sees: seesAllReady, Told: takesAllForFine,
			Faults: []sim.Fault{at(0, sim.FaultCutPeers, sim.Replica, 60*s), image}},
		{Name: "an agent that does not answer is taken for what it was", Rule: law.TellTruth.ID, Sees: seesAllReady,
			Told: believesOldReports[wire.Report], Deaf: true, Faults: allOff},
		{Name: "the lease is taken to count on its holder alone", Rule: law.TakeNoCopy.ID, Sees: seesTheHolderAlone,
			Faults: []sim.Fault{wishing(0, 5), wishing(50*s, 2)}},
		{Name: "a lease is believed to have expired because a cache is old", Rule: law.BelieveRenewals.ID, OldLeases: true,
			Faults: []sim.Fault{at(5*s, FaultStall, Nowhere, 60*s)}},
		{Name: "every replica of a cache is taken for one that streams", Rule: law.StopOne.ID, Cache: true,
			Sees: seesAllReady, ToldOfCache: takesAllOfCacheForFine,
			Faults: []sim.Fault{at(0, sim.FaultCutPeers, sim.Replica, 60*s), {Kind: FaultImage, At: Began + 30*s, Wish: 9}}},
		{Name: "an agent of a cache that does not answer is taken for what it was", Rule: law.TellTruth.ID, Cache: true,
			Sees: seesAllReady, ToldOfCache: believesOldReports[wire.CacheReport], Deaf: true, Faults: allOff},
		{Name: "the lease of a cache is taken to count on its holder alone", Rule: law.TakeNoCopy.ID, Cache: true,
			Sees: seesTheHolderAlone, Faults: []sim.Fault{at(0, sim.FaultSettings, sim.Holder, 60*s), wishing(time.Second, 1)}},
		{Name: "the lease of a cache is taken for forgotten", Rule: law.LeaseOnce.ID, Cache: true,
			ToldOfCache: takesTheLeaseForForgotten, Faults: []sim.Fault{at(0, sim.FaultLeaseLost, Nowhere, 0)}},
	}
}

// allOff takes the power from all machines.
var allOff = []sim.Fault{
	at(5*time.Second, sim.FaultPowerOff, 0, 60*time.Second), at(5*time.Second, sim.FaultPowerOff, 1, 60*time.Second),
	at(5*time.Second, sim.FaultPowerOff, 2, 60*time.Second),
}

// Hunt is one schedule of the search for a flaw.
func Hunt(flaw Flaw, seed uint64) sim.Case {
	c := Swarm(seed)
	if flaw.Cache {
		c = CacheSwarm(seed)
	}
	c.Instances, c.Durability = 3, tenure.Strict
	c.Name, c.Around, c.Unsettled, c.Budget = flaw.Name, New(flaw), true, 20*time.Second
	c.Faults, c.Last = append(c.Faults[:len(c.Faults)/3:len(c.Faults)/3], flaw.Faults...), 0
	for _, fault := range c.Faults {
		c.Last = max(c.Last, fault.At+fault.For+40*time.Second)
	}
	return c
}

// seesAllReady takes the word of no kubelet.
func seesAllReady() func(client.Object) {
	return func(object client.Object) {
		if pod, ok := object.(*corev1.Pod); ok && pod.DeletionTimestamp == nil {
			kube.SetReady(pod, corev1.ConditionTrue)
			pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(pod.CreationTimestamp.Time)
		}
	}
}

// takesAllForFine lets every instance that answers stream and serve.
func takesAllForFine(ask asks[wire.Report]) asks[wire.Report] {
	return func(ctx context.Context, agent service.Agent) (wire.Report, error) {
		report, err := ask(ctx, agent)
		if err == nil {
			report.Streams, report.Serving, report.State = report.Role != wire.RolePrimary, true, wire.StateRunning
		}
		return report, err
	}
}

// takesAllOfCacheForFine does the same to a cache.
func takesAllOfCacheForFine(ask asks[wire.CacheReport]) asks[wire.CacheReport] {
	return func(ctx context.Context, agent service.Agent) (wire.CacheReport, error) {
		report, err := ask(ctx, agent)
		if err == nil {
			report.Streams, report.Serving, report.State = report.Role != wire.RolePrimary, true, wire.StateRunning
		}
		return report, err
	}
}

// takesTheLeaseForForgotten lets nobody have obeyed a lease that is lost.
func takesTheLeaseForForgotten(ask asks[wire.CacheReport]) asks[wire.CacheReport] {
	return func(ctx context.Context, agent service.Agent) (wire.CacheReport, error) {
		report, err := ask(ctx, agent)
		if report.Reason == wire.ReasonLeaseLost {
			report.Term, report.Role, report.Serving, report.Streams = 0, wire.RoleNone, false, false
		}
		return report, err
	}
}

// believesOldReports keeps the last word of every instance.
func believesOldReports[R any](ask asks[R]) asks[R] {
	var lock sync.Mutex
	last := map[string]R{}
	return func(ctx context.Context, agent service.Agent) (R, error) {
		lock.Lock()
		defer lock.Unlock()
		if report, err := ask(ctx, agent); err == nil {
			last[agent.Address] = report
		}
		if report, known := last[agent.Address]; known {
			return report, nil
		}
		return ask(ctx, agent)
	}
}

// oldLeases reads leases from the cache that are to be read live.
type oldLeases struct {
	client.Client
	cached client.Reader
}

func (o oldLeases) Get(
	ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption,
) error {
	if _, ok := into.(*coordinationv1.Lease); ok {
		return o.cached.Get(ctx, key, into, options...)
	}
	return o.Client.Get(ctx, key, into, options...)
}

// seesTheHolderAlone takes nobody for a member but the holder.
func seesTheHolderAlone() func(client.Object) {
	return inRecord(func(lease *coordinationv1.Lease, record *wire.LeaseRecord) {
		record.Members, record.W = []wire.Member{wire.ParseMember(*lease.Spec.HolderIdentity)}, 1
	})
}

// inRecord changes what is read of a lease that somebody holds.
func inRecord(change func(*coordinationv1.Lease, *wire.LeaseRecord)) func(client.Object) {
	return func(object client.Object) {
		lease, ok := object.(*coordinationv1.Lease)
		if !ok || lease.Spec.HolderIdentity == nil {
			return
		}
		record, err := wire.DecodeLeaseRecord(lease.Annotations[wire.AnnotationRecord])
		if err != nil {
			return
		}
		change(lease, &record)
		if document, err := record.Encode(); err == nil {
			lease.Annotations[wire.AnnotationRecord] = document
		}
	}
}
