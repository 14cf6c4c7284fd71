package render

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/wire"
)

// Object is a Kubernetes object with its metadata.
type Object interface {
	metav1.Object
	runtime.Object
}

// Child is one wanted object under the words of a plan.
type Child struct {
	Kind, Name string
	Object     Object
}

// Children returns everything that the design asks for, but for Secrets, sorted by kind and name. What cannot be
// rendered is left out, and the error says why: a mistake in one child is no reason not to know the others.
func Children(design cache.Design) ([]Child, error) {
	var children []Child
	add := func(kind string, object Object) {
		children = append(children, Child{kind, object.GetName(), object})
	}
	var problem error
	if design.LeaseUID != "" {
		settings, err := settingsMap(design)
		if problem = err; err == nil {
			add(cache.KindSettings, settings)
		}
	}
	if design.Family != "" {
		add(cache.KindSlice, slice(design))
	}
	add(cache.KindPolicy, policy(design))
	add(cache.KindBudget, budget(design))
	add(cache.KindRole, role(design))
	add(cache.KindRoleBinding, roleBinding(design))
	add(cache.KindService, writeService(design))
	add(cache.KindService, podsService(design))
	add(cache.KindService, readService(design))
	add(cache.KindAccount, agentAccount(design))
	for _, instance := range design.Instances {
		if design.LeaseUID == "" {
			break
		}
		set, err := setOf(design, instance)
		if err != nil {
			return children, err
		}
		add(cache.KindSet, set)
	}
	return children, problem
}

// Find renders one child of a plan.
func Find(design cache.Design, kind, name string) (Object, error) {
	children, err := Children(design)
	for _, child := range children {
		if child.Kind == kind && child.Name == name {
			return child.Object, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("the design has no %s %s", kind, name)
}

// Settings is what the agents are told.
func Settings(design cache.Design) wire.CacheSettings {
	settings := wire.CacheSettings{
		CacheUID: design.UID, Cache: design.Name, Engine: string(design.Spec.Engine), Memory: design.Memory(),
		EvictionPolicy: string(design.Spec.EvictionPolicy), LeaseUID: design.LeaseUID, Instances: design.Instances,
		LeaseMilliseconds: leaseDuration.Milliseconds(), ReplicationAlone: design.ReplicationAlone,
		// Whoever has no password of replication is of a version that does not understand this either.
		NoScripts: design.ReplicationAlone && design.Spec.Scripting == v1alpha1.ScriptingRefused,
	}
	for _, name := range slices.Sorted(maps.Keys(design.Spec.Parameters)) {
		settings.Parameters = append(settings.Parameters,
			wire.Parameter{Name: name, Value: string(design.Spec.Parameters[name])})
	}
	return settings.Canonical()
}

// meta is the metadata of every child: all of them go away together with the cache.
func meta(design cache.Design, name, component string) metav1.ObjectMeta {
	yes := true
	return metav1.ObjectMeta{
		Namespace: design.Namespace, Name: name, Labels: labels(design, component),
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "GeoCache", Name: design.Name, UID: types.UID(design.UID),
			Controller: &yes, BlockOwnerDeletion: &yes,
		}},
	}
}

func labels(design cache.Design, component string) map[string]string {
	return map[string]string{
		cache.LabelCache: design.Name, cache.LabelName: "geocache", cache.LabelAppOf: design.Name,
		cache.LabelManagedBy: "meridian", cache.LabelComponent: component,
	}
}

// instanceLabels select one instance. They are part of a selector that cannot be changed.
func instanceLabels(design cache.Design, instance string) map[string]string {
	return map[string]string{cache.LabelCache: design.Name, cache.LabelInstance: instance}
}

func settingsMap(design cache.Design) (*corev1.ConfigMap, error) {
	document, err := Settings(design).Encode()
	if err != nil {
		return nil, err
	}
	return &corev1.ConfigMap{
		ObjectMeta: meta(design, cache.SettingsName(design.Name), "settings"),
		Data:       map[string]string{wire.KeySettings: string(document) + "\n"},
	}, nil
}

// setOf renders the StatefulSet of one instance. It replaces no pod by itself (OnDelete): a cache that is replaced is
// an empty one.
func setOf(design cache.Design, instance string) (*appsv1.StatefulSet, error) {
	template, err := podTemplate(design, instance)
	if err != nil {
		return nil, err
	}
	replicas := int32(1)
	set := &appsv1.StatefulSet{
		ObjectMeta: meta(design, instance, "instance"),
		Spec: appsv1.StatefulSetSpec{
			ServiceName: cache.PodsName(design.Name),
			Replicas:    &replicas, Selector: &metav1.LabelSelector{MatchLabels: instanceLabels(design, instance)},
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType},
			Template:       template,
		},
	}
	set.Labels[cache.LabelInstance] = instance
	return set, nil
}
