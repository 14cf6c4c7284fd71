package lives

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/test/sim/kube"
)

const (
	space = kube.Space
	home  = "meridian-system"
	// Nodes are node1 to node6.
	nodes = 6
)

var (
	// Cities is the database of all lives.
	Cities = client.ObjectKey{Namespace: space, Name: "cities"}
	// Tiles is the cache.
	Tiles = client.ObjectKey{Namespace: space, Name: "tiles"}

	secretKind   = corev1.SchemeGroupVersion.WithKind("Secret")
	databaseKind = v1alpha1.GroupVersion.WithKind("GeoDatabase")
	cacheKind    = v1alpha1.GroupVersion.WithKind("GeoCache")
)

// Settle is what every world has: nodes, a storage class, the version of the operator, and things of strangers that
// look like ours.
func Settle(ctx context.Context, cluster client.Client) error {
	yes := true
	objects := []client.Object{
		&storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{
				Name: "disk", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
			},
			Provisioner: "example.com/disk", AllowVolumeExpansion: &yes,
		},
		&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: home, Name: versionName}, Data: map[string]string{"version": "1"},
		},
	}
	for number := 1; number <= nodes; number++ {
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node%d", number)}})
	}
	for _, object := range append(objects, strangers()...) {
		if err := cluster.Create(ctx, object); err != nil {
			return fmt.Errorf("create %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

// strangers are objects of others beside ours, under labels of ours and names that begin like ours.
func strangers() []client.Object {
	theirs := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: space, Name: name, Annotations: map[string]string{stranger: "yes"},
			Labels: map[string]string{database.LabelDatabase: Cities.Name, database.LabelManagedBy: "meridian"},
		}
	}
	return []client.Object{
		&corev1.ConfigMap{ObjectMeta: theirs("cities-web")},
		&corev1.Service{ObjectMeta: theirs("cities-web"), Spec: corev1.ServiceSpec{
			Ports: []corev1.ServicePort{{Name: "http", Port: 80}},
		}},
		&corev1.PersistentVolumeClaim{ObjectMeta: theirs("cities-backup")},
		&corev1.ServiceAccount{ObjectMeta: theirs("cities-web")},
	}
}

// squatter has a name that the database needs.
func squatter() client.Object {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: space, Name: database.ReadName(Cities.Name), Annotations: map[string]string{stranger: "yes"},
		},
		Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
}

// stranger marks what is not ours.
const stranger = "example.com/stranger"

// Foreign says that an object belongs to somebody else.
func Foreign(object client.Object) bool { return object.GetAnnotations()[stranger] != "" }

// versionName is where the version of the operator is kept that starts next.
const versionName = "operator"

// change changes an object over whatever it is now.
func change[T client.Object](
	key client.ObjectKey, blank func() T, how func(T),
) func(context.Context, client.Client) error {
	return func(ctx context.Context, cluster client.Client) error {
		object := blank()
		if err := cluster.Get(ctx, key, object); err != nil {
			return client.IgnoreNotFound(err) // The user comes too early, or too late.
		}
		how(object)
		return cluster.Update(ctx, object)
	}
}

func changeDatabase(how func(*v1alpha1.GeoDatabase)) func(context.Context, client.Client) error {
	return change(Cities, func() *v1alpha1.GeoDatabase { return &v1alpha1.GeoDatabase{} }, how)
}

func changeCache(how func(*v1alpha1.GeoCache)) func(context.Context, client.Client) error {
	return change(Tiles, func() *v1alpha1.GeoCache { return &v1alpha1.GeoCache{} }, how)
}

// forceAway takes the finalizers from a lease and deletes it.
func forceAway(ctx context.Context, cluster client.Client, name string) error {
	var lease coordinationv1.Lease
	if found, err := kube.Get(ctx, cluster, name, &lease); !found || err != nil {
		return err
	}
	lease.Finalizers = nil
	if err := cluster.Update(ctx, &lease); err != nil {
		return err
	}
	return client.IgnoreNotFound(cluster.Delete(ctx, &lease))
}
