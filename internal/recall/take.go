package recall

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/observe"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/apply"
)

// Source is where a snapshot is taken from, and with whose rights.
type Source struct {
	Reader client.Reader
	Scheme *runtime.Scheme
	Now    func() time.Time
	// Ask gets what the agent of a pod tells to anybody.
	Ask func(ctx context.Context, pod corev1.Pod) (wire.Report, error)
	// Operator is the Deployment of the operator, nil if it cannot be read.
	Operator *appsv1.Deployment
}

// lostAfter is how long the operator waits for a node unless it was told otherwise.
const lostAfter = 5 * time.Minute

// Take looks at a database with the eyes of the operator. Only an API server that gives no answer is an error.
func (s Source) Take(ctx context.Context, object *v1alpha1.GeoDatabase) (Story, error) {
	look := &look{Source: s, object: object, reader: &reader{Reader: s.Reader}}
	if err := look.around(ctx); err != nil {
		return Story{}, err
	}
	observer := observe.Observer{
		Live: look.reader, Now: s.Now, Outside: true, Ask: look.ask, Images: look.images(),
		Author:       apply.Author{Scheme: s.Scheme, Prefix: database.AnnotationPrefix, Manager: database.FieldManager},
		Installation: object.Annotations[database.AnnotationInstallation], LostAfter: look.lostAfter(),
		Try: func(context.Context, *corev1.Pod) error { return nil },
	}
	seen, err := observer.Observe(ctx, look.reader, object)
	if err != nil {
		return Story{}, fmt.Errorf("take the snapshot: %w", err)
	}
	look.judgeLease(&seen)
	look.trust(&seen)
	seen, err = Redacted(seen)
	if err != nil {
		return Story{}, err
	}
	look.assume("the Secrets are there and whole, and no certificate is due")
	look.assume("the API server takes pods from the wanted template, no agent has refused anything lately, and other " +
		"databases hold nothing up")
	return Story{Seen: seen, Assumed: look.assumed, Unread: look.reader.list()}, nil
}

// look is one snapshot under way.
type look struct {
	Source
	object   *v1alpha1.GeoDatabase
	reader   *reader
	pods     []corev1.Pod
	sets     []appsv1.StatefulSet
	settings wire.Settings
	lease    coordinationv1.Lease
	assumed  []string
}

func (l *look) assume(sentence string) { l.assumed = append(l.assumed, sentence) }

// around reads what has to be known before the operator's own look: where the agents are, and what they were told.
func (l *look) around(ctx context.Context) error {
	selector := []client.ListOption{
		client.InNamespace(l.object.Namespace), client.MatchingLabels{database.LabelDatabase: l.object.Name},
	}
	var pods corev1.PodList
	if err := l.reader.List(ctx, &pods, selector...); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	var sets appsv1.StatefulSetList
	if err := l.reader.List(ctx, &sets, selector...); err != nil {
		return fmt.Errorf("list stateful sets: %w", err)
	}
	l.pods, l.sets = pods.Items, sets.Items
	var settings corev1.ConfigMap
	key := client.ObjectKey{Namespace: l.object.Namespace, Name: database.SettingsName(l.object.Name)}
	if err := l.reader.Get(ctx, key, &settings); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	// Settings that cannot be read are a fact that the operator's look finds too.
	l.settings, _ = wire.DecodeSettings([]byte(settings.Data[wire.KeySettings]))
	key.Name = database.LeaseName(l.object.Name)
	if err := l.reader.Get(ctx, key, &l.lease); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read the lease: %w", err)
	}
	return nil
}

// ask gets the report of the agent at an address. One that cannot be asked is taken at the word of the status, if its
// pod is ready: who has few rights shall not see a database without agents.
func (l *look) ask(ctx context.Context, agent service.Agent) (wire.Report, error) {
	for _, pod := range l.pods {
		if pod.Status.PodIP != agent.Address {
			continue
		}
		report, err := l.Ask(ctx, pod)
		if err == nil || !ready(pod) {
			return report, err
		}
		name := strings.TrimSuffix(pod.Name, "-0")
		l.reader.note(fmt.Sprintf("the agent of %s: %s", name, service.Brief(err)))
		return l.supposed(name), nil
	}
	return wire.Report{}, fmt.Errorf("no pod has the address %s any more", agent.Address)
}

// supposed is what an agent would say if all were as the status has it.
func (l *look) supposed(instance string) wire.Report {
	primary := l.object.Status.Primary == instance
	report := wire.Report{
		DatabaseUID: l.settings.DatabaseUID, Instance: instance, State: wire.StateRunning, Role: wire.RoleReplica,
		SystemIdentifier: l.settings.SystemIdentifier, ServerVersion: l.object.Status.Version,
		SettingsHash: l.settings.Hash(), Restart: l.settings.RestartOf(instance),
		Term: l.object.Status.Term, Holder: l.object.Status.Primary, Serving: true, Streams: !primary,
	}
	if primary {
		report.Role = wire.RolePrimary
	}
	return report
}

func ready(pod corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// judgeLease goes by the clock of this machine: the operator goes by when it saw the lease change.
func (l *look) judgeLease(seen *database.Snapshot) {
	if seen.Lease.Holder == "" || l.lease.Spec.RenewTime == nil || l.lease.Spec.LeaseDurationSeconds == nil {
		return
	}
	lasts := time.Duration(*l.lease.Spec.LeaseDurationSeconds) * time.Second
	seen.Lease.Expired = seen.Now.Sub(l.lease.Spec.RenewTime.Time) > lasts
	l.assume("whether the lease has ended is judged by the clock of this machine and that of its holder")
}

// trust takes children of a kind that could not be read to be as wanted.
func (l *look) trust(seen *database.Snapshot) {
	for i := range seen.Children {
		child := &seen.Children[i]
		if child.State == database.Absent && l.reader.blind(child.Kind) {
			child.State = database.Same
		}
	}
}

// images are those that the operator was started with, or those that the instances were.
func (l *look) images() database.Images {
	var images database.Images
	for _, set := range l.sets {
		for _, container := range set.Spec.Template.Spec.InitContainers {
			if container.Name == database.ContainerInstall {
				images.Agent = container.Image
			}
		}
		for _, container := range set.Spec.Template.Spec.Containers {
			if container.Name == database.ContainerDatabase && l.object.Spec.Image == "" {
				images.Server = strings.TrimSuffix(container.Image, ":"+l.object.Spec.Version)
			}
		}
	}
	agent, server := l.flag("--agent-image"), l.flag("--server-image")
	if agent == "" || server == "" {
		l.assume("the operator starts instances with the images that they have")
	}
	if agent != "" {
		images.Agent = agent
	}
	if server != "" {
		images.Server = server
	}
	return images
}

func (l *look) lostAfter() time.Duration {
	if patience, err := time.ParseDuration(l.flag("--node-lost-after")); err == nil {
		return patience
	}
	return lostAfter
}

// flag is what the operator was started with, empty if it was not told or cannot be read.
func (l *look) flag(name string) string {
	if l.Operator == nil {
		return ""
	}
	for _, container := range l.Operator.Spec.Template.Spec.Containers {
		for index, arg := range container.Args {
			if value, found := strings.CutPrefix(arg, name+"="); found {
				return value
			}
			if arg == name && index+1 < len(container.Args) {
				return container.Args[index+1]
			}
		}
	}
	return ""
}
