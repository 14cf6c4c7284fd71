package admit

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

func keepContainers(spec *corev1.PodSpec, ours pod) []Problem {
	var problems []Problem
	var seen []string
	for _, list := range []struct {
		field      string
		containers []corev1.Container
	}{{"initContainers", spec.InitContainers}, {"containers", spec.Containers}} {
		for i := range list.containers {
			container := &list.containers[i]
			f := &findings{field: fmt.Sprintf("%s.%s[%d]", templateField, list.field, i)}
			f.refuse(container.Name == "", "name", "required, because containers are merged by name")
			f.refuse(slices.Contains(seen, container.Name), "name", "%q is there twice; merge the two", container.Name)
			seen = append(seen, container.Name)
			f.restricted(container.SecurityContext)
			f.environment(container, ours)
			inPlace := slices.Contains(ours.inits, container.Name) == (list.field == "initContainers")
			f.refuse(ours.owns(container.Name) && !inPlace, "name",
				"%q is a container of Meridian, and its place is not among the %s; choose another name", container.Name, list.field)
			if ours.owns(container.Name) && inPlace {
				f.ours(container, ours)
			} else {
				f.sideCar(container, ours)
			}
			problems = append(problems, f.problems...)
		}
	}
	return problems
}

// restricted refuses what no container may have at the level restricted.
func (f *findings) restricted(context *corev1.SecurityContext) {
	if context == nil {
		return
	}
	inside := &findings{field: f.field + ".securityContext"}
	inside.user(context.RunAsUser, context.RunAsNonRoot)
	inside.confined(context.SeccompProfile, context.AppArmorProfile)
	inside.labelled(context.SELinuxOptions)
	inside.refuse(context.Privileged != nil && *context.Privileged, "privileged",
		"gives away the node, and leaves the Pod Security level restricted; remove it")
	inside.refuse(context.AllowPrivilegeEscalation != nil && *context.AllowPrivilegeEscalation,
		"allowPrivilegeEscalation",
		"must be false at the Pod Security level restricted")
	inside.refuse(context.ProcMount != nil && *context.ProcMount != corev1.DefaultProcMount, "procMount",
		"must be Default at the Pod Security level restricted")
	inside.refuse(context.WindowsOptions != nil, "windowsOptions", "instances run on Linux; remove it")
	if context.Capabilities != nil {
		for _, capability := range context.Capabilities.Add {
			inside.refuse(capability != "NET_BIND_SERVICE", "capabilities.add",
				"%s is not allowed at the Pod Security level restricted; remove it", capability)
		}
	}
	f.problems = append(f.problems, inside.problems...)
}

// ours keeps a container of Meridian what it is: what it runs, how it is watched, and what it is given. An empty list
// is no less than a full one: it would replace ours.
func (f *findings) ours(container *corev1.Container, ours pod) {
	f.refuse(container.Image != "", "image", "use %s, which is checked and rolled out with care", ours.image)
	f.refuse(container.Command != nil, "command", "the container runs Meridian's agent; add a side-car instead")
	f.refuse(container.Args != nil, "args", "the container runs Meridian's agent; add a side-car instead")
	f.refuse(container.WorkingDir != "", "workingDir", "the agent relies on it; remove it")
	f.refuse(container.Lifecycle != nil, "lifecycle", "the agent starts and stops the server; remove it")
	const probe = "failover and routing rely on this probe; remove it"
	f.refuse(container.LivenessProbe != nil, "livenessProbe", probe)
	f.refuse(container.ReadinessProbe != nil, "readinessProbe", probe)
	f.refuse(container.StartupProbe != nil, "startupProbe", probe)
	f.refuse(container.RestartPolicy != nil, "restartPolicy", "the order of the containers relies on it; remove it")
	context := container.SecurityContext
	f.refuse(context != nil && context.ReadOnlyRootFilesystem != nil && !*context.ReadOnlyRootFilesystem,
		"securityContext.readOnlyRootFilesystem", "must be true; mount an emptyDir where something has to be written")
	f.refuse(context != nil && context.Capabilities != nil && context.Capabilities.Drop != nil &&
		!slices.Contains(context.Capabilities.Drop, "ALL"), "securityContext.capabilities.drop",
		"must hold ALL at the Pod Security level restricted")
	f.refuse(memoryOrCPU(container.Resources), "resources",
		"the size of an instance is written in %s, which the tuning follows; only limits.cpu may be set here",
		ours.resources)
	for i, variable := range container.Env {
		f.refuse(ours.sets(variable.Name), fmt.Sprintf("env[%d].name", i), "%s is set by Meridian; remove it",
			variable.Name)
		f.refuse(changesLoading(variable.Name), fmt.Sprintf("env[%d].name", i),
			"%s changes which programs, libraries or servers Meridian's own processes use; remove it, and put what you need "+
				"into an image of your own (%s)", variable.Name, ours.image)
	}
	f.refuse(container.EnvFrom != nil, "envFrom", "could change what Meridian sets; list the variables in env")
	for i, port := range container.Ports {
		f.refuse(slices.Contains(ours.ports, port.ContainerPort), fmt.Sprintf("ports[%d].containerPort", i),
			"%d is described by Meridian; remove it", port.ContainerPort)
		f.refuse(port.HostPort != 0, fmt.Sprintf("ports[%d].hostPort", i), hostPortWhy)
	}
	for i, mount := range container.VolumeMounts {
		f.refuse(ours.covers(mount.MountPath), fmt.Sprintf("volumeMounts[%d].mountPath", i),
			"%s would hide a volume of Meridian; choose another path", mount.MountPath)
		f.refuse(!ours.covers(mount.MountPath) && hidesSystem(mount.MountPath), fmt.Sprintf("volumeMounts[%d].mountPath", i),
			"%s would hide programs, libraries or settings of the image; choose another path, or use an image of your own (%s)",
			mount.MountPath, ours.image)
	}
}

const hostPortWhy = "a port of the node leaves the Pod Security level restricted; remove it, and use a Service"

func memoryOrCPU(resources corev1.ResourceRequirements) bool {
	_, cpu := resources.Requests[corev1.ResourceCPU]
	_, memory := resources.Requests[corev1.ResourceMemory]
	_, limit := resources.Limits[corev1.ResourceMemory]
	return cpu || memory || limit
}

// sideCar demands of an added container what the level restricted demands of it: the pod would be refused otherwise,
// after the change was taken.
func (f *findings) sideCar(container *corev1.Container, ours pod) {
	f.refuse(container.Image == "", "image", "required for a container that Meridian does not know")
	context := container.SecurityContext
	if context == nil {
		context = &corev1.SecurityContext{}
	}
	f.refuse(context.AllowPrivilegeEscalation == nil, "securityContext.allowPrivilegeEscalation",
		"must be false at the Pod Security level restricted")
	drops := context.Capabilities != nil && slices.Contains(context.Capabilities.Drop, "ALL")
	f.refuse(!drops, "securityContext.capabilities.drop", "must hold ALL at the Pod Security level restricted")
	for i, port := range container.Ports {
		f.refuse(slices.Contains(ours.ports, port.ContainerPort), fmt.Sprintf("ports[%d].containerPort", i),
			"%d is taken by Meridian; choose another", port.ContainerPort)
		f.refuse(port.HostPort != 0, fmt.Sprintf("ports[%d].hostPort", i), hostPortWhy)
	}
	f.mounts(container, ours)
	f.probes(container)
}

func keepVolumes(spec *corev1.PodSpec, ours pod) []Problem {
	var problems []Problem
	for i := range spec.Volumes {
		volume := &spec.Volumes[i]
		f := &findings{field: fmt.Sprintf("%s.volumes[%d]", templateField, i)}
		f.refuse(volume.Name == "", "name", "required, because volumes are merged by name")
		f.refuse(slices.Contains(ours.volumes, volume.Name), "name",
			"the volume %s belongs to Meridian; choose another name", volume.Name)
		f.refuse(volume.HostPath != nil, "hostPath",
			"gives away files of the node, and leaves the Pod Security level restricted; use another kind of volume")
		f.refuse(volume.HostPath == nil && !harmless(volume.VolumeSource), "name",
			"is of a kind that leaves the Pod Security level restricted; use configMap, csi, downwardAPI, emptyDir, ephemeral, "+
				"image, persistentVolumeClaim, projected or secret")
		f.private(volume, ours)
		if volume.Ephemeral != nil && volume.Ephemeral.VolumeClaimTemplate != nil {
			source := volume.Ephemeral.VolumeClaimTemplate.Spec.DataSourceRef
			f.refuse(source != nil && source.Namespace != nil && *source.Namespace != "",
				"ephemeral.volumeClaimTemplate.spec.dataSourceRef.namespace",
				"a database uses objects of its own namespace only; copy the source there")
		}
		problems = append(problems, f.problems...)
	}
	return problems
}

func harmless(source corev1.VolumeSource) bool {
	return source.ConfigMap != nil || source.CSI != nil || source.DownwardAPI != nil || source.EmptyDir != nil ||
		source.Ephemeral != nil || source.Image != nil || source.PersistentVolumeClaim != nil ||
		source.Projected != nil || source.Secret != nil
}
