package controller_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/observe"
	"meridian.dev/meridian/kit/apply"
)

// TestVolumeOfALostNode has the node of an instance be gone: what is known of its volume decides whether the instance
// can come back elsewhere.
func TestVolumeOfALostNode(t *testing.T) {
	w := rollTown(t)
	var pod corev1.Pod
	w.get("towns-2-0", &pod)
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse}}
	w.must(w.admin.Status().Update(t.Context(), &pod))
	w.change(&corev1.PersistentVolumeClaim{}, "towns-2", func(object client.Object) {
		object.(*corev1.PersistentVolumeClaim).Spec.VolumeName = "disk"
	})
	w.must(w.admin.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node2"}}))
	place := func(key, value string) corev1.PersistentVolumeSpec {
		return corev1.PersistentVolumeSpec{NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value},
			}}}},
		}}}
	}
	several := place(corev1.LabelHostname, "host2")
	several.NodeAffinity.Required.NodeSelectorTerms = append(several.NodeAffinity.Required.NodeSelectorTerms,
		place(corev1.LabelHostname, "host3").NodeAffinity.Required.NodeSelectorTerms...)
	local := corev1.PersistentVolumeSpec{}
	local.Local = &corev1.LocalVolumeSource{Path: "/disk"}
	for name, test := range map[string]struct {
		volume *corev1.PersistentVolumeSpec
		want   bool
	}{
		"the volume is gone as well":         {want: true},
		"a disk of the node":                 {volume: &local, want: true},
		"a driver that names the node":       {volume: ptr.To(place("topology.example/node", "node2")), want: true},
		"a disk of a host":                   {volume: ptr.To(place(corev1.LabelHostname, "host2")), want: true},
		"a copy on each of two hosts":        {volume: &several},
		"a network volume of a zone":         {volume: ptr.To(place(corev1.LabelTopologyZone, "zone2"))},
		"a network volume without any place": {volume: &corev1.PersistentVolumeSpec{}},
	} {
		t.Run(name, func(t *testing.T) {
			volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "disk"}}
			if test.volume != nil {
				volume.Spec = *test.volume
				w.create(volume)
				defer func() { w.must(w.admin.Delete(t.Context(), volume)) }()
			}
			seen, err := observe.Observer{
				Live: w.admin, Now: w.clock.Now, Ask: w.ask, Installation: "home/operator",
				Author: apply.Author{
					Scheme: w.admin.Scheme(), Prefix: database.AnnotationPrefix, Manager: database.FieldManager,
				},
				Images: database.Images{Agent: w.agent, Server: "postgis"},
			}.Observe(t.Context(), w.admin, w.database())
			w.must(err)
			if instance, _ := seen.Instance("towns-2"); !instance.Node.Gone || instance.Node.HasVolume != test.want {
				t.Errorf("the node is seen as %+v, want its volume on it: %t", instance.Node, test.want)
			}
		})
	}
}
