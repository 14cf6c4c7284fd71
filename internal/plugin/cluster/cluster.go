// Package cluster reads what the plugin shows, with the rights of whoever runs it and no others. What they may not read
// is left out and named, so that a person with few rights still sees most of a database.
//
// It changes nothing. Secrets are never asked for. Start reading at Cluster.Facts.
package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/plugin/view"
)

// Cluster is where databases are looked at.
type Cluster struct {
	client.Client
	// Plain is for logs and figures.
	Plain kubernetes.Interface
	// Home is the namespace of the operator.
	Home string
	// Now is the clock.
	Now func() time.Time
}

// operatorName is that of the operator's Deployment and of the lease by which its replicas agree.
const operatorName = "meridian-operator"

// Open connects with the given configuration.
func Open(config *rest.Config, home string) (*Cluster, error) {
	config = rest.CopyConfig(config)
	// A screen takes a dozen reads at once; the default would make a person wait for them.
	config.QPS, config.Burst = 50, 100
	kinds, err := Scheme()
	if err != nil {
		return nil, err
	}
	typed, err := client.New(config, client.Options{Scheme: kinds})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	plain, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return &Cluster{Client: typed, Plain: plain, Home: home, Now: time.Now}, nil
}

// Scheme knows the kinds that are read.
func Scheme() (*runtime.Scheme, error) {
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(kinds); err != nil {
			return nil, fmt.Errorf("register kinds: %w", err)
		}
	}
	return kinds, nil
}

// Names are the databases of a namespace, or of all if none is given.
func (c *Cluster) Names(ctx context.Context, namespace string) ([]client.ObjectKey, error) {
	var list v1alpha1.GeoDatabaseList
	if err := c.List(ctx, &list, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("list databases: %w", err)
	}
	var keys []client.ObjectKey
	for _, database := range list.Items {
		keys = append(keys, client.ObjectKeyFromObject(&database))
	}
	return keys, nil
}

// Facts reads everything about one database. Only a database that cannot be read is an error.
func (c *Cluster) Facts(ctx context.Context, key client.ObjectKey) (view.Facts, error) {
	facts := view.Facts{Now: c.Now()}
	if err := c.Get(ctx, key, &facts.Database); err != nil {
		return facts, fmt.Errorf("read the database %s: %w%s", key, err, c.hint(ctx, key, err))
	}
	// Objects that are read by name come without their kind; whoever prints them wants it.
	facts.Database.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("GeoDatabase"))
	look := &look{Cluster: c, ctx: ctx, key: key, facts: &facts}
	for _, read := range []func(){
		look.belongings, look.pods, look.claims, look.lease, look.events, look.operator, look.figures,
	} {
		read()
	}
	return facts, nil
}

// hint helps somebody who has named a companion: it is shown with its database.
func (c *Cluster) hint(ctx context.Context, key client.ObjectKey, err error) string {
	if !apierrors.IsNotFound(err) {
		return ""
	}
	for _, of := range view.Companions {
		all, _ := c.companions(ctx, of, key.Namespace)
		for _, one := range all {
			if one.GetName() == key.Name {
				return fmt.Sprintf("; %s is a %s of the database %s: name that", key.Name, of.One, one.Database())
			}
		}
	}
	return ""
}

// companions are all of a kind in a namespace.
func (c *Cluster) companions(ctx context.Context, of view.CompanionKind, namespace string) ([]view.Companion, error) {
	list := of.List()
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	var all []view.Companion
	err := meta.EachListItem(list, func(item runtime.Object) error {
		all = append(all, of.Of(item.(client.Object)))
		return nil
	})
	return all, err
}

// look is one look at a database.
type look struct {
	*Cluster
	ctx   context.Context
	key   client.ObjectKey
	facts *view.Facts
}

// unread notes what could not be read. It reports whether it could.
func (l *look) unread(what string, err error) bool {
	switch {
	case err == nil:
		return false
	case apierrors.IsForbidden(err):
		l.facts.Unread = append(l.facts.Unread, what+": you may not read them")
	default:
		l.facts.Unread = append(l.facts.Unread, what+": "+err.Error())
	}
	return true
}

func (l *look) belongings() {
	for _, of := range view.Companions {
		all, err := l.companions(l.ctx, of, l.key.Namespace)
		if l.unread(of.Many, err) {
			continue
		}
		for _, one := range all {
			if one.Database() == l.key.Name {
				l.facts.Companions = append(l.facts.Companions, one)
			}
		}
	}
}

func (l *look) pods() {
	selectors := []client.MatchingLabels{{view.LabelDatabase: l.key.Name}}
	for _, one := range l.facts.Companions {
		selectors = append(selectors, client.MatchingLabels{one.Kind().Label: one.GetName()})
	}
	for _, selector := range selectors {
		var list corev1.PodList
		if l.unread("pods", l.List(l.ctx, &list, client.InNamespace(l.key.Namespace), selector)) {
			return
		}
		l.facts.Pods = append(l.facts.Pods, list.Items...)
	}
}

func (l *look) claims() {
	var list corev1.PersistentVolumeClaimList
	err := l.List(l.ctx, &list, client.InNamespace(l.key.Namespace), client.MatchingLabels{view.LabelDatabase: l.key.Name})
	if !l.unread("claims", err) {
		l.facts.Claims = list.Items
	}
}

func (l *look) lease() {
	var lease coordinationv1.Lease
	err := l.Get(l.ctx, client.ObjectKey{Namespace: l.key.Namespace, Name: l.key.Name + "-primary"}, &lease)
	if apierrors.IsNotFound(err) || l.unread("the lease", err) {
		return
	}
	l.facts.Lease = &lease
}

func (l *look) events() {
	var list corev1.EventList
	if l.unread("events", l.List(l.ctx, &list, client.InNamespace(l.key.Namespace))) {
		return
	}
	for _, event := range list.Items {
		if l.concerns(event.InvolvedObject) {
			l.facts.Events = append(l.facts.Events, event)
		}
	}
}

// concerns says that an object is the database, one of its companions, or a child of these.
func (l *look) concerns(object corev1.ObjectReference) bool {
	owners := []string{l.key.Name}
	for _, one := range l.facts.Companions {
		owners = append(owners, one.GetName())
	}
	return slices.ContainsFunc(owners, func(owner string) bool {
		if strings.HasPrefix(object.Kind, "Geo") {
			return object.Name == owner
		}
		serial, found := strings.CutPrefix(object.Name, owner+"-")
		return found && strings.Trim(serial, "0123456789-") == ""
	})
}

// operator looks where an installation from deploy/ has it. Who may not look there learns that from the checks.
func (l *look) operator() {
	home := client.ObjectKey{Namespace: l.Home, Name: operatorName}
	var deployment appsv1.Deployment
	if err := l.Get(l.ctx, home, &deployment); err != nil {
		return
	}
	operator := &view.Operator{Namespace: l.Home, Wanted: 1, Ready: deployment.Status.ReadyReplicas}
	if deployment.Spec.Replicas != nil {
		operator.Wanted = *deployment.Spec.Replicas
	}
	for _, container := range deployment.Spec.Template.Spec.Containers {
		if container.Name == "operator" {
			operator.Image, operator.Namespaces = container.Image, namespacesOf(container.Args)
		}
	}
	var lease coordinationv1.Lease
	if err := l.Get(l.ctx, home, &lease); err == nil && lease.Spec.HolderIdentity != nil && lease.Spec.RenewTime != nil {
		operator.Holder, operator.Renewed = *lease.Spec.HolderIdentity, lease.Spec.RenewTime.Time
	}
	l.facts.Operator, l.facts.Deployment = operator, &deployment
}

// namespacesOf reads the flag of the operator.
func namespacesOf(args []string) []string {
	for index, arg := range args {
		value, found := strings.CutPrefix(arg, "--namespaces=")
		if arg == "--namespaces" && index+1 < len(args) {
			value, found = args[index+1], true
		}
		if found && value != "" {
			return strings.Split(value, ",")
		}
	}
	return nil
}
