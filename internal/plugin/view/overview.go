package view

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/kind"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/condition"
)

// Labels and annotations that agents and the operator put onto objects.
const (
	LabelDatabase = kind.LabelDatabase
	LabelInstance = "meridian.dev/instance"
	LabelRole     = "meridian.dev/role"

	AnnotationSwitchover = "meridian.dev/switchover"
)

// Verdict is the one word for how a database or a companion is.
type Verdict string

// The verdicts, from bad to good.
const (
	Stalled  Verdict = "needs a human"
	Down     Verdict = "not serving"
	Unclear  Verdict = "unclear"
	Deleting Verdict = "being deleted"
	Degraded Verdict = "degraded"
	Paused   Verdict = "paused"
	Working  Verdict = "working on it"
	Well     Verdict = "well"
)

// Overview is a database on one screen. Scripts read it as JSON, so fields are added, never renamed.
type Overview struct {
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	Verdict   Verdict `json:"verdict"`
	// Reason and Message belong to the verdict. Reason has a page in the runbook.
	Reason     string              `json:"reason,omitempty"`
	Message    string              `json:"message,omitempty"`
	Primary    string              `json:"primary,omitempty"`
	Replicas   string              `json:"replicas,omitempty"`
	Lag        string              `json:"lag,omitempty"`
	Durability v1alpha1.Durability `json:"durability,omitempty"`
	Version    string              `json:"version,omitempty"`
	Lease      *Lease              `json:"lease,omitempty"`
	Instances  []Instance          `json:"instances"`
	Companions []Shown             `json:"-"` // By their kinds in JSON, see MarshalJSON.
	LastChange *Change             `json:"lastChange,omitempty"`
	WaitingFor string              `json:"waitingFor,omitempty"`
	Pending    []string            `json:"pendingChanges,omitempty"`
	Unread     []string            `json:"unread,omitempty"`
}

// Lease is who may lead, and who is counted on.
type Lease struct {
	Holder  string    `json:"holder,omitempty"`
	Term    int64     `json:"term"`
	Renewed time.Time `json:"renewed,omitzero"`
	// Seconds is how long it lasts.
	Seconds int32    `json:"seconds,omitempty"`
	Members []string `json:"members,omitempty"`
	// Copies is how many members have each acknowledged write.
	Copies  int    `json:"copies,omitempty"`
	Problem string `json:"problem,omitempty"`
}

// Instance is one line about an instance of a database or a companion.
type Instance struct {
	Name    string                `json:"name"`
	Pod     string                `json:"pod,omitempty"`
	Role    v1alpha1.InstanceRole `json:"role"`
	Ready   bool                  `json:"ready"`
	Node    string                `json:"node,omitempty"`
	Message string                `json:"message,omitempty"`
	// Lag is in seconds, nil while unknown and of a primary.
	Lag *float64 `json:"lagSeconds,omitempty"`
	// Used and Size are bytes of the volume, or of the memory of what has none; zero while unknown.
	Used int64 `json:"usedBytes,omitempty"`
	// Log says that it is the volume of the log, which is fuller than that of the data.
	Log      bool      `json:"logVolume,omitempty"`
	Size     int64     `json:"sizeBytes,omitempty"`
	Restarts int32     `json:"restarts"`
	Started  time.Time `json:"started,omitzero"`
}

// Change is something that was done or has turned.
type Change struct {
	At      time.Time `json:"at"`
	Object  string    `json:"object"`
	Warning bool      `json:"warning,omitempty"`
	Reason  string    `json:"reason"`
	Note    string    `json:"note"`
	Count   int32     `json:"count,omitempty"`
}

// Of interprets the facts.
func Of(facts Facts) Overview {
	database := facts.Database
	status := database.Status
	overview := Overview{
		Namespace: database.Namespace, Name: database.Name,
		Primary: status.Primary, Replicas: status.Replicas, Lag: status.Lag, Durability: status.Durability,
		Version: status.Version, WaitingFor: status.WaitingFor, Pending: status.PendingChanges, Unread: facts.Unread,
		Lease: leaseOf(facts), Instances: instancesOf(facts, LabelDatabase, database.Name, status.Members),
	}
	overview.Verdict, overview.Reason, overview.Message = judge(subject{
		object: database.ObjectMeta, observed: status.ObservedGeneration, conditions: status.Conditions,
		paused: database.Spec.Paused,
	})
	for _, one := range facts.Companions {
		overview.Companions = append(overview.Companions, shown(facts, one))
	}
	if changes := Changes(facts, database.Name); len(changes) > 0 {
		overview.LastChange = &changes[len(changes)-1]
	}
	return overview
}

// subject is what databases and companions have in common.
type subject struct {
	object     metav1.ObjectMeta
	observed   int64
	conditions []metav1.Condition
	paused     bool
}

// judge finds the worst that is true.
func judge(of subject) (verdict Verdict, reason, message string) {
	if of.object.DeletionTimestamp != nil {
		return Deleting, "", "it is being deleted"
	}
	if len(of.conditions) == 0 {
		return Working, "", "no operator has looked at it yet"
	}
	find := func(typ string, status metav1.ConditionStatus) *metav1.Condition {
		if found := condition.Find(of.conditions, typ); found != nil && found.Status == status {
			return found
		}
		return nil
	}
	for _, possible := range []struct {
		verdict Verdict
		found   *metav1.Condition
	}{
		{Stalled, find(v1alpha1.ConditionStalled, metav1.ConditionTrue)},
		{Down, fallen(of, find(v1alpha1.ConditionServing, metav1.ConditionFalse))},
		{Unclear, find(v1alpha1.ConditionServing, metav1.ConditionUnknown)},
		{Degraded, fallen(of, find(v1alpha1.ConditionDegraded, metav1.ConditionTrue))},
		{Working, find(v1alpha1.ConditionProgressing, metav1.ConditionTrue)},
	} {
		if possible.found != nil {
			return possible.verdict, possible.found.Reason, possible.found.Message
		}
	}
	switch ready := condition.Find(of.conditions, v1alpha1.ConditionReady); {
	case of.paused:
		return Paused, "Paused", "the operator changes nothing until spec.paused is false"
	case of.observed != of.object.Generation:
		return Working, "", "the operator has not looked at the latest spec yet"
	case ready == nil || ready.Status != metav1.ConditionTrue:
		return Unclear, "", "the condition Ready is not there"
	default:
		return Well, ready.Reason, ready.Message
	}
}

// fallen tells trouble from a beginning: what has not been well since it was made, and is being worked on, is being
// built.
func fallen(of subject, trouble *metav1.Condition) *metav1.Condition {
	progressing := condition.Find(of.conditions, v1alpha1.ConditionProgressing)
	begun := trouble != nil && !trouble.LastTransitionTime.After(of.object.CreationTimestamp.Add(birth))
	if begun && progressing != nil && progressing.Status == metav1.ConditionTrue {
		return nil
	}
	return trouble
}

// birth is how long after its creation a database may get its first conditions.
const birth = time.Minute

func leaseOf(facts Facts) *Lease {
	if facts.Lease == nil {
		return nil
	}
	spec := facts.Lease.Spec
	lease := &Lease{}
	if spec.HolderIdentity != nil {
		lease.Holder = wire.ParseMember(*spec.HolderIdentity).Name
	}
	if spec.LeaseTransitions != nil {
		lease.Term = int64(*spec.LeaseTransitions)
	}
	if spec.RenewTime != nil {
		lease.Renewed = spec.RenewTime.Time
	}
	if spec.LeaseDurationSeconds != nil {
		lease.Seconds = *spec.LeaseDurationSeconds
	}
	text := facts.Lease.Annotations[wire.AnnotationRecord]
	if text == "" {
		return lease
	}
	record, err := wire.DecodeLeaseRecord(text)
	if err != nil {
		lease.Problem = err.Error()
		return lease
	}
	lease.Copies = record.W
	for _, member := range record.Members {
		lease.Members = append(lease.Members, member.Name)
	}
	return lease
}

// instancesOf puts together what the status says of each instance, its pod and its figures.
func instancesOf(facts Facts, label, name string, members []v1alpha1.InstanceStatus) []Instance {
	byName := map[string]*Instance{}
	for _, member := range members {
		byName[member.Name] = &Instance{
			Name: member.Name, Role: member.Role, Ready: member.Ready, Node: member.Node, Message: member.Message,
		}
	}
	for _, pod := range facts.Pods {
		if pod.Labels[label] != name {
			continue
		}
		instance := byName[pod.Labels[LabelInstance]]
		if instance == nil {
			instance = &Instance{Name: pod.Labels[LabelInstance], Role: v1alpha1.RoleUnknown, Message: "the status lacks it"}
			byName[instance.Name] = instance
		}
		instance.add(pod, facts)
	}
	var instances []Instance
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		instances = append(instances, *byName[name])
	}
	return instances
}

func (i *Instance) add(pod corev1.Pod, facts Facts) {
	i.Pod, i.Node = pod.Name, pod.Spec.NodeName
	if pod.Status.StartTime != nil {
		i.Started = pod.Status.StartTime.Time
	}
	for _, container := range pod.Status.ContainerStatuses {
		i.Restarts += container.RestartCount
	}
	figures := facts.Figures[pod.Name]
	if lag, found := figures[FigureLag]; found && i.Role == v1alpha1.RoleReplica {
		i.Lag = &lag
	}
	i.Used, i.Size = int64(figures[FigureVolumeUsed]), int64(figures[FigureVolumeSize])
	// Of two volumes the fuller one is shown: it is the one to do something about.
	if used, size := int64(figures[FigureLogUsed]), int64(figures[FigureLogSize]); i.Size > 0 &&
		float64(used)*float64(i.Size) > float64(i.Used)*float64(size) {
		i.Used, i.Size, i.Log = used, size, true
	}
	if limit, found := figures[FigureMemoryLimit]; found {
		i.Used, i.Size = int64(figures[FigureMemoryUsed]), int64(limit)
	}
	for _, claim := range facts.Claims {
		if claim.Name == i.Name && i.Size == 0 {
			i.Size = claim.Status.Capacity.Storage().Value()
		}
	}
}

// Changes are the events about an object, or about all if no name is given, the newest last.
func Changes(facts Facts, name string) []Change {
	var changes []Change
	for _, event := range facts.Events {
		if name != "" && (event.InvolvedObject.Name != name || !strings.HasPrefix(event.InvolvedObject.Kind, "Geo")) {
			continue
		}
		changes = append(changes, changeOf(event))
	}
	slices.SortStableFunc(changes, func(a, b Change) int { return a.At.Compare(b.At) })
	return changes
}

func changeOf(event corev1.Event) Change {
	change := Change{
		At: event.LastTimestamp.Time, Object: strings.ToLower(event.InvolvedObject.Kind) + "/" + event.InvolvedObject.Name,
		Warning: event.Type == corev1.EventTypeWarning, Reason: event.Reason, Note: event.Message, Count: event.Count,
	}
	if change.At.IsZero() {
		change.At = event.EventTime.Time
	}
	if event.Series != nil {
		change.At, change.Count = event.Series.LastObservedTime.Time, event.Series.Count
	}
	if change.At.IsZero() {
		change.At = event.CreationTimestamp.Time
	}
	return change
}
