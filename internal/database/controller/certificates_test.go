//go:build cluster

package controller_test

import (
	"crypto/x509"
	"encoding/pem"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
)

// TestCertificatesOfInstances gives an instance the certificate of another one, takes it away, has a pod of an earlier
// version mount what all had in common, and takes an instance out.
func TestCertificatesOfInstances(t *testing.T) {
	w := newWorld(t)
	makeCities(w)
	change(w, "cities", &v1alpha1.GeoDatabase{}, func(d *v1alpha1.GeoDatabase) { d.Spec.Instances = 2 })
	w.passUntil("both have a certificate", func() bool { return w.get("cities-cert2", &corev1.Secret{}) })
	var one, other corev1.Secret
	w.get("cities-cert1", &one)
	if w.get("cities-cert2", &other); string(one.Data["tls.key"]) == string(other.Data["tls.key"]) {
		t.Error("two instances have one key")
	}
	isFor := func(serial int) bool {
		var secret corev1.Secret
		if !w.get(database.CertificateName("cities", serial), &secret) {
			return false
		}
		block, _ := pem.Decode(secret.Data["tls.crt"])
		if block == nil {
			return false
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		host := render.AgentHost(database.Identity{Namespace: space, Name: "cities"}, database.InstanceName("cities", serial))
		return err == nil && certificate.VerifyHostname(host) == nil
	}
	change(w, "cities-cert2", &corev1.Secret{}, func(secret *corev1.Secret) { secret.Data = one.Data })
	w.passUntil("it has its own again", func() bool { return isFor(2) })
	w.get("cities-cert2", &other)
	if err := w.client.Delete(t.Context(), &other); err != nil {
		t.Fatal(err)
	}
	w.passUntil("it is made again", func() bool { return isFor(2) })

	change(w, "cities-2", &appsv1.StatefulSet{}, func(set *appsv1.StatefulSet) {
		for i := range set.Spec.Template.Spec.Volumes {
			if volume := &set.Spec.Template.Spec.Volumes[i]; volume.Name == "tls" {
				volume.Secret.SecretName = "cities-tls"
			}
		}
	})
	w.boot("cities-2", "before", corev1.PodStatus{})
	shared := func() bool { return w.get("cities-tls", &corev1.Secret{}) }
	w.passUntil("what the pod mounts is there", shared)
	var pod corev1.Pod
	w.get("cities-2-0", &pod)
	if err := w.client.Delete(t.Context(), &pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	w.passUntil("nobody mounts it", func() bool { return !shared() })

	change(w, "cities", &v1alpha1.GeoDatabase{}, func(d *v1alpha1.GeoDatabase) { d.Spec.Instances = 1 })
	w.passUntil("the certificate of the instance that leaves is gone", func() bool {
		return !w.get("cities-cert2", &corev1.Secret{})
	})
	var authority corev1.Secret
	w.passUntil("it is written down nowhere", func() bool {
		return w.get("cities-ca", &authority) && authority.Annotations[database.AnnotationCertificates] == "cities-1"
	})
}
