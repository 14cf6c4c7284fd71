package metrics

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
)

// Observer counts the writes of the operator by kind, and measures how long databases were not serving, or being
// changed, as its own status says. Passes, holds and what was done are counted by kit/loop.
type Observer struct {
	writes *prometheus.CounterVec
	spans  *prometheus.HistogramVec

	lock  sync.Mutex
	since map[turn]time.Time
	now   func() time.Time
}

// turn is a condition of an object that is not as it should be.
type turn struct {
	key types.NamespacedName
	typ string
}

// NewObserver registers the figures.
func NewObserver(registerer prometheus.Registerer, now func() time.Time) (*Observer, error) {
	observer := &Observer{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "meridian_writes_total", Help: "Writes of the operator to the API server.",
		}, []string{"kind", "verb", "result"}),
		spans: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "meridian_span_seconds",
			Help:    "How long databases and caches did not serve (outage) or were being changed (change).",
			Buckets: []float64{1, 2, 3, 5, 8, 13, 20, 30, 60, 120, 300, 900, 3600},
		}, []string{"kind", "span"}),
		since: map[turn]time.Time{}, now: now,
	}
	for _, one := range []prometheus.Collector{observer.writes, observer.spans} {
		if err := registerer.Register(one); err != nil {
			return nil, fmt.Errorf("register the figures of the operator: %w", err)
		}
	}
	return observer, nil
}

// Client counts the writes of a client.
func (o *Observer) Client(inner client.Client) client.Client {
	return observed{Client: inner, observer: o}
}

type observed struct {
	client.Client
	observer *Observer
}

func (c observed) count(verb string, object client.Object, err error) error {
	c.observer.writes.WithLabelValues(kindOf(object), verb, resultOf(err)).Inc()
	return err
}

// kindOf is the name of the type: objects that come from a typed client do not carry their kind.
func kindOf(object runtime.Object) string {
	name := fmt.Sprintf("%T", object)
	return name[strings.LastIndexByte(name, '.')+1:]
}

func resultOf(err error) string {
	switch {
	case err == nil:
		return "ok"
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return "conflict"
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err):
		return "refused"
	default:
		return "failed"
	}
}

// Create implements client.Writer. So do the next four.
func (c observed) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	return c.count("create", object, c.Client.Create(ctx, object, options...))
}

func (c observed) Update(ctx context.Context, object client.Object, options ...client.UpdateOption) error {
	return c.count("update", object, c.Client.Update(ctx, object, options...))
}

func (c observed) Patch(
	ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption,
) error {
	return c.count("patch", object, c.Client.Patch(ctx, object, patch, options...))
}

func (c observed) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	return c.count("delete", object, c.Client.Delete(ctx, object, options...))
}

func (c observed) Status() client.SubResourceWriter {
	return status{SubResourceWriter: c.Client.Status(), client: c}
}

type status struct {
	client.SubResourceWriter
	client observed
}

func (s status) Patch(
	ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption,
) error {
	err := s.client.count("patch status", object, s.SubResourceWriter.Patch(ctx, object, patch, options...))
	if err == nil {
		s.client.observer.see(object)
	}
	return err
}

// see measures how long conditions were not as they should be. What was so before this process began to look has no
// beginning, and is left out.
func (o *Observer) see(object client.Object) {
	of, _ := subjectOf(object)
	o.measure(object, condition.Find(of.conditions, v1alpha1.ConditionServing), metav1.ConditionTrue, "outage")
	o.measure(object, condition.Find(of.conditions, v1alpha1.ConditionProgressing), metav1.ConditionFalse, "change")
}

func (o *Observer) measure(object client.Object, found *metav1.Condition, good metav1.ConditionStatus, span string) {
	if found == nil {
		return
	}
	at := turn{client.ObjectKeyFromObject(object), kindOf(object) + found.Type}
	o.lock.Lock()
	defer o.lock.Unlock()
	since, known := o.since[at]
	switch {
	case found.Status != good && !known:
		o.since[at] = o.now()
	case found.Status == good && known:
		delete(o.since, at)
		o.spans.WithLabelValues(kindOf(object), span).Observe(o.now().Sub(since).Seconds())
	}
}
