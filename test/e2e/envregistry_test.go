//go:build cluster

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/test/e2e/registry"
)

const (
	// registryHost is where the nodes of the sandbox look for a registry of the host's.
	registryHost     = "10.77.0.1:5000"
	registryUser     = "puller"
	registryPassword = "only-for-who-may-pull"
	pullSecret       = "registry"
)

// inRegistry are the images of a private registry: the recipe of each, and its name without the registry.
var inRegistry = map[string]string{
	"meridian": "meridian/meridian:dev", "postgis-17": "meridian/postgis:17", "redis": "meridian/redis:8",
}

// images is the registry of this run.
var images *registry.Registry

// moveToRegistry has the images in a registry with a password, and says so in one place: the Deployment of the
// operator. No pod of an operator of before is left when the new one begins: it would make pods with the images of
// before.
func moveToRegistry(c *cluster) {
	c.t.Helper()
	openRegistry(c)
	for _, namespace := range []string{operatorNamespace, c.space} {
		c.kubectl("-n", namespace, "delete", "secret", pullSecret, "--ignore-not-found")
		c.kubectl("-n", namespace, "create", "secret", "docker-registry", pullSecret, "--docker-server="+registryHost,
			"--docker-username="+registryUser, "--docker-password="+registryPassword)
	}
	c.kubectl("-n", operatorNamespace, "scale", "deployment/meridian-operator", "--replicas=0")
	c.until("no operator is left", 2*time.Minute, func(context.Context) (bool, string) {
		left := operatorPods(c)
		return left == "", left
	})
	change, err := json.Marshal(map[string]any{"spec": map[string]any{
		"replicas": 2,
		"template": map[string]any{"spec": map[string]any{
			"imagePullSecrets": []any{map[string]any{"name": pullSecret}},
			"containers": []any{map[string]any{
				"name": "operator", "image": registryHost + "/" + inRegistry["meridian"],
				"args": []string{
					"operator", "--image-pull-secrets=" + pullSecret, "--server-image=" + registryHost + "/meridian/postgis",
					"--redis-image=" + registryHost + "/" + inRegistry["redis"],
				},
			}},
		}},
	}})
	if err != nil {
		c.t.Fatal(err)
	}
	c.kubectl("-n", operatorNamespace, "patch", "deployment", "meridian-operator", "--type=strategic", "-p",
		string(change))
	c.kubectl("-n", operatorNamespace, "rollout", "status", "deployment/meridian-operator", "--timeout=180s")
}

// openRegistry serves the images until the test ends.
func openRegistry(c *cluster) {
	c.t.Helper()
	images = registry.New(registryUser, registryPassword)
	for recipe, name := range inRegistry {
		if err := images.Add(name, imageFile(c, recipe, "localhost/"+name)); err != nil {
			c.t.Fatal(err)
		}
	}
	listener, err := (&net.ListenConfig{}).Listen(c.t.Context(), "tcp", registryHost)
	if err != nil {
		c.t.Fatal(err)
	}
	server := &http.Server{Handler: images, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.Serve(listener) }() // It ends with an error that says that it was closed.
	c.t.Cleanup(func() { _ = server.Close() })
}

// tryRegistry looks whether all pods came from the registry, those of a cache too, and has one made again. Who does not
// have the password gets no image.
func (f *failover) tryRegistry() {
	f.makeCache(v1alpha1.EgressOpen)
	f.fromRegistry()
	for recipe, name := range inRegistry {
		given := images.Given(name)
		f.t.Logf("%s was given out %d times", name, given)
		if given == 0 {
			f.t.Errorf("nobody has fetched the image of %s: this shows nothing", recipe)
		}
	}
	f.refuseStranger()
	f.tryOnce(fault{name: "pod delete", moves: true, gap: 2 * time.Second, do: (*failover).deletePod}, 1)
	f.fromRegistry()
}

// fromRegistry says that every container of every pod has an image of the registry.
func (f *failover) fromRegistry() {
	f.t.Helper()
	looked := 0
	for _, namespace := range []string{operatorNamespace, f.c.space} {
		var pods corev1.PodList
		if err := f.c.List(f.t.Context(), &pods, client.InNamespace(namespace)); err != nil {
			f.t.Fatal(err)
		}
		for _, pod := range pods.Items {
			for _, container := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
				looked++
				if !strings.HasPrefix(container.Image, registryHost+"/") {
					f.t.Errorf("%s of %s/%s has the image %s", container.Name, namespace, pod.Name, container.Image)
				}
			}
		}
	}
	if want := 2 + 3 + 2; looked < want {
		f.t.Errorf("only %d containers were there, want %d: this shows nothing", looked, want)
	}
}

// refuseStranger has a pod without the Secret ask for an image.
func (f *failover) refuseStranger() {
	f.t.Helper()
	before := images.Refused()
	pod := applicationPod("true")
	pod.ObjectMeta = metav1.ObjectMeta{Namespace: f.c.space, Name: "stranger"}
	pod.Spec.Volumes = nil
	container := &pod.Spec.Containers[0]
	container.Image, container.ImagePullPolicy = registryHost+"/"+inRegistry["postgis-17"], corev1.PullAlways
	container.Env, container.VolumeMounts = nil, nil
	if err := f.c.Create(f.t.Context(), pod); err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = f.c.Delete(context.Background(), pod, client.GracePeriodSeconds(0)) }()
	f.c.until("a pod without the password gets no image", time.Minute, func(ctx context.Context) (bool, string) {
		if err := f.c.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return false, err.Error()
		}
		for _, status := range pod.Status.ContainerStatuses {
			waits := status.State.Waiting
			if waits != nil && slices.Contains([]string{"ErrImagePull", "ImagePullBackOff"}, waits.Reason) {
				return images.Refused() > before, waits.Message
			}
		}
		return false, fmt.Sprintf("%+v", pod.Status.ContainerStatuses)
	})
}
