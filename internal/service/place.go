package service

import (
	corev1 "k8s.io/api/core/v1"

	"meridian.dev/meridian/internal/wire"
)

// Place is what the cluster around an installation demands of every pod that Meridian makes.
type Place struct {
	// AnyUser leaves the accounts of pods to admission, as OpenShift has it: what names one is refused there.
	AnyUser bool `json:"anyUser,omitempty"`
	// PullSecrets name what images are fetched with. They are looked for in the namespace of each pod.
	PullSecrets []string `json:"pullSecrets,omitempty"`
}

// passwd is what the installing container writes beside the agent: a name for the account that it runs as.
const passwd = "passwd"

// Fit changes a pod of Meridian to what the place demands. The server is the container whose account wants a name:
// PostgreSQL's programs do not run without. The first init container installs the agent.
func (p Place) Fit(pod *corev1.PodSpec, server string) {
	for _, name := range p.PullSecrets {
		pod.ImagePullSecrets = append(pod.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	if !p.AnyUser {
		return
	}
	security := pod.SecurityContext
	security.RunAsUser, security.RunAsGroup, security.FSGroup = nil, nil, nil
	install := &pod.InitContainers[0]
	install.Command = append(install.Command, "--name-user="+wire.FolderAgent+"/"+passwd)
	volume := install.VolumeMounts[0].Name
	for i := range pod.Containers {
		if pod.Containers[i].Name == server {
			pod.Containers[i].VolumeMounts = append(pod.Containers[i].VolumeMounts, corev1.VolumeMount{
				Name: volume, MountPath: "/etc/passwd", SubPath: passwd, ReadOnly: true,
			})
		}
	}
}
