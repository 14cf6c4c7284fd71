package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
)

// resourcesPatience bounds a scrape of the operator, which reads from its cache.
const resourcesPatience = 5 * time.Second

var (
	resourceLabels = []string{"namespace", "kind", "name"}

	resourceCondition = prometheus.NewDesc("meridian_condition",
		"Conditions: 1 while True, 0 while False, -1 while Unknown. Each reason has a page in the runbook.",
		append(resourceLabels, "condition", "reason"), nil)
	resourceWanted = prometheus.NewDesc("meridian_instances_wanted", "Instances that the spec asks for.",
		resourceLabels, nil)
	resourceReady = prometheus.NewDesc("meridian_instances_ready", "Instances that do their work.", resourceLabels, nil)
	resourceTerm  = prometheus.NewDesc("meridian_term",
		"Number of the primary's lease. It grows by one with each change of the primary.", resourceLabels, nil)
	resourcePending = prometheus.NewDesc("meridian_pending_changes",
		"Changes that were asked for and are not carried out yet.", resourceLabels, nil)
	resourcePaused = prometheus.NewDesc("meridian_paused", "Whether the spec says that the operator changes nothing.",
		resourceLabels, nil)
)

// Resources are figures about every database and cache that the reader shows, out of their status.
func Resources(reader client.Reader) prometheus.Collector { return resources{reader} }

type resources struct{ client.Reader }

// Describe implements prometheus.Collector.
func (r resources) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		resourceCondition, resourceWanted, resourceReady, resourceTerm, resourcePending, resourcePaused,
		backupUntil, backupLast, backupVerified, backupRestore, backupSize,
	} {
		out <- desc
	}
}

// Collect implements prometheus.Collector. A replica of the operator whose cache is not filled yet gives nothing.
func (r resources) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), resourcesPatience)
	defer cancel()
	for _, list := range []client.ObjectList{&v1alpha1.GeoDatabaseList{}, &v1alpha1.GeoCacheList{}} {
		if err := r.List(ctx, list); err != nil {
			continue
		}
		// What is called for each returns no error.
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			if of, known := subjectOf(item); known {
				of.collect(out)
			}
			if database, is := item.(*v1alpha1.GeoDatabase); is {
				collectBackup(out, database.ObjectMeta, database.Status.Backup)
			}
			return nil
		})
	}
}

// subject is what the kinds of resources have in common.
type subject struct {
	kind       string
	object     metav1.ObjectMeta
	conditions []metav1.Condition
	wanted     int32
	members    []v1alpha1.InstanceStatus
	term       int64
	pending    int
	paused     bool
}

// subjectOf tells of an object of ours. Others are not known.
func subjectOf(object runtime.Object) (of subject, known bool) {
	switch object := object.(type) {
	case *v1alpha1.GeoDatabase:
		status := object.Status
		return subject{"GeoDatabase", object.ObjectMeta, status.Conditions, object.Spec.Instances, status.Members,
			status.Term, len(status.PendingChanges), object.Spec.Paused}, true
	case *v1alpha1.GeoCache:
		status := object.Status
		return subject{"GeoCache", object.ObjectMeta, status.Conditions, object.Spec.Replicas, status.Members,
			status.Term, len(status.PendingChanges), object.Spec.Paused}, true
	}
	return subject{}, false
}

func (s subject) collect(out chan<- prometheus.Metric) {
	labels := []string{s.object.Namespace, s.kind, s.object.Name}
	set := func(desc *prometheus.Desc, value float64, more ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, append(labels, more...)...)
	}
	ready := 0
	for _, member := range s.members {
		if member.Ready {
			ready++
		}
	}
	set(resourceWanted, float64(s.wanted))
	set(resourceReady, float64(ready))
	set(resourceTerm, float64(s.term))
	set(resourcePending, float64(s.pending))
	set(resourcePaused, truth(s.paused))
	for _, condition := range s.conditions {
		value := map[metav1.ConditionStatus]float64{metav1.ConditionTrue: 1, metav1.ConditionUnknown: -1}[condition.Status]
		set(resourceCondition, value, condition.Type, condition.Reason)
	}
}
