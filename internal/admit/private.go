package admit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// What is private to an instance reaches no container but Meridian's own, by no way: not by a mount of Meridian's
// volumes, not by another volume of the same claim or Secret, not by the environment, not by a token of its account.
// Whoever reads the data directory has read every table, whoever writes to it has destroyed it, and the folder of the
// socket lets a superuser in without a password.

// of says for which resources, by name, the pod is made.
func (p pod) of(owners ...string) pod {
	p.owners = owners
	return p
}

// claims tells whether a claim is one of an instance: of its data or of its log.
func (p pod) claims(claim string) bool {
	return slices.ContainsFunc(p.owners, func(owner string) bool {
		return regexp.MustCompile("^" + regexp.QuoteMeta(owner) + "-[0-9]+(-wal)?$").MatchString(claim)
	})
}

// keeps tells whether a Secret has private keys. The credentials of applications, NAME-app, are for whoever needs them.
func (p pod) keeps(secret string) bool {
	return slices.ContainsFunc(p.owners, func(owner string) bool {
		return slices.Contains([]string{"-ca", "-tls", "-repository", "-source"}, strings.TrimPrefix(secret, owner)) ||
			regexp.MustCompile("^"+regexp.QuoteMeta(owner)+"-cert[0-9]+$").MatchString(secret)
	})
}

const keysWhy = "the Secret %s has private keys of Meridian; the authority to trust is in the key ca.crt of %s-app"

// mounts refuses Meridian's volumes to a container that is not its own, also for reading.
func (f *findings) mounts(container *corev1.Container, ours pod) {
	const why = "the volume %s belongs to Meridian, and no other container gets it; use a volume of your own"
	for i, mount := range container.VolumeMounts {
		f.refuse(slices.Contains(ours.volumes, mount.Name), fmt.Sprintf("volumeMounts[%d].name", i), why, mount.Name)
	}
	for i, device := range container.VolumeDevices {
		f.refuse(slices.Contains(ours.volumes, device.Name), fmt.Sprintf("volumeDevices[%d].name", i), why, device.Name)
	}
}

// environment refuses private keys as variables.
func (f *findings) environment(container *corev1.Container, ours pod) {
	for i, variable := range container.Env {
		if variable.ValueFrom != nil && variable.ValueFrom.SecretKeyRef != nil {
			f.keys(variable.ValueFrom.SecretKeyRef.Name, fmt.Sprintf("env[%d].valueFrom.secretKeyRef.name", i), ours)
		}
	}
	for i, source := range container.EnvFrom {
		if source.SecretRef != nil {
			f.keys(source.SecretRef.Name, fmt.Sprintf("envFrom[%d].secretRef.name", i), ours)
		}
	}
}

func (f *findings) keys(secret, field string, ours pod) {
	if ours.keeps(secret) {
		f.refuse(true, field, keysWhy, secret, ours.owners[0])
	}
}

// private refuses another way to what is private.
func (f *findings) private(volume *corev1.Volume, ours pod) {
	if claim := volume.PersistentVolumeClaim; claim != nil {
		f.refuse(ours.claims(claim.ClaimName), "persistentVolumeClaim.claimName",
			"%s is the claim of an instance, and no other container gets it; use another claim", claim.ClaimName)
	}
	if volume.Secret != nil {
		f.keys(volume.Secret.SecretName, "secret.secretName", ours)
	}
	if volume.Projected == nil {
		return
	}
	for i, source := range volume.Projected.Sources {
		field := fmt.Sprintf("projected.sources[%d]", i)
		if source.Secret != nil {
			f.keys(source.Secret.Name, field+".secret.name", ours)
		}
		f.refuse(source.ServiceAccountToken != nil, field+".serviceAccountToken",
			"the account of the pod is the agent's; run what needs a token in a pod of its own")
		f.refuse(source.PodCertificate != nil, field+".podCertificate",
			"the account of the pod is the agent's; run what needs a certificate of it in a pod of its own")
	}
}
