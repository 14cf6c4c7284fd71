// Package kinds is what an API server of the lives knows beside the kinds of Kubernetes: GeoDatabase and GeoCache, with
// the schemas, defaults and rules of their definitions.
package kinds

import (
	"os"
	"path/filepath"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/sim"
)

// Custom compiles the schemas, which takes longer than most lives.
var Custom = sync.OnceValues(func() ([]sim.Kind, error) {
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

// Scheme knows all types.
var Scheme = sync.OnceValues(func() (*runtime.Scheme, error) {
	made := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(made); err != nil {
			return nil, err
		}
	}
	return made, nil
})
