package lives

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/kit/sim"
	"meridian.dev/meridian/kit/sim/search"
	"meridian.dev/meridian/test/sim/kube"
)

func squat() search.Step {
	return search.Step{Name: "somebody takes a name", Do: func(ctx context.Context, cluster client.Client) error {
		return cluster.Create(ctx, squatter())
	}}
}

func parameter(name, value string) search.Step {
	return search.Step{Name: name + " is " + value, Do: changeDatabase(func(object *v1alpha1.GeoDatabase) {
		object.Spec.Parameters = map[string]v1alpha1.Setting{name: v1alpha1.Setting(value)}
	})}
}

func restart() search.Step {
	return search.Step{Name: "restart, please", Do: changeDatabase(func(object *v1alpha1.GeoDatabase) {
		object.Spec.Restart = "now"
	})}
}

func enlarge(memory string) search.Step {
	return search.Step{Name: memory + " of memory", Do: changeDatabase(func(object *v1alpha1.GeoDatabase) {
		size := resource.MustParse(memory)
		object.Spec.Resources.Memory = &size
	})}
}

// hasNewSecret says that a Secret was replaced.
func hasNewSecret(name string) func(search.State) error {
	return func(state search.State) error {
		if slices.ContainsFunc(state.Events, func(event sim.Event) bool {
			return event.Kind == secretKind && event.Key.Name == name && event.Type == watch.Modified
		}) {
			return nil
		}
		return errors.New(name + " is still the same")
	}
}

func image(name string) search.Step {
	return search.Step{Name: "image: " + name, Do: changeDatabase(func(object *v1alpha1.GeoDatabase) {
		object.Spec.Image = name
	})}
}

func hibernate(so bool) search.Step {
	return search.Step{Name: fmt.Sprintf("hibernated: %t", so), Do: changeDatabase(func(object *v1alpha1.GeoDatabase) {
		object.Spec.Hibernated = so
	})}
}

// runs says which image all instances run.
func runs(image string) func(search.State) error {
	return func(state search.State) error {
		scene, err := sceneOf(state)
		if err != nil {
			return err
		}
		for _, pod := range scene.view.Pods.Items {
			if pod.Spec.Containers[0].Image != image {
				return fmt.Errorf("%s runs %s, want %s", pod.Name, pod.Spec.Containers[0].Image, image)
			}
		}
		return nil
	}
}

// maintain names the times at which what waits for a restart may be carried out.
func maintain(window string) search.Step {
	return search.Step{Name: "maintenance " + window, Do: changeDatabase(func(object *v1alpha1.GeoDatabase) {
		object.Spec.Maintenance = &v1alpha1.Maintenance{Window: window, TimeZone: "UTC"}
	})}
}

// installs says which image the agents of all instances come from.
func installs(image string) func(search.State) error {
	return func(state search.State) error {
		scene, err := sceneOf(state)
		if err != nil {
			return err
		}
		for _, pod := range scene.view.Pods.Items {
			if pod.Spec.InitContainers[0].Image != image {
				return fmt.Errorf("%s has its agent from %s, want %s", pod.Name, pod.Spec.InitContainers[0].Image, image)
			}
		}
		return nil
	}
}

func scale(to int32) search.Step {
	return search.Step{Name: fmt.Sprintf("%d instances", to), Do: changeDatabase(func(object *v1alpha1.GeoDatabase) {
		object.Spec.Instances = to
	})}
}

func reclaim(how v1alpha1.Reclaim) search.Step {
	return search.Step{Name: "reclaim: " + string(how), Do: changeDatabase(func(object *v1alpha1.GeoDatabase) {
		object.Spec.Storage.Reclaim = how
	})}
}

func pause(so bool) search.Step {
	return search.Step{Name: fmt.Sprintf("paused: %t", so), Do: changeDatabase(func(object *v1alpha1.GeoDatabase) {
		object.Spec.Paused = so
	})}
}

func grow(size string) search.Step {
	return search.Step{Name: "volumes of " + size, Do: changeDatabase(func(object *v1alpha1.GeoDatabase) {
		object.Spec.Storage.Size = resource.MustParse(size)
	})}
}

func switchTo(instance string) search.Step {
	return search.Step{Name: instance + " shall be the primary", Do: changeDatabase(func(object *v1alpha1.GeoDatabase) {
		metav1.SetMetaDataAnnotation(&object.ObjectMeta, database.AnnotationSwitchover, instance)
	})}
}

// upgrade has another version of a program start, whose pods are made of another image.
func upgrade(program string) search.Step {
	version := client.ObjectKey{Namespace: home, Name: versionName}
	return search.Step{Name: "another version is installed", Restarts: []string{program},
		Do: change(version, func() *corev1.ConfigMap { return &corev1.ConfigMap{} }, func(chosen *corev1.ConfigMap) {
			chosen.Data["version"] = "2"
		})}
}

func drop() search.Step {
	return search.Step{Name: "the database is deleted", Do: func(ctx context.Context, cluster client.Client) error {
		object := &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: Cities.Name}}
		return client.IgnoreNotFound(cluster.Delete(ctx, object))
	}}
}

func endPodOf(instance string) search.Step {
	name := database.PodName(instance)
	return search.Step{Name: "the pod " + name + " is deleted", Do: remove(&corev1.Pod{}, name)}
}

func remove(object client.Object, name string) func(context.Context, client.Client) error {
	return func(ctx context.Context, cluster client.Client) error {
		fresh := object.DeepCopyObject().(client.Object)
		fresh.SetNamespace(space)
		fresh.SetName(name)
		return client.IgnoreNotFound(cluster.Delete(ctx, fresh))
	}
}

// loseNodeOf takes the power from a node. It is not known to be lost before some minutes have passed.
func loseNodeOf(number int) search.Step {
	name := fmt.Sprintf("node%d", number)
	return search.Step{Name: name + " loses its power", Do: func(ctx context.Context, cluster client.Client) error {
		var node corev1.Node
		if err := cluster.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
			return err
		}
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, kube.Away, "yes")
		if err := cluster.Update(ctx, &node); err != nil {
			return err
		}
		node.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionUnknown,
			LastTransitionTime: metav1.NewTime(search.Now(ctx)),
		}}
		return cluster.Status().Update(ctx, &node)
	}}
}

func bringBack(number int) func(context.Context, client.Client) error {
	return func(ctx context.Context, cluster client.Client) error {
		var node corev1.Node
		if err := cluster.Get(ctx, client.ObjectKey{Name: fmt.Sprintf("node%d", number)}, &node); err != nil {
			return err
		}
		delete(node.Annotations, kube.Away)
		if err := cluster.Update(ctx, &node); err != nil {
			return err
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		return cluster.Status().Update(ctx, &node)
	}
}

func loseClaimOf(instance string) search.Step {
	return search.Step{Name: "the claim and the pod of " + instance + " are deleted",
		Do: func(ctx context.Context, cluster client.Client) error {
			if err := remove(&corev1.PersistentVolumeClaim{}, instance)(ctx, cluster); err != nil {
				return err
			}
			return remove(&corev1.Pod{}, database.PodName(instance))(ctx, cluster)
		}}
}

// leftBy is the database that has left its volumes.
func leftBy(ctx context.Context, cluster client.Reader) (string, error) {
	var claim corev1.PersistentVolumeClaim
	_, err := kube.Get(ctx, cluster, names(1)[0], &claim)
	return claim.Annotations[database.AnnotationOwner], err
}

// createAgain makes the database that goes on with the volumes of one that was deleted.
func createAgain() search.Step {
	return search.Step{Name: "it is made again", Do: func(ctx context.Context, cluster client.Client) error {
		before, err := leftBy(ctx, cluster)
		if err != nil {
			return err
		}
		object := newDatabase(3, v1alpha1.ReclaimRetain)
		object.Spec.Storage.Adopt = before
		return cluster.Create(ctx, object)
	}}
}

// adopt says so when the database is there already.
func adopt() search.Step {
	return search.Step{Name: "it shall take its volumes over", Do: func(ctx context.Context, cluster client.Client) error {
		before, err := leftBy(ctx, cluster)
		if err != nil {
			return err
		}
		return changeDatabase(func(object *v1alpha1.GeoDatabase) {
			if string(object.UID) != before {
				object.Spec.Storage.Adopt = before
			}
		})(ctx, cluster)
	}}
}

// handOver says of claims that were kept that they belong to the database that there is now.
func handOver() search.Step {
	return search.Step{Name: "its old claims are handed over", Do: func(ctx context.Context, cluster client.Client) error {
		object, err := databaseOf(cluster)
		if err != nil {
			return client.IgnoreNotFound(err)
		}
		for _, name := range upTo(3) {
			key := client.ObjectKey{Namespace: space, Name: name}
			adopt := change(key, func() *corev1.PersistentVolumeClaim { return &corev1.PersistentVolumeClaim{} },
				func(claim *corev1.PersistentVolumeClaim) {
					metav1.SetMetaDataAnnotation(&claim.ObjectMeta, database.AnnotationOwner, string(object.UID))
				})
			if err := adopt(ctx, cluster); err != nil {
				return err
			}
		}
		return nil
	}}
}

// spoil takes labels and a selector from children, and a child altogether.
func spoil() search.Step {
	service := func() *corev1.Service { return &corev1.Service{} }
	return search.Step{Name: "somebody spoils children", Do: func(ctx context.Context, cluster client.Client) error {
		for _, each := range []func(context.Context, client.Client) error{
			change(client.ObjectKey{Namespace: space, Name: "cities-ro"}, service, func(object *corev1.Service) {
				object.Spec.Selector = map[string]string{"app": "another"}
				object.Labels = nil
			}),
			remove(&corev1.Service{}, "cities-pods"),
		} {
			if err := each(ctx, cluster); err != nil {
				return err
			}
		}
		return nil
	}}
}

// loseLease takes the lease away, finalizer and all.
func loseLease() search.Step {
	return search.Step{Name: "the lease is deleted by force", Do: func(ctx context.Context, cluster client.Client) error {
		return forceAway(ctx, cluster, database.LeaseName(Cities.Name))
	}}
}

func isPrimary(instance string) func(search.State) error {
	return func(state search.State) error {
		scene, err := sceneOf(state)
		switch {
		case err != nil:
			return err
		case scene.holder.Name != instance:
			return fmt.Errorf("the primary is %s, want %s", scene.holder.Name, instance)
		case scene.database.Annotations[database.AnnotationSwitchover] != "":
			return errors.New("the request is still there")
		}
		return nil
	}
}

// isStuck says that nothing was built around a name that is taken, and that it is said.
func isStuck(state search.State) error {
	found, err := databaseOf(state)
	if err != nil {
		return err
	}
	scene, err := sceneOf(state)
	if err == nil && (condition.IsTrue(found.Status.Conditions, condition.Ready) || len(scene.view.Sets.Items) > 0) {
		return fmt.Errorf("it is built: %s", told(found.Status.Conditions))
	}
	return err
}

func hasParameter(name, value string) func(search.State) error {
	return func(state search.State) error {
		for _, parameter := range settingsOf(context.Background(), state).Parameters {
			if parameter == (wire.Parameter{Name: name, Value: value}) {
				return nil
			}
		}
		return fmt.Errorf("%s is not %s", name, value)
	}
}

// isInForce says that all servers have the settings that there are, those that take a start included.
func isInForce(state search.State) error {
	settings := settingsOf(context.Background(), state)
	return errors.Join(everyPod(state, taken, settings.Hash()), everyPod(state, runsWith, startersOf(settings)))
}

// haveMemory says how much memory the containers of all servers ask for, and were given.
func haveMemory(size string) func(search.State) error {
	return func(state search.State) error {
		scene, err := sceneOf(state)
		if err != nil {
			return err
		}
		wanted := resource.MustParse(size)
		for _, pod := range scene.view.Pods.Items {
			asked, given := pod.Spec.Containers[0].Resources, corev1.ResourceRequirements{}
			if statuses := pod.Status.ContainerStatuses; len(statuses) > 0 && statuses[0].Resources != nil {
				given = *statuses[0].Resources
			}
			for _, list := range []corev1.ResourceList{asked.Requests, asked.Limits, given.Requests, given.Limits} {
				if have := list.Memory(); have.Cmp(wanted) != 0 {
					return fmt.Errorf("%s asks for %s or has %s, want %s", pod.Name, asked.Limits.Memory(), have, size)
				}
			}
		}
		return nil
	}
}

// haveEnded says that the pods of instances were made anew.
func haveEnded(instances ...string) func(search.State) error {
	return func(state search.State) error {
		for _, name := range instances {
			if !slices.ContainsFunc(state.Events, func(event sim.Event) bool {
				return event.Kind.Kind == "Pod" && event.Key.Name == database.PodName(name) && event.Type == watch.Deleted
			}) {
				return fmt.Errorf("the pod of %s is still the first one", name)
			}
		}
		return nil
	}
}

// wakeSleepers wakes a database when nothing runs any more.
func wakeSleepers(v *kube.View) (bool, error) {
	object, err := databaseOf(v)
	if err != nil || !object.Spec.Hibernated || len(v.Pods.Items) > 0 {
		return false, client.IgnoreNotFound(err)
	}
	object.Spec.Hibernated = false
	return true, v.Update(v, object)
}

// isAwake says that the user could wake the database, because everything did sleep.
func isAwake(state search.State) error {
	found, err := databaseOf(state)
	if err == nil && found.Spec.Hibernated {
		return errors.New("it shall sleep, and there were pods all the time")
	}
	return err
}

// isRepaired says that what spoil has done is undone.
func isRepaired(state search.State) error {
	for _, name := range []string{database.ReadName(Cities.Name), database.PodsName(Cities.Name)} {
		var service corev1.Service
		found, err := kube.Get(context.Background(), state, name, &service)
		if !found || err != nil || service.Labels[database.LabelDatabase] != Cities.Name ||
			service.Spec.Selector[database.LabelDatabase] != Cities.Name {
			return fmt.Errorf("the Service %s is not there, or leads elsewhere: %v %w", name, service.Spec.Selector, err)
		}
	}
	return nil
}

func hasSize(size string) func(search.State) error {
	return haveSize(size, func(instance string) string { return instance })
}

// haveSize says how large the volumes of all instances are whose claims have these names.
func haveSize(size string, nameOf func(instance string) string) func(search.State) error {
	return func(state search.State) error {
		scene, err := sceneOf(state)
		if err != nil {
			return err
		}
		wanted := resource.MustParse(size)
		for _, name := range scene.settings.Instances {
			claim := scene.view.Claim(nameOf(name))
			if claim == nil || claim.Status.Capacity.Storage().Cmp(wanted) != 0 {
				return fmt.Errorf("the volume of %s has another size than %s", nameOf(name), size)
			}
		}
		return nil
	}
}
