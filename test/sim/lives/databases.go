package lives

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/kit/sim/search"
	"meridian.dev/meridian/test/sim/kube"
)

// names are those of instances, by number.
func names(numbers ...int) []string {
	var list []string
	for _, number := range numbers {
		list = append(list, database.InstanceName(Cities.Name, number))
	}
	return list
}

// upTo are the first instances.
func upTo(last int) []string {
	var list []string
	for number := 1; number <= last; number++ {
		list = append(list, names(number)...)
	}
	return list
}

var (
	created1 = Life{
		Name: "create one", Script: []search.Step{createDatabase(1, v1alpha1.ReclaimRetain)},
		End: all(served(upTo(1)...), claims(upTo(1)...)),
	}
	created3 = Life{
		Name: "create three", Script: []search.Step{createDatabase(3, v1alpha1.ReclaimDelete)},
		End: all(served(upTo(3)...), claims(upTo(3)...)),
	}
	kept3 = Life{
		Name: "create three to keep", Script: []search.Step{createDatabase(3, v1alpha1.ReclaimRetain)},
		End: all(served(upTo(3)...), claims(upTo(3)...)),
	}

	one, three, keptThree = after(created1), after(created3), after(kept3)

	deletedAndKept = Life{
		Name: "deleted and kept", From: keptThree, Restarts: 1, Script: []search.Step{drop()},
		End: all(gone, left(upTo(3)...)),
	}
	adoptable = after(deletedAndKept)
)

// Databases are the lives of a database.
func Databases() []Life {
	return slices.Concat(births(), wishes(), growing(), logVolumes(), rotations(), rolls(), trials(), losses(), ends(),
		oddities())
}

func births() []Life {
	return []Life{
		created1, created3,
		{Name: "a name is taken", End: isStuck, Script: []search.Step{squat(), createDatabase(3, v1alpha1.ReclaimDelete)}},
	}
}

// wishes need no restart.
func wishes() []Life {
	return []Life{
		{Name: "scale up", From: three, Script: []search.Step{scale(4)}, End: served(upTo(4)...)},
		{Name: "scale down", From: three, Restarts: 1, Script: []search.Step{scale(2)},
			End: all(served(upTo(2)...), claims(upTo(2)...))},
		{Name: "scale down and keep", From: keptThree, Restarts: 1, Script: []search.Step{scale(2)},
			End: all(served(upTo(2)...), claims(upTo(3)...))},
		{Name: "scale up and think again", From: three, Restarts: 1, Script: []search.Step{scale(4), scale(3)},
			End: all(served(upTo(3)...), claims(upTo(3)...))},
		{Name: "another parameter", From: three, Script: []search.Step{parameter("work_mem", "7MB")},
			End: all(served(upTo(3)...), hasParameter("work_mem", "7MB"), isInForce)},
		{Name: "grow volumes", From: three, Script: []search.Step{grow("2Gi")}, End: all(served(upTo(3)...), hasSize("2Gi"))},
		{Name: "switchover", From: three, Script: []search.Step{switchTo("cities-2")}, Moves: 1,
			End: all(served(upTo(3)...), isPrimary("cities-2"))},
		{Name: "paused", From: three, End: func(state search.State) error { return hasInstances(state, upTo(3)...) },
			Script: []search.Step{pause(true), scale(4)}},
		{Name: "paused and not any more", From: three, End: served(upTo(4)...),
			Script: []search.Step{pause(true), scale(4), pause(false)}},
	}
}

// rolls restart instances, one at a time.
func rolls() []Life {
	return []Life{
		{Name: "another image", From: three, Restarts: 1, Moves: 1, Script: []search.Step{image("postgis:17-1")},
			End: all(served(upTo(3)...), runs("postgis:17-1"))},
		{Name: "an image that is not there, and back", From: three, Restarts: 2, Moves: 1, End: served(upTo(3)...),
			Script: []search.Step{image(kube.Missing + ":1"), image("")}},
		{Name: "a restart", From: three, Restarts: 1, Moves: 1, Script: []search.Step{restart()},
			End: all(served(upTo(3)...), haveEnded(upTo(3)...))},
		{Name: "a parameter that takes a start", From: three, Moves: 1,
			Script: []search.Step{parameter("max_connections", "150")},
			End:    all(served(upTo(3)...), hasParameter("max_connections", "150"), isInForce)},
		{Name: "more memory for instances", From: three, Moves: 1, Script: []search.Step{enlarge("2Gi")},
			End: all(served(upTo(3)...), haveMemory("2Gi"), isInForce)},
		{Name: "hibernate and wake", From: three, Restarts: 1, Wakes: true, Script: []search.Step{hibernate(true)},
			End: all(served(upTo(3)...), claims(upTo(3)...), isAwake)},
		{Name: "hibernate and think again", From: three, Restarts: 1,
			Script: []search.Step{hibernate(true), hibernate(false)},
			End:    all(served(upTo(3)...), claims(upTo(3)...))},
		{Name: "one instance gets another image", From: one, Restarts: 1, Script: []search.Step{image("postgis:17-1")},
			End: all(served(upTo(1)...), runs("postgis:17-1"))},
		{Name: "another version of the operator", From: three, End: served(upTo(3)...),
			Script: []search.Step{upgrade(databaseOperator)}},
		{Name: "another version, and the window is open", From: three, Restarts: 1, Moves: 1,
			Script: []search.Step{maintain("daily 00:00-23:59"), upgrade(databaseOperator)},
			End:    all(served(upTo(3)...), installs("meridian:2"))},
	}
}

func losses() []Life {
	return []Life{
		{Name: "a replica ends", From: three, Restarts: 1, Script: []search.Step{endPodOf("cities-3")},
			End: served(upTo(3)...)},
		{Name: "the primary ends", From: three, Restarts: 1, Moves: 1, Script: []search.Step{endPodOf("cities-1")},
			End: served(upTo(3)...)},
		{Name: "one instance restarts", From: one, Restarts: 1, Script: []search.Step{endPodOf("cities-1")},
			End: served(upTo(1)...)},
		{Name: "a node is lost", From: three, Script: []search.Step{loseNodeOf(3)}, Restarts: 2,
			End: served(names(1, 2, 4)...)},
		{Name: "the node of the primary is lost", From: three, Script: []search.Step{loseNodeOf(1)}, Restarts: 2, Moves: 1,
			End: served(names(2, 3, 4)...)},
		{Name: "a node is away for a minute", From: three, Restarts: 1, End: served(upTo(3)...), Script: []search.Step{
			loseNodeOf(3), {Name: "node3 is back", Do: bringBack(3)},
		}},
		{Name: "a claim is lost", From: three, Restarts: 1, Script: []search.Step{loseClaimOf("cities-3")},
			End: served(names(1, 2, 4)...)},
		{Name: "the claim of the primary is lost", From: three, Restarts: 1, Moves: 1,
			Script: []search.Step{loseClaimOf("cities-1")}, End: served(names(2, 3, 4)...)},
		{Name: "the lease is lost", From: three, Moves: 1, Script: []search.Step{loseLease()}, End: served(upTo(3)...)},
		{Name: "children are spoilt", From: three, Script: []search.Step{spoil()},
			End: all(served(upTo(3)...), isRepaired)},
		{Name: "certificates end", From: three, Script: []search.Step{
			{Name: "40 days pass", Wait: 40 * 24 * time.Hour}, {Name: "40 days pass", Wait: 40 * 24 * time.Hour},
		}, End: all(served(upTo(3)...), hasNewSecret(database.CertificateName(Cities.Name, 1)))},
	}
}

func ends() []Life {
	return []Life{
		deletedAndKept,
		{Name: "deleted with all", From: three, Restarts: 1, Script: []search.Step{drop()}, End: all(gone, claims())},
		{Name: "deleted, and then kept", From: three, Restarts: 1, End: all(gone, left(upTo(3)...)),
			Script: []search.Step{reclaim(v1alpha1.ReclaimRetain), drop()}},
		{Name: "deleted before it was there", Restarts: 1, End: all(gone, claims()),
			Script: []search.Step{createDatabase(3, v1alpha1.ReclaimDelete), drop()}},
	}
}

func oddities() []Life {
	return []Life{
		{Name: "adopted", From: adoptable, Moves: 1, End: all(served(upTo(3)...), claims(upTo(3)...)),
			Script: []search.Step{createAgain()}},
		{Name: "adopted, and told so later", From: adoptable, Moves: 1, End: all(served(upTo(3)...), claims(upTo(3)...)),
			Script: []search.Step{createDatabase(3, v1alpha1.ReclaimRetain), adopt()}},
		{Name: "adopted and deleted again", From: adoptable, Restarts: 1, End: all(gone, left(upTo(3)...)),
			Script: []search.Step{createAgain(), drop()}},
		{Name: "adopted without a node and deleted again", From: adoptable, Restarts: 1, End: all(gone, left(upTo(3)...)),
			Script: []search.Step{loseNodeOf(1), createAgain(), {Name: "a minute goes by", Wait: time.Minute}, drop()}},
		{Name: "handed over by hand", From: adoptable, Moves: 1, End: all(served(upTo(3)...), claims(upTo(3)...)),
			Script: []search.Step{createDatabase(3, v1alpha1.ReclaimRetain), handOver()}},
	}
}

// What is on a volume is kept on its claim; what the agent has seen of it when it looked last, on its pod.
const (
	used     = "example.com/used"
	seenUsed = "example.com/seen-used"
	seenSize = "example.com/seen-size"
)

// allowGrowth lets volumes grow by themselves.
func allowGrowth(limit string) search.Step {
	return search.Step{Name: "volumes may grow to " + limit, Do: changeDatabase(func(object *v1alpha1.GeoDatabase) {
		object.Spec.Storage.AutoGrow = &v1alpha1.AutoGrow{Limit: resource.MustParse(limit), AtPercent: 80}
	})}
}

// fill puts so much onto the volume of an instance.
func fill(instance, size string) search.Step {
	key := client.ObjectKey{Namespace: space, Name: instance}
	blank := func() *corev1.PersistentVolumeClaim { return &corev1.PersistentVolumeClaim{} }
	return search.Step{Name: size + " on the volume of " + instance,
		Do: change(key, blank, func(claim *corev1.PersistentVolumeClaim) {
			amount := resource.MustParse(size)
			metav1.SetMetaDataAnnotation(&claim.ObjectMeta, used, strconv.FormatInt(amount.Value(), 10))
		})}
}

// lookAtVolume has an agent see how full its volume is, some time after that has changed, and say so on its pod.
func lookAtVolume(v *kube.View) (bool, error) {
	for i := range v.Pods.Items {
		pod := &v.Pods.Items[i]
		claim := v.Claim(instanceOf(pod))
		if claim == nil || !kube.Ready(pod) || claim.Annotations[used] == "" {
			continue
		}
		size := strconv.FormatInt(claim.Status.Capacity.Storage().Value(), 10)
		if pod.Annotations[seenUsed] == claim.Annotations[used] && pod.Annotations[seenSize] == size {
			continue
		}
		pod.Annotations[seenUsed], pod.Annotations[seenSize] = claim.Annotations[used], size
		delete(pod.Annotations, wire.AnnotationVolumeUse)
		if use := percentOf(pod) / wire.VolumeUseStep * wire.VolumeUseStep; use >= wire.VolumeUseFrom {
			pod.Annotations[wire.AnnotationVolumeUse] = strconv.FormatInt(use, 10)
		}
		return true, v.Update(v, pod)
	}
	return false, nil
}

func percentOf(pod *corev1.Pod) int64 {
	size, in := number(pod.Annotations[seenSize]), number(pod.Annotations[seenUsed])
	return in * 100 / max(size, 1)
}

func number(text string) int64 {
	value, _ := strconv.ParseInt(text, 10, 64) // 0 before there is one
	return value
}

// roomOf is what the agent reports of its volume.
func (a agents) roomOf(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) wire.Room {
	size := number(pod.Annotations[seenSize])
	if a.percents && size > 0 {
		size = claim.Status.Capacity.Storage().Value()
	}
	return wire.Room{Size: size, Free: size - size*percentOf(pod)/100}
}

// fills says that a volume is told to fill, and for which reason.
func fills(reason string) func(search.State) error {
	return func(state search.State) error {
		found, err := databaseOf(state)
		if err != nil {
			return err
		}
		filling := condition.Find(found.Status.Conditions, v1alpha1.ConditionFilling)
		switch {
		case filling == nil && reason == "":
			return nil
		case filling == nil || filling.Reason != reason:
			return fmt.Errorf("the condition Filling is %+v, want %q", filling, reason)
		}
		return nil
	}
}

// growing are lives in which volumes fill.
func growing() []Life {
	allowed := func(limit string) []search.Step { return []search.Step{allowGrowth(limit), fill("cities-1", "900Mi")} }
	return []Life{
		{Name: "a volume fills", From: three, Script: allowed("9Gi"),
			End: all(served(upTo(3)...), hasSize("2Gi"), fills(""))},
		{Name: "a volume fills twice", From: three, Script: append(allowed("9Gi"), fill("cities-2", "1900Mi")),
			End: all(served(upTo(3)...), hasSize("3Gi"), fills(""))},
		{Name: "a volume fills up to its limit", From: three, Script: append(allowed("2Gi"), fill("cities-1", "1900Mi")),
			End: all(served(upTo(3)...), hasSize("2Gi"), fills("GrowthLimitReached"))},
		{Name: "a volume has filled, and an instance is added", From: three, Script: append(allowed("9Gi"), scale(4)),
			End: all(served(upTo(4)...), hasSize("2Gi"))},
	}
}
