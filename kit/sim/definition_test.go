package sim_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/kit/sim"
)

const definition = `
metadata: {name: widgets.example.com}
spec:
  group: example.com
  names: {kind: Widget, listKind: WidgetList, plural: widgets, singular: widget}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.size, statusReplicasPath: .status.size}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer, minimum: 1, default: 2}
              color: {type: string}
            x-kubernetes-validations:
            - {rule: "!has(oldSelf.color) || has(self.color) && self.color == oldSelf.color", message: color stays}
          status: {type: object, properties: {size: {type: integer}}}
`

// TestDefinition goes through the life of an object whose rules come from its definition alone.
func TestDefinition(t *testing.T) {
	defined := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(definition), defined); err != nil {
		t.Fatal(err)
	}
	kind, err := sim.FromDefinition(defined, "v1")
	if err != nil {
		t.Fatal(err)
	}
	server, err := sim.New(sim.Options{Scheme: scheme.Scheme, Kinds: []sim.Kind{kind}})
	if err != nil {
		t.Fatal(err)
	}
	process, err := server.Start(sim.Life{Name: "test"})
	if err != nil {
		t.Fatal(err)
	}
	cluster, ctx := process.Live(), t.Context()

	made := widget("a")
	made.Object["spec"] = map[string]any{"color": "red", "wild": "x"}
	made.Object["status"] = map[string]any{"size": int64(9)}
	if err := cluster.Create(ctx, made); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"color": "red", "size": int64(2)}
	if diff := cmp.Diff(want, made.Object["spec"]); diff != "" {
		t.Errorf("defaults and pruning, -want +got:\n%s", diff)
	}
	if made.Object["status"] != nil {
		t.Error("a create has set the status")
	}
	for name, value := range map[string]any{"size": int64(0), "color": "blue"} {
		bad := made.DeepCopy()
		if err := unstructured.SetNestedField(bad.Object, value, "spec", name); err != nil {
			t.Fatal(err)
		}
		if err := cluster.Update(ctx, bad); !apierrors.IsInvalid(err) {
			t.Errorf("%s %v: got %v", name, value, err)
		}
	}
	made.Object["status"] = map[string]any{"size": int64(1)}
	made.SetLabels(map[string]string{"a": "b"})
	if err := cluster.Status().Update(ctx, made); err != nil {
		t.Fatal(err)
	}
	if made.GetLabels() != nil || made.GetGeneration() != 1 {
		t.Error("a write to the status has changed more than the status")
	}
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 5}}
	if err := cluster.SubResource("scale").Update(ctx, made, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	read := &autoscalingv1.Scale{}
	if err := cluster.SubResource("scale").Get(ctx, made, read); err != nil {
		t.Fatal(err)
	}
	if read.Spec.Replicas != 5 || read.Status.Replicas != 1 {
		t.Errorf("scale %d of %d, want 1 of 5", read.Status.Replicas, read.Spec.Replicas)
	}
	if _, err := sim.FromDefinition(defined, "v2"); err == nil {
		t.Error("it made a kind of a version that there is not")
	}
}
