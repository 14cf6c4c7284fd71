// Package operated is a database with all of its loops in one simulated world: those of the agents, which decide who
// leads and run the servers, on a model of PostgreSQL (package sim), and that of the operator beside them. They meet as
// they do in a cluster: by objects of the API server of kit/sim, by reports, and by settings that are mounted late.
// Between any two calls of the operator the rest of the world goes on.
//
// Start reading at New, then at [Database].
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

	"meridian.dev/meridian/api/v1alpha1"
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

// Database is a database in a cluster. It implements sim.Cluster.
type Database struct {
	*sim.World
	server *store.Server
	// cluster reads and writes live, for everything that is modelled.
	cluster  client.Client
	ctx      context.Context
	shown    uint64 // Everything up to this version was shown to those who watch.
	stirring bool   // A step of the controllers is due.
	pods     []*pod
	operator *operator // The process that leads, nil while there is none.
	begun    int       // How many there were.
	// certificates are those that were mounted, in the order in which they were seen.
	certificates []string
	flaw         Flaw
	judge
}

var _ sim.Cluster = (*Database)(nil)

// name is that of the database, of which every object has a part.
var name = client.ObjectKey{Namespace: kube.Space, Name: databases.Name}

// New puts a database with its operator around the agents of a world.
func New(flaw Flaw) func(*sim.World) sim.Cluster {
	return func(w *sim.World) sim.Cluster {
		d := &Database{World: w, ctx: context.Background(), flaw: flaw}
		d.must(d.begin())
		return d
	}
}

// must is for what the model itself does: that it fails is a mistake of the model.
func (d *Database) must(err error) {
	if err != nil {
		d.Wrong(law.Modelled, "%v", err)
	}
}

func (d *Database) begin() error {
	known, err := kube.Scheme()
	if err != nil {
		return err
	}
	custom, err := kube.Kinds()
	if err != nil {
		return err
	}
	if d.server, err = store.New(store.Options{Scheme: known, Kinds: custom, Now: d.clock}); err != nil {
		return err
	}
	process, err := d.server.Start(store.Life{Name: "cluster"})
	if err != nil {
		return err
	}
	d.cluster = process.Live()
	if err := lives.Settle(d.ctx, d.cluster); err != nil {
		return err
	}
	for range d.Case.Nodes {
		d.pods = append(d.pods, &pod{})
	}
	d.down = make([]time.Duration, d.Case.Nodes)
	if err := d.cluster.Create(d.ctx, wished(d.Case)); err != nil {
		return err
	}
	d.After(0, func() {
		d.show()
		d.startOperator(0)
	})
	d.After(watchEvery, d.watch)
	return nil
}

// clock is the wall clock of the API server and of the operator.
func (d *Database) clock() time.Time { return new(store.Clock).Now().Add(d.Now()) }

func (d *Database) get(name string, into client.Object) error {
	return d.cluster.Get(d.ctx, client.ObjectKey{Namespace: kube.Space, Name: name}, into)
}

// show tells everybody of what was written since it was called last.
func (d *Database) show() {
	for latest := d.server.Version(); d.shown < latest; latest = d.server.Version() {
		events := d.server.Events(schema.GroupVersionKind{}, d.shown, latest)
		d.shown = latest
		for _, event := range events {
			d.showEvent(event)
		}
	}
}

func (d *Database) showEvent(event store.Event) {
	switch key := event.Key.Name; {
	case event.Kind.Kind == "Lease" && key == database.LeaseName(name.Name):
		d.ShowLease(d.lease())
	case event.Kind.Kind == "EndpointSlice" && key == database.WriteName(name.Name):
		d.showRoute()
	case event.Kind.Kind == "ConfigMap" && key == database.SettingsName(name.Name):
		if settings, ok := d.settings(); ok {
			d.Wish(settings)
		}
	case event.Kind.Kind == "Pod":
		d.podChanged(key)
	}
	if event.Kind.Kind != "Lease" {
		d.stir()
	}
	if d.operator != nil {
		d.operator.hear(event.Kind)
	}
}

// lease is the lease as agents read it, empty if there is none.
func (d *Database) lease() tenure.View {
	var object coordinationv1.Lease
	if d.get(database.LeaseName(name.Name), &object) != nil {
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
func (d *Database) WriteLease(write tenure.Write) bool {
	var object coordinationv1.Lease
	document, err := write.Record.Encode()
	d.must(err)
	if d.get(database.LeaseName(name.Name), &object) != nil || object.ResourceVersion != write.Version {
		return false
	}
	holder, now := write.Holder.String(), metav1.NewMicroTime(d.clock())
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
	err = d.cluster.Update(d.ctx, &object)
	d.show()
	return err == nil
}

func (d *Database) showRoute() {
	var object discoveryv1.EndpointSlice
	if d.get(database.WriteName(name.Name), &object) != nil {
		d.ShowRoute("", 0, true)
		return
	}
	var term int64
	if text := object.Annotations[wire.AnnotationTerm]; text != "" {
		_, err := fmt.Sscan(text, &term)
		d.must(err)
	}
	address := ""
	for _, endpoint := range object.Endpoints {
		address += endpoint.Addresses[0]
	}
	d.ShowRoute(address, term, false)
}

// WriteRoute implements sim.Cluster.
func (d *Database) WriteRoute(who int, address string, term int64) bool {
	var object discoveryv1.EndpointSlice
	if d.get(database.WriteName(name.Name), &object) != nil {
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
	err := d.cluster.Update(d.ctx, &object)
	d.show()
	return err == nil
}

// Label implements sim.Cluster. It is refused for another pod.
func (d *Database) Label(who int, labels tenure.Labelled) bool {
	var object corev1.Pod
	if d.get(podName(who), &object) != nil || object.UID != d.pods[who].uid {
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
	err := d.cluster.Update(d.ctx, &object)
	d.show()
	return err == nil
}

// settings are those that are stored.
func (d *Database) settings() (wire.Settings, bool) {
	var stored corev1.ConfigMap
	if d.get(database.SettingsName(name.Name), &stored) != nil {
		return wire.Settings{}, false
	}
	settings, err := wire.DecodeSettings([]byte(stored.Data[wire.KeySettings]))
	d.must(err)
	return settings, err == nil
}

// Certificate implements sim.Cluster.
func (d *Database) Certificate(who int) string { return d.pods[who].certificate }

// Logins implements sim.Cluster.
func (d *Database) Logins(who int) postgres.Logins { return d.pods[who].logins }

// instanceName names an instance by its number, and podName its pod.
func instanceName(who int) string { return database.InstanceName(name.Name, who+1) }
func podName(who int) string      { return database.PodName(instanceName(who)) }

// whose is the number of the instance that a pod or an instance is named by.
func (d *Database) whose(name string) (int, bool) {
	for who := range d.pods {
		if name == podName(who) || name == instanceName(who) {
			return who, true
		}
	}
	return 0, false
}

// object is the database as its user sees it, nil if it is gone.
func (d *Database) object() *v1alpha1.GeoDatabase {
	var found v1alpha1.GeoDatabase
	if d.get(name.Name, &found) != nil {
		return nil
	}
	return &found
}
