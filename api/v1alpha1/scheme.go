package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "meridian.dev", Version: "v1alpha1"}

// AddToScheme makes the kinds of this package known to a scheme, and so to the clients that use it.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &GeoDatabase{}, &GeoDatabaseList{}, &GeoCache{}, &GeoCacheList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
