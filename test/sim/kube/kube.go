// Package kube is what a simulated cluster has beside an API server: the controllers that make pods of StatefulSets and
// volumes of claims, and what a kubelet looks at before it starts a pod. The worlds that use it decide when each of
// them acts, and what runs in a pod. Start reading at View.
package kube

import (
	"context"
	"os"
	"path/filepath"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/sim"
)

// Space is the namespace of everything that is simulated.
const Space = "gis"

// Kinds compiles the schemas, which takes longer than most lives.
var Kinds = sync.OnceValues(func() ([]sim.Kind, error) {
	var found []sim.Kind
	for _, name := range []string{"geodatabases", "geocaches"} {
		content, err := os.ReadFile(filepath.Join("..", "..", "..", "deploy", "crds", "meridian.dev_"+name+".yaml"))
		if err != nil {
			return nil, err
		}
		var definition apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(content, &definition); err != nil {
			return nil, err
		}
		kind, err := sim.FromDefinition(&definition, v1alpha1.GroupVersion.Version)
		if err != nil {
			return nil, err
		}
		found = append(found, kind)
	}
	return found, nil
})

// Scheme has all kinds that the operator knows.
var Scheme = sync.OnceValues(func() (*runtime.Scheme, error) {
	made := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(made); err != nil {
			return nil, err
		}
	}
	return made, nil
})

// KindOf names the kind of an object of the scheme.
func KindOf(object client.Object) schema.GroupVersionKind {
	known, err := Scheme()
	if err != nil {
		panic(err) // It was made before.
	}
	found, _, err := known.ObjectKinds(object)
	if err != nil {
		panic(err)
	}
	return found[0]
}

// Get reads an object by name, and tells whether it is there.
func Get(ctx context.Context, from client.Reader, name string, into client.Object) (bool, error) {
	err := from.Get(ctx, client.ObjectKey{Namespace: Space, Name: name}, into)
	return err == nil, client.IgnoreNotFound(err)
}
