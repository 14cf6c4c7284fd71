package operated

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/act"
	"meridian.dev/meridian/internal/database/controller"
	"meridian.dev/meridian/internal/database/observe"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	store "meridian.dev/meridian/kit/sim"
	"meridian.dev/meridian/test/sim"
	"meridian.dev/meridian/test/sim/law"
)

// geodatabase is what only a database has.
type geodatabase struct{ *Cluster }

func (g geodatabase) names() names {
	return names{
		program: "operator", label: database.LabelDatabase, kind: v1alpha1.GroupVersion.WithKind("GeoDatabase"),
		cached: controller.Cached(), lease: database.LeaseName(name.Name), write: database.WriteName(name.Name),
		settings: database.SettingsName(name.Name), grace: 60 * time.Second,
	}
}

func (g geodatabase) made() []client.Object {
	durability := map[tenure.Durability]v1alpha1.Durability{
		tenure.Available: v1alpha1.DurabilityAvailable, tenure.Async: v1alpha1.DurabilityAsync,
	}[g.Case.Durability]
	if durability == "" {
		durability = v1alpha1.DurabilityStrict
	}
	reclaim := v1alpha1.ReclaimDelete
	if g.keeps() {
		reclaim = v1alpha1.ReclaimRetain
	}
	return []client.Object{&v1alpha1.GeoDatabase{
		ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name},
		Spec: v1alpha1.GeoDatabaseSpec{
			Instances: int32(g.Case.Instances), Durability: durability,
			Storage: v1alpha1.Storage{Size: resource.MustParse("1Gi"), Reclaim: reclaim},
		},
	}}
}

// keeps says that claims outlive the database.
func (g geodatabase) keeps() bool { return g.Case.Seed%3 == 0 }

func (g geodatabase) seen() *seen {
	var found v1alpha1.GeoDatabase
	if g.get(name.Name, &found) != nil {
		return nil
	}
	return &seen{
		Object: &found, conditions: found.Status.Conditions, observed: found.Status.ObservedGeneration,
		count: int(found.Spec.Instances), image: found.Spec.Image, asleep: found.Spec.Hibernated,
		primary: found.Status.Primary, asks: found.Annotations[database.AnnotationSwitchover],
	}
}

func (g geodatabase) edit(object client.Object, fault sim.Fault) bool {
	o, _ := object.(*v1alpha1.GeoDatabase)
	switch fault.Kind {
	case sim.FaultWish:
		o.Spec.Instances = int32(fault.Wish)
	case sim.FaultSwitchover:
		target := database.AnyInstance
		if fault.Other > 0 {
			target = instanceName(fault.Other % int(o.Spec.Instances))
		}
		metav1.SetMetaDataAnnotation(&o.ObjectMeta, database.AnnotationSwitchover, target)
	case FaultParameter:
		o.Spec.Parameters = map[string]v1alpha1.Setting{
			"max_connections": v1alpha1.Setting(fmt.Sprint(200 + 10*fault.Wish)),
		}
	case FaultImage:
		o.Spec.Image = fmt.Sprintf("postgis:17.%d", fault.Wish)
	case FaultRestart:
		o.Spec.Restart = g.Identity("token-")
	case FaultHibernate, FaultWake:
		o.Spec.Hibernated = fault.Kind == FaultHibernate
	default:
		return false
	}
	return true
}

func (g geodatabase) loop(o *operator, p parts) (reconcile.Reconciler, error) {
	ask := asking(g.Cluster, g.report, wire.DecodeReport)
	if g.flaw.Told != nil {
		ask = g.flaw.Told(ask)
	}
	live, now := p.config.Live, p.config.Now
	return controller.New(p.config, observe.Observer{
		Live: live, Author: p.author, Now: now, Pulse: p.pulse, Ask: ask,
		Images:       database.Images{Agent: "meridian:1", Server: "postgis"},
		Installation: "meridian-system/operator", LostAfter: 5 * time.Minute,
	}, act.Actor{
		Client: p.config.Client, Live: live, Author: p.author, Random: rand.Reader, Now: now, Tell: o.tell,
	}, nil)
}

// report is that of an instance, with the certificate as the operator knows it.
func (g geodatabase) report(who int) (wire.Report, bool) {
	report, ok := g.Report(who)
	report.Certificate = g.identity(report.Certificate)
	return report, ok
}

// tell asks the agent of the holder to hand over, and waits for its answer.
func (o *operator) tell(_ context.Context, agent service.Agent, request wire.Switchover) error {
	who, err := o.reach(agent)
	if err != nil {
		return err
	}
	var answer *wire.SwitchoverReply
	o.c.AskSwitchover(who, request, func(reply wire.SwitchoverReply) { answer = &reply })
	for end := o.c.Now() + 3*time.Second; answer == nil && o.c.Now() < end; {
		if !o.sleep(20 * time.Millisecond) {
			return store.ErrCrashed
		}
	}
	switch {
	case answer == nil:
		return errors.New("there was no answer")
	case answer.Accepted:
		return nil
	case answer.Later:
		return errors.New("the agent answers 503")
	}
	return &act.RefusedError{Why: answer.Why}
}

func (g geodatabase) publish(stored *corev1.ConfigMap) {
	settings, err := wire.DecodeSettings([]byte(stored.Data[wire.KeySettings]))
	if g.must(err); err == nil {
		g.Wish(settings)
	}
}

func (g geodatabase) mount(who int, _ *corev1.Pod) {
	var binding corev1.Secret
	if g.get(database.AppSecretName(name.Name), &binding) == nil {
		g.pods[who].logins = loginsOf(&binding)
	}
	var stored corev1.ConfigMap
	if g.get(g.Cluster.names.settings, &stored) != nil {
		return
	}
	settings, err := wire.DecodeSettings([]byte(stored.Data[wire.KeySettings]))
	if g.must(err); err == nil {
		g.Mount(who, settings)
	}
}

func loginsOf(binding *corev1.Secret) postgres.Logins {
	number, _ := strconv.ParseInt(string(binding.Data[wire.KeyRotation]), 10, 64) // 0 for the first ones
	logins := postgres.Logins{Present: postgres.Login{
		Name: string(binding.Data[wire.KeyUsername]), Password: string(binding.Data[wire.KeyPassword]), Rotation: number,
	}}
	if next, found := render.NextLogin(binding); found {
		logins.Next = &postgres.Login{Name: next.Name, Password: next.Password, Rotation: next.Number}
	}
	return logins
}

func (g geodatabase) follows(who int) bool {
	report, _ := g.Report(who)
	return report.Streams
}

func (g geodatabase) lacks(who int, _ *corev1.Pod) string {
	report, _ := g.Report(who)
	return strings.Join(report.PendingRestart, ", ")
}

func (g geodatabase) attend() {}

func (g geodatabase) weigh(call store.Call) {
	g.ask(law.TakeNoCopy, call, g.takesNoCopy)
	g.ask(law.KeepClaims, call, g.keepsClaims)
}

// takesNoCopy has the operator take nothing away that the agents count on.
func (g geodatabase) takesNoCopy(call store.Call) error {
	who, takes := g.takes(call, "StatefulSet", "PersistentVolumeClaim")
	record := g.Stored()
	if member := g.member(who); takes && record != nil && record.Has(member) {
		return fmt.Errorf("the lease counts on %s", member)
	}
	return nil
}

// keepsClaims has the operator delete no claim against the word of the spec, and none with the last copy.
func (g geodatabase) keepsClaims(call store.Call) error {
	who, takes := g.takes(call, "PersistentVolumeClaim")
	record := g.Stored()
	switch {
	case !takes:
		return nil
	case g.keeps():
		return errors.New("spec.storage.reclaim is not Delete")
	case record == nil || !record.Initialised:
		return nil
	}
	for _, member := range record.Members {
		if other, known := g.whose(member.Name); known && other != who && g.Copy(other) == member.Incarnation {
			return nil
		}
	}
	return errors.New("no other copy is there")
}
