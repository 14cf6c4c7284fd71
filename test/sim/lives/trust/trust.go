// Package trust judges the certificates of a database as those would who call its instances. It only reads. Start at
// Check.
package trust

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/wire"
)

// most is a higher number than any instance has.
const most = 12

// Mounted is the Secret with the certificate that a pod mounts.
func Mounted(pod *corev1.Pod) string {
	for _, volume := range pod.Spec.Volumes {
		if volume.Name == "tls" && volume.Secret != nil {
			return volume.Secret.SecretName
		}
	}
	return ""
}

// Check verifies the certificate of each instance by what applications were told, under the name that others call it
// by, and that it is no other instance's.
func Check(ctx context.Context, cluster client.Reader, of client.ObjectKey) error {
	var binding corev1.Secret
	if err := cluster.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: database.AppSecretName(of.Name)},
		&binding); err != nil {
		return client.IgnoreNotFound(err)
	}
	for serial := 1; serial <= most; serial++ {
		var leaf corev1.Secret
		err := cluster.Get(ctx, client.ObjectKey{
			Namespace: of.Namespace, Name: database.CertificateName(of.Name, serial),
		}, &leaf)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return err
		case err == nil:
			if err := presents(&leaf, &binding, of, serial); err != nil {
				return fmt.Errorf("%s: %w", leaf.Name, err)
			}
		}
	}
	return nil
}

func presents(leaf, binding *corev1.Secret, of client.ObjectKey, serial int) error {
	block, _ := pem.Decode(leaf.Data[wire.KeyCertificate])
	if block == nil {
		return errors.New("the certificate cannot be read")
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	host := func(serial int) string {
		return render.AgentHost(database.Identity{Namespace: of.Namespace, Name: of.Name},
			database.InstanceName(of.Name, serial))
	}
	if certificate.VerifyHostname(host(serial+1)) == nil {
		return errors.New("the certificate is that of another instance too")
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(binding.Data[wire.KeyAuthority])
	_, err = certificate.Verify(x509.VerifyOptions{
		Roots: roots, CurrentTime: certificate.NotBefore.Add(time.Hour), DNSName: host(serial),
	})
	return err
}
