//go:build cluster

package controller_test

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/kit/pki"
)

// TestEveryWriteFails makes a database again and again; each time another write fails, once before and once after it
// was carried out. All end the same: every child is there once, and what is secret was made once and fits together.
func TestEveryWriteFails(t *testing.T) {
	w := newWorld(t)
	reached := 0
	for number := 1; ; number++ {
		hit := false
		for _, fault := range []verdict{lost, unknown} {
			name := fmt.Sprintf("f%d-%d", number, fault)
			count := 0
			w.fail = func() verdict {
				if count++; count == number {
					hit = true
					return fault
				}
				return done
			}
			makeDatabase(w, name)
			checkWhole(w, name)
		}
		if !hit {
			break
		}
		reached = number
	}
	// The guard, the lease, two Secrets of certificates, the credentials, twelve children and a status at least.
	if reached < 18 {
		t.Errorf("only %d writes were failed: the test has not seen the whole life", reached)
	}
	t.Logf("%d writes failed, each in two ways", reached)
}

// makeDatabase runs passes until all children are there. Errors are what this test is about.
func makeDatabase(w *world, name string) {
	w.t.Helper()
	w.create(&v1alpha1.GeoDatabase{
		ObjectMeta: metav1.ObjectMeta{Namespace: space, Name: name},
		Spec:       v1alpha1.GeoDatabaseSpec{Instances: 1, Storage: v1alpha1.Storage{Size: resource.MustParse("1Gi")}},
	})
	request := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: space, Name: name}}
	var first []byte
	w.until(name+" is made", func() bool {
		_, _ = w.loop.Reconcile(w.t.Context(), request)
		checkTrust(w, name)
		var credentials corev1.Secret
		if w.get(name+"-app", &credentials) {
			if first == nil {
				first = credentials.Data["password"]
			}
			if string(first) != string(credentials.Data["password"]) {
				w.t.Fatalf("%s: the password was made twice", name)
			}
		}
		var object v1alpha1.GeoDatabase
		w.get(name, &object)
		progress := condition.Find(object.Status.Conditions, v1alpha1.ConditionProgressing)
		return first != nil && object.Status.WaitingFor == name+"-1 has no pod yet" &&
			len(object.Status.PendingChanges) == 0 && progress.Reason == "InstanceStarting"
	})
}

// TestTwoLeaders has two operators act at once, as when one is frozen, loses its lease and thaws. Before each write of
// the first, the second runs a pass of its own and dies after some of its writes.
func TestTwoLeaders(t *testing.T) {
	w := newWorld(t)
	rival := w.another()
	meetings := 0
	for number := 1; number <= 9; number++ {
		for survives := 1; survives <= 3; survives++ {
			name := fmt.Sprintf("two%d-%d", number, survives)
			request := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: space, Name: name}}
			count := 0
			var first func() verdict
			first = func() verdict {
				if count++; count != number {
					return done
				}
				meetings++
				wrote := 0
				w.fail = func() verdict {
					if wrote++; wrote > survives {
						return lost
					}
					return done
				}
				_, _ = rival.Reconcile(t.Context(), request)
				w.fail = first
				return done
			}
			w.fail = first
			makeDatabase(w, name)
			checkWhole(w, name)
		}
	}
	if meetings < 20 {
		t.Errorf("the two met only %d times", meetings)
	}
}

// checkTrust holds the certificate that is presented against the authorities that are stored: at no moment may there be
// one that they have not signed.
func checkTrust(w *world, name string) {
	w.t.Helper()
	var authority, leaf corev1.Secret
	if !w.get(name+"-cert1", &leaf) {
		return
	}
	if !w.get(name+"-ca", &authority) {
		w.t.Fatalf("%s: there is a certificate and no authority", name)
	}
	authorities, err := pki.DecodeAuthorities(authority.Data[database.AuthoritiesKey])
	if err != nil {
		w.t.Fatal(err)
	}
	verify(w, name, &leaf, pki.State{Authorities: authorities}.Trust())
}

func verify(w *world, name string, leaf *corev1.Secret, trust *x509.CertPool) {
	w.t.Helper()
	block, _ := pem.Decode(leaf.Data["tls.crt"])
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		w.t.Fatal(err)
	}
	options := x509.VerifyOptions{Roots: trust, DNSName: name + "-rw." + space + ".svc"}
	if _, err := certificate.Verify(options); err != nil {
		w.t.Fatalf("%s: the certificate is not of the authority: %v", name, err)
	}
}

func checkWhole(w *world, name string) {
	w.t.Helper()
	for child, object := range map[string]client.Object{
		"-rw": &corev1.Service{}, "-ro": &corev1.Service{}, "-settings": &corev1.ConfigMap{}, "-ca": &corev1.Secret{},
		"-pods": &corev1.Service{}, "-primary": &coordinationv1.Lease{}, "-agent": &rbacv1.RoleBinding{},
	} {
		if !w.get(name+child, object) {
			w.t.Errorf("%s%s is not there", name, child)
		}
	}
	if !w.get(name+"-1", &corev1.PersistentVolumeClaim{}) || !w.get(name+"-1", &appsv1.StatefulSet{}) {
		w.t.Errorf("the instance of %s is not whole", name)
	}
	var leaf, credentials corev1.Secret
	w.get(name+"-cert1", &leaf)
	w.get(name+"-app", &credentials)
	if string(leaf.Data["ca.crt"]) != string(credentials.Data["ca.crt"]) {
		w.t.Errorf("%s: applications trust another authority", name)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(leaf.Data["ca.crt"])
	verify(w, name, &leaf, pool)
}
