// Package trial is what a cluster does about restores on trial, for the lives of databases: a scheduler finds the pod a
// node, its volume comes and goes with it, and it ends as the world has it end. No StatefulSet makes this pod.
//
// Start reading at [Stage]. What must hold is in rules.go, what users do and see in steps.go.
package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/sim/search"
)

// How the container of a restore on trial ends.
const (
	EndsWell   = "well"
	EndsBadly  = "badly"
	EndsKilled = "killed"
	Evicted    = "evicted"
	GoesOn     = "goes on"
)

// Stage is where restores on trial of a database are made.
type Stage struct {
	Database client.ObjectKey
	// Ends is a ConfigMap that says how they end: well unless it says something else.
	Ends client.ObjectKey
	// Nodes are called node1 and so on. Lost says that one has no power.
	Nodes int
	Lost  func(ctx context.Context, cluster client.Reader, node string) (bool, error)
}

// Is says that a pod restores on trial.
func Is(pod *corev1.Pod) bool { return pod.Labels[database.LabelTrial] != "" }

// Apart takes the pods of restores on trial out of a list: nothing that looks at instances sees them.
func Apart(pods *corev1.PodList) {
	pods.Items = slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return Is(&pod) })
}

// Step is a step in the life of the pod of a restore on trial.
func (s Stage) Step(ctx context.Context, cluster client.Client) (bool, error) {
	a := act{Stage: s, Context: ctx, Client: cluster}
	found, err := s.get(ctx, cluster, database.TrialName(s.Database.Name), &a.pod)
	if !found || err != nil || !Is(&a.pod) {
		return false, err
	}
	if a.claimed, err = s.get(ctx, cluster, s.claimName(), &a.claim); err != nil {
		return false, err
	}
	for _, step := range []func(*act) (bool, error){(*act).end, (*act).place, (*act).bind, (*act).run, (*act).finish} {
		if acted, err := step(&a); acted || err != nil {
			return acted, err
		}
	}
	return false, nil
}

func (s Stage) claimName() string { return database.TrialName(s.Database.Name) + "-scratch" }

func (s Stage) get(ctx context.Context, from client.Reader, name string, into client.Object) (bool, error) {
	err := from.Get(ctx, client.ObjectKey{Namespace: s.Database.Namespace, Name: name}, into)
	return err == nil, client.IgnoreNotFound(err)
}

// act is a pod, with its claim, if it is claimed.
type act struct {
	Stage
	context.Context
	client.Client
	pod     corev1.Pod
	claim   corev1.PersistentVolumeClaim
	claimed bool
}

// end takes it away when it was told to end, and tells it to when its node is lost.
func (a *act) end() (bool, error) {
	if a.pod.Spec.NodeName == "" {
		return false, nil // It goes as soon as it is deleted.
	}
	lost, err := a.Lost(a, a, a.pod.Spec.NodeName)
	switch {
	case err != nil:
		return false, err
	case lost && a.pod.DeletionTimestamp == nil:
		return true, a.Delete(a, &a.pod)
	case !lost && a.pod.DeletionTimestamp != nil:
		return true, a.Delete(a, &a.pod, client.GracePeriodSeconds(0))
	}
	return false, nil
}

// place finds it the last node that is there.
func (a *act) place() (bool, error) {
	if a.pod.Spec.NodeName != "" {
		return false, nil
	}
	for number := a.Nodes; number > 0; number-- {
		a.pod.Spec.NodeName = fmt.Sprintf("node%d", number)
		if lost, err := a.Lost(a, a, a.pod.Spec.NodeName); err != nil || !lost {
			return err == nil, errors.Join(err, a.Update(a, &a.pod))
		}
	}
	return false, nil
}

// bind makes its claim, which goes with it, and the volume behind it.
func (a *act) bind() (bool, error) {
	if a.pod.DeletionTimestamp != nil || a.claimed && a.claim.Status.Phase == corev1.ClaimBound {
		return false, nil
	}
	if a.claimed {
		a.claim.Status.Phase, a.claim.Status.Capacity = corev1.ClaimBound, a.claim.Spec.Resources.Requests
		return true, a.Status().Update(a, &a.claim)
	}
	for _, volume := range a.pod.Spec.Volumes {
		if volume.Ephemeral == nil {
			continue
		}
		template := volume.Ephemeral.VolumeClaimTemplate
		made := &corev1.PersistentVolumeClaim{ObjectMeta: *template.ObjectMeta.DeepCopy(), Spec: *template.Spec.DeepCopy()}
		made.Namespace, made.Name = a.pod.Namespace, a.pod.Name+"-"+volume.Name
		made.OwnerReferences = []metav1.OwnerReference{
			*metav1.NewControllerRef(&a.pod, corev1.SchemeGroupVersion.WithKind("Pod")),
		}
		return true, a.Create(a, made)
	}
	return false, errors.New("the pod of a restore on trial has no volume of its own")
}

// run begins its container. A claim of the pod before it is not its own.
func (a *act) run() (bool, error) {
	begun := a.pod.Status.Phase != "" && a.pod.Status.Phase != corev1.PodPending
	if begun || a.pod.DeletionTimestamp != nil || !a.claimed || !metav1.IsControlledBy(&a.claim, &a.pod) ||
		a.claim.DeletionTimestamp != nil {
		return false, nil
	}
	a.pod.Status.Phase = corev1.PodRunning
	a.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: database.ContainerTrial, State: corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(search.Now(a))},
		},
	}}
	return true, a.Status().Update(a, &a.pod)
}

// finish ends its container, as the world says.
func (a *act) finish() (bool, error) {
	var told corev1.ConfigMap
	if err := a.Get(a, a.Ends, &told); client.IgnoreNotFound(err) != nil {
		return false, err
	}
	how, status := told.Data["how"], &a.pod.Status
	if status.Phase != corev1.PodRunning || a.pod.DeletionTimestamp != nil || how == GoesOn {
		return false, nil
	}
	ended := &corev1.ContainerStateTerminated{
		StartedAt: status.ContainerStatuses[0].State.Running.StartedAt, FinishedAt: metav1.NewTime(search.Now(a)),
	}
	status.Phase, status.ContainerStatuses[0].State = corev1.PodSucceeded, corev1.ContainerState{Terminated: ended}
	result := wire.TrialResult{Version: 1, Backup: "b", RestoreMilliseconds: 61400}
	switch how {
	case EndsBadly:
		result.Problem, ended.ExitCode, status.Phase = "a file is not what it was", 1, corev1.PodFailed
	case EndsKilled:
		ended.Reason, ended.ExitCode, status.Phase = "OOMKilled", 137, corev1.PodFailed
	case Evicted:
		status.ContainerStatuses, status.Phase, status.Reason = nil, corev1.PodFailed, "Evicted"
	}
	if ended.Reason == "" {
		document, err := json.Marshal(result)
		if err != nil {
			return false, err
		}
		ended.Message = string(document)
	}
	return true, a.Status().Update(a, &a.pod)
}
