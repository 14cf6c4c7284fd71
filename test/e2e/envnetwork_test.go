//go:build cluster

package e2e_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
)

// denyEverything lets nothing in or out of the namespace of the database and of the operator, but for what other
// policies let through.
func denyEverything(c *cluster) {
	c.t.Helper()
	for _, namespace := range []string{failoverSpace, operatorNamespace} {
		c.kubectl("apply", "-n", namespace, "-f", manifest("deny"))
	}
	c.kubectl("apply", "-n", failoverSpace, "-f", manifest("clients"))
	c.t.Cleanup(func() {
		if err := c.plain.NetworkingV1().NetworkPolicies(operatorNamespace).Delete(context.Background(),
			"environment-deny", metav1.DeleteOptions{}); err != nil {
			c.t.Error(err)
		}
	})
}

// tryDeny asks database and cache from pods, which policies bind, before and after the primary was lost.
func (f *failover) tryDeny() {
	f.makeCache(v1alpha1.EgressNeeded)
	f.askBoth("before the failover")
	if output, ok := f.fromPod("stranger", f.psql("select 1")); ok {
		f.t.Errorf("a pod without a way out reaches the database, so that nothing is enforced: %s", output)
	}
	f.tryOnce(fault{
		name: "freeze pod 15 s", moves: true, gap: 13 * time.Second, hold: 15 * time.Second, do: (*failover).freezePod,
	}, 1)
	f.askBoth("after the failover")
}

// askBoth asks the database and the cache from a pod of an application.
func (f *failover) askBoth(when string) {
	f.t.Helper()
	for _, command := range []string{f.psql("select 'answer'"), redisCommand} {
		begun := time.Now()
		f.c.until("a pod is answered "+when, time.Minute, func(context.Context) (bool, string) {
			output, ok := f.fromPod("map", command)
			return ok && strings.Contains(output, "answer"), output
		})
		f.t.Logf("%s a pod is answered after %s", when, time.Since(begun).Round(100*time.Millisecond))
	}
}

// redisCommand writes a value and reads it.
const redisCommand = `cli() { redis-cli --tls --cacert /tiles/ca.crt -h $CACHE_HOST --user app "$@"; }
	cli set a answer >/dev/null && cli get a`

func (f *failover) psql(sql string) string {
	return `PGCONNECT_TIMEOUT=5 psql -XAtq -c "` + sql + `"`
}

// makeCache has a cache of two instances beside the database, Ready.
func (f *failover) makeCache(egress v1alpha1.NetworkEgress) {
	f.t.Helper()
	made := &v1alpha1.GeoCache{Spec: v1alpha1.GeoCacheSpec{
		DatabaseRef: v1alpha1.DatabaseRef{Name: failoverName}, Replicas: 2, Memory: new(resource.MustParse("64Mi")),
		Network: v1alpha1.CacheNetwork{Egress: egress},
	}}
	made.Namespace, made.Name = failoverSpace, "tiles"
	begun := time.Now()
	if err := f.c.Create(f.t.Context(), made); err != nil {
		f.t.Fatal(err)
	}
	f.c.until("the cache is Ready", 2*time.Minute, func(ctx context.Context) (bool, string) {
		if err := f.c.Get(ctx, client.ObjectKeyFromObject(made), made); err != nil {
			return false, err.Error()
		}
		return condition.IsTrue(made.Status.Conditions, v1alpha1.ConditionReady), fmt.Sprintf("%+v", made.Status)
	})
	f.t.Logf("the cache is Ready after %s", time.Since(begun).Round(100*time.Millisecond))
}

// fromPod runs a command in a pod that bears the label app, and returns what it printed and whether it succeeded.
func (f *failover) fromPod(app, script string) (string, bool) {
	f.t.Helper()
	pod := f.applicationPod(app, script)
	if err := f.c.Create(f.t.Context(), pod); err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = f.c.Delete(context.Background(), pod, client.GracePeriodSeconds(0)) }()
	f.c.until("the pod has ended", time.Minute, func(ctx context.Context) (bool, string) {
		if err := f.c.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return false, err.Error()
		}
		return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed, string(pod.Status.Phase)
	})
	logs := f.c.plain.CoreV1().Pods(failoverSpace).GetLogs(pod.Name, &corev1.PodLogOptions{})
	stream, err := logs.Stream(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = stream.Close() }()
	output, err := io.ReadAll(stream)
	if err != nil {
		f.t.Fatal(err)
	}
	return strings.TrimSpace(string(output)), pod.Status.Phase == corev1.PodSucceeded
}

// applicationPod is a pod with what an application knows of the database and of the cache. It waits a moment: a pod is
// open until the enforcer knows its address.
func (f *failover) applicationPod(app, script string) *corev1.Pod {
	pod := applicationPod("")
	pod.Namespace, pod.Labels = failoverSpace, map[string]string{"app": app}
	container := &pod.Spec.Containers[0]
	container.Command = []string{"bash", "-c", "sleep 3; " + script}
	for i := range container.Env {
		if from := container.Env[i].ValueFrom; from != nil {
			from.SecretKeyRef.Name = failoverName + "-app"
		}
	}
	pod.Spec.Volumes[0].Secret.SecretName = failoverName + "-app"
	if strings.Contains(script, "redis-cli") {
		container.Image = "localhost/meridian/redis:8"
		for variable, key := range map[string]string{"CACHE_HOST": "host", "REDISCLI_AUTH": "password"} {
			container.Env = append(container.Env, corev1.EnvVar{Name: variable, ValueFrom: &corev1.EnvVarSource{
				SecretKeyRef: &corev1.SecretKeySelector{
					LocalObjectReference: corev1.LocalObjectReference{Name: "tiles"}, Key: key,
				},
			}})
		}
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "tiles", MountPath: "/tiles"})
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: "tiles", VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: "tiles", Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}},
		}})
	}
	return pod
}

// letSidecarsIn lets containers into the namespace that may change the network of their pod, as those of a mesh do.
func letSidecarsIn(c *cluster) {
	c.t.Helper()
	c.kubectl("label", "namespace", failoverSpace, "--overwrite", "pod-security.kubernetes.io/enforce=privileged")
}

// trySidecar drains the node of the primary, and looks whether the stand-in was there.
func (f *failover) trySidecar() {
	for name, pod := range f.presentPods() {
		all := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
		if !slices.ContainsFunc(all, func(one corev1.Container) bool { return one.Name == "mesh" }) {
			f.t.Fatalf("%s has no sidecar: this shows nothing", name)
		}
	}
	f.tryOnce(fault{
		name: "node drained", node: true, moves: true, gap: 2 * time.Second, hold: 10 * time.Second,
		do: (*failover).drainNode,
	}, 1)
	f.tryOnce(fault{name: "pod delete", moves: true, gap: 2 * time.Second, do: (*failover).deletePod}, 1)
}
