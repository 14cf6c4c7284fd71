// Package operated is a database or a cache with all of its loops in one simulated world: those of the agents, which
// decide who leads and run the servers, on a model of PostgreSQL or of Redis (package sim), and that of the operator
// beside them. They meet as they do in a cluster: by objects of the API server of kit/sim, by reports, and by settings
// that are mounted late. Between any two calls of the operator the rest of the world goes on.
//
// Start reading at New, then at [Cluster]. What only a database has is in database.go, what only a cache has in
// cache.go.
package operated

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agents "meridian.dev/meridian/internal/agent"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/lease"
	store "meridian.dev/meridian/kit/sim"
	"meridian.dev/meridian/test/sim"
	"meridian.dev/meridian/test/sim/databases"
	"meridian.dev/meridian/test/sim/kube"
	"meridian.dev/meridian/test/sim/law"
	"meridian.dev/meridian/test/sim/lives"
)

// Cluster is a cluster with a database or a cache in it. It implements sim.Cluster.
type Cluster struct {
	*sim.World
	of     operand
	names  names
	server *store.Server
	// cluster reads and writes live, for everything that is modelled.
	cluster  client.Client
	ctx      context.Context
	shown    uint64 // Everything up to this version was shown to those who watch.
	stirring bool   // A step of the controllers is due.
	pods     []*pod
	operator *operator // The process that leads, nil while there is none.
	begun    int       // How many there were.
	made     string    // The lease that was there last.
	// certificates are those that were mounted, in the order in which they were seen.
	certificates []string
	flaw         Flaw
	judge
}

var _ sim.Cluster = (*Cluster)(nil)

// name is that of the database or of the cache, of which every object has a part.
var name = client.ObjectKey{Namespace: kube.Space, Name: databases.Name}

// operand is what a world is about: a database or a cache. For everything else here there is no difference.
type operand interface {
	names() names
	// made are the objects that its user makes in the beginning.
	made() []client.Object
	// seen is the resource as its user sees it, nil if it is gone.
	seen() *seen
	// edit is what a user changes in it. It returns false for anything else.
	edit(object client.Object, fault sim.Fault) bool
	// loop puts the loop of the operator together as production does.
	loop(o *operator, p parts) (reconcile.Reconciler, error)
	// publish tells what the stored settings ask for, and mount makes what is mounted into a pod what is stored.
	publish(stored *corev1.ConfigMap)
	mount(who int, object *corev1.Pod)
	// follows is the word of an agent that its instance follows the primary, lacks what an instance waits for by the word
	// of its agent and by its pod, empty for nothing.
	follows(who int) bool
	lacks(who int, pod *corev1.Pod) string
	// attend is a user who looks at the status in the end, and does what it asks for.
	attend()
	// weigh is asked about writes of the operator, beside the rules for those of both.
	weigh(call store.Call)
}

// names are those of objects, and what else differs only by name.
type names struct {
	program, label         string
	kind                   schema.GroupVersionKind
	cached                 []client.Object
	lease, write, settings string
	grace                  time.Duration
}

// seen is a database or a cache as its user sees it.
type seen struct {
	client.Object
	conditions []metav1.Condition
	observed   int64
	count      int
	image      string
	primary    string // As the status names it.
	asleep     bool   // It shall have no instances.
	asks       string // What was asked for and is not carried out.
}

// New puts a database, or a cache, with its operator around the agents of a world.
func New(flaw Flaw) func(*sim.World) sim.Cluster {
	return func(w *sim.World) sim.Cluster {
		c := &Cluster{World: w, ctx: context.Background(), flaw: flaw}
		c.of = geodatabase{c}
		if w.Case.Volatile {
			c.of = &geocache{Cluster: c}
		}
		c.names = c.of.names()
		c.must(c.begin())
		return c
	}
}

// must is for what the model itself does: that it fails is a mistake of the model.
func (c *Cluster) must(err error) {
	if err != nil {
		c.Wrong(law.Modelled, "%v", err)
	}
}

func (c *Cluster) begin() error {
	known, err := kube.Scheme()
	if err != nil {
		return err
	}
	custom, err := kube.Kinds()
	if err != nil {
		return err
	}
	if c.server, err = store.New(store.Options{Scheme: known, Kinds: custom, Now: c.clock}); err != nil {
		return err
	}
	process, err := c.server.Start(store.Life{Name: "cluster"})
	if err != nil {
		return err
	}
	c.cluster = process.Live()
	if err := lives.Settle(c.ctx, c.cluster); err != nil {
		return err
	}
	for range c.Case.Nodes {
		c.pods = append(c.pods, &pod{})
	}
	c.down, c.counted = make([]time.Duration, c.Case.Nodes), make([]time.Duration, c.Case.Nodes)
	for _, object := range c.of.made() {
		if err := c.cluster.Create(c.ctx, object); err != nil {
			return err
		}
	}
	c.After(0, func() {
		c.show()
		c.startOperator(0)
	})
	c.After(watchEvery, c.watch)
	return nil
}

// clock is the wall clock of the API server and of the operator.
func (c *Cluster) clock() time.Time { return new(store.Clock).Now().Add(c.Now()) }

func (c *Cluster) get(name string, into client.Object) error {
	return c.cluster.Get(c.ctx, client.ObjectKey{Namespace: kube.Space, Name: name}, into)
}

// show tells everybody of what was written since it was called last.
func (c *Cluster) show() {
	for latest := c.server.Version(); c.shown < latest; latest = c.server.Version() {
		events := c.server.Events(schema.GroupVersionKind{}, c.shown, latest)
		c.shown = latest
		for _, event := range events {
			c.showEvent(event)
		}
	}
}

func (c *Cluster) showEvent(event store.Event) {
	switch key := event.Key.Name; {
	case event.Kind.Kind == "Lease" && key == c.names.lease:
		c.showLease()
	case event.Kind.Kind == "EndpointSlice" && key == c.names.write:
		c.showRoute()
	case event.Kind.Kind == "ConfigMap" && key == c.names.settings:
		var stored corev1.ConfigMap
		if c.get(key, &stored) == nil {
			c.of.publish(&stored)
		}
	case event.Kind.Kind == "Pod":
		c.podChanged(key)
	}
	if event.Kind.Kind != "Lease" {
		c.stir()
	}
	if c.operator != nil {
		c.operator.hear(event.Kind)
	}
}

// showLease tells of the lease. Of another one of a cache terms begin again.
func (c *Cluster) showLease() {
	view := c.lease()
	c.noteRenewal()
	if view.UID != "" {
		if c.made != "" && c.made != view.UID && c.Case.Volatile {
			c.AnotherLease()
		}
		c.made = view.UID
	}
	c.ShowLease(view)
}

// lease is the lease as agents read it, empty if there is none.
func (c *Cluster) lease() tenure.View {
	var object coordinationv1.Lease
	if c.get(c.names.lease, &object) != nil {
		return tenure.View{}
	}
	seen := lease.Lease{
		UID: string(object.UID), Version: object.ResourceVersion, Annotations: object.Annotations,
		Document: object.Annotations[wire.AnnotationRecord],
	}
	if holder := object.Spec.HolderIdentity; holder != nil {
		seen.Holder = *holder
	}
	if transitions := object.Spec.LeaseTransitions; transitions != nil {
		seen.Transitions = int64(*transitions)
	}
	if seconds := object.Spec.LeaseDurationSeconds; seconds != nil {
		seen.Duration = time.Duration(*seconds) * time.Second
	}
	return agents.ViewOf(seen)
}

// WriteLease implements sim.Cluster.
func (c *Cluster) WriteLease(write tenure.Write) bool {
	var object coordinationv1.Lease
	document, err := write.Record.Encode()
	c.must(err)
	if c.get(c.names.lease, &object) != nil || object.ResourceVersion != write.Version {
		return false
	}
	holder, now := write.Holder.String(), metav1.NewMicroTime(c.clock())
	term, seconds := int32(write.Record.Term), int32((write.Duration+time.Second-1)/time.Second)
	object.Spec.HolderIdentity, object.Spec.LeaseTransitions = &holder, &term
	object.Spec.LeaseDurationSeconds, object.Spec.RenewTime = &seconds, &now
	if write.Holder == (wire.Member{}) {
		object.Spec.HolderIdentity = nil
	}
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, wire.AnnotationRecord, document)
	if write.Kind == tenure.WriteSucceed || write.Kind == tenure.WriteRestore {
		delete(object.Annotations, wire.AnnotationGivenUp)
	}
	err = c.cluster.Update(c.ctx, &object)
	c.show()
	return err == nil
}

func (c *Cluster) showRoute() {
	var object discoveryv1.EndpointSlice
	if c.get(c.names.write, &object) != nil {
		c.ShowRoute("", 0, true)
		return
	}
	var term int64
	if text := object.Annotations[wire.AnnotationTerm]; text != "" {
		_, err := fmt.Sscan(text, &term)
		c.must(err)
	}
	address := ""
	for _, endpoint := range object.Endpoints {
		address += endpoint.Addresses[0]
	}
	c.ShowRoute(address, term, false)
}

// WriteRoute implements sim.Cluster.
func (c *Cluster) WriteRoute(who int, address string, term int64) bool {
	var object discoveryv1.EndpointSlice
	if c.get(c.names.write, &object) != nil {
		return false
	}
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, wire.AnnotationTerm, fmt.Sprint(term))
	object.Endpoints = nil
	if yes, no := true, false; address != "" {
		object.Endpoints = []discoveryv1.Endpoint{{
			Addresses:  []string{address},
			Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes, Terminating: &no},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: kube.Space, Name: podName(who)},
		}}
	}
	err := c.cluster.Update(c.ctx, &object)
	c.show()
	return err == nil
}

// Label implements sim.Cluster. It is refused for another pod.
func (c *Cluster) Label(who int, labels tenure.Labelled) bool {
	var object corev1.Pod
	if c.get(podName(who), &object) != nil || object.UID != c.pods[who].uid {
		return false
	}
	if object.Annotations == nil {
		object.Annotations = map[string]string{}
	}
	object.Labels[wire.LabelRole], object.Labels[wire.LabelRead] = labels.Role, fmt.Sprint(labels.Read)
	delete(object.Annotations, wire.AnnotationCutOff)
	delete(object.Annotations, wire.AnnotationVolumeUse)
	if labels.Cut != "" {
		object.Annotations[wire.AnnotationCutOff] = labels.Cut
	}
	if labels.Use > 0 {
		object.Annotations[wire.AnnotationVolumeUse] = fmt.Sprint(labels.Use)
	}
	err := c.cluster.Update(c.ctx, &object)
	c.show()
	return err == nil
}

// Certificate implements sim.Cluster.
func (c *Cluster) Certificate(who int) string { return c.pods[who].certificate }

// Logins implements sim.Cluster.
func (c *Cluster) Logins(who int) postgres.Logins { return c.pods[who].logins }

// instanceName names an instance of either by its number, and podName its pod.
func instanceName(who int) string { return database.InstanceName(name.Name, who+1) }
func podName(who int) string      { return database.PodName(instanceName(who)) }

// whose is the number of the instance that a pod or an instance is named by.
func (c *Cluster) whose(name string) (int, bool) {
	for who := range c.pods {
		if name == podName(who) || name == instanceName(who) {
			return who, true
		}
	}
	return 0, false
}
