package service

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"meridian.dev/meridian/internal/wire"
)

// folderToken is where every client of Kubernetes looks for the account of its pod.
const folderToken = "/var/run/secrets/kubernetes.io/serviceaccount" //nolint:gosec // It is a folder.

// TokenMount is where the agent finds the account of its pod.
func TokenMount() corev1.VolumeMount {
	return corev1.VolumeMount{Name: "token", MountPath: folderToken, ReadOnly: true}
}

// TokenVolume is what the kubelet would mount into every container by itself: our own alone is an agent. Others are
// put behind the token and the authority of the API server.
func TokenVolume(others ...corev1.VolumeProjection) corev1.Volume {
	mode, hour := int32(0o440), int64(3600)
	sources := []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: &hour}},
		{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
			Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
		}},
	}
	return corev1.Volume{Name: "token", VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{DefaultMode: &mode, Sources: append(sources, others...)},
	}}
}

// StartupProbe waits for the first answer of an instance that is being made, so that nobody is warned of probes that
// fail because all goes as it should. The agent ends the wait by itself; the other probes tell everything after that.
func StartupProbe() *corev1.Probe {
	wait := Probe(wire.PathStart, 1, 60)
	wait.TimeoutSeconds = int32((wire.StartPatience + 10*time.Second).Seconds())
	return wait
}

// Probe asks the agent of an instance.
func Probe(path string, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: path, Port: intstr.FromString("probe"), Scheme: corev1.URISchemeHTTP,
		}},
		PeriodSeconds: period, TimeoutSeconds: 2, FailureThreshold: failures,
	}
}

// PodVariables are what an agent learns of its pod from the kubelet.
func PodVariables() []corev1.EnvVar {
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path},
		}}
	}
	return []corev1.EnvVar{
		field(wire.EnvPodName, "metadata.name"), field(wire.EnvPodNamespace, "metadata.namespace"),
		field(wire.EnvPodIP, "status.podIP"), field(wire.EnvPodUID, "metadata.uid"),
	}
}

// ContainerSecurity is what each container of ours may do: nothing that its programs do not need.
func ContainerSecurity() *corev1.SecurityContext {
	yes, no := true, false
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes, RunAsNonRoot: &yes,
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// Port leads to a port of the pods by its name.
func Port(name string, number int32) corev1.ServicePort {
	return corev1.ServicePort{
		Name: name, Port: number, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString(name),
	}
}
