// Package view turns what was read about a database into what a person reads: one screen of status, a diagnosis, an
// explanation. It is pure: the same facts at the same moment give the same text, and everything that is shown can also
// be printed as JSON or YAML.
//
// Start reading at Facts, which is what goes in, then at Of, which interprets it; Status, Check and Explain write text.
package view

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"meridian.dev/meridian/api/v1alpha1"
)

// Facts is what could be read about one database, as the cluster gave it.
type Facts struct {
	Now      time.Time            `json:"now"`
	Database v1alpha1.GeoDatabase `json:"database"`
	// Companions are what belongs to it.
	Companions []Companion `json:"-"`
	// Pods and Claims are those of the database and of its companions.
	Pods   []corev1.Pod                   `json:"pods,omitempty"`
	Claims []corev1.PersistentVolumeClaim `json:"claims,omitempty"`
	Lease  *coordinationv1.Lease          `json:"lease,omitempty"`
	// Events are those about the database, its companions and its pods.
	Events []corev1.Event `json:"events,omitempty"`
	// Figures are those that an agent serves, by the name of its pod.
	Figures map[string]Figures `json:"figures,omitempty"`
	// Operator is nil if the reader may not look at it.
	Operator *Operator `json:"operator,omitempty"`
	// Deployment is that of the operator, as the cluster gave it, nil if the reader may not look at it.
	Deployment *appsv1.Deployment `json:"-"`
	// Unread is what could not be read, each with its reason. What is missing for that is not there for sure.
	Unread []string `json:"unread,omitempty"`
}

// Figures are numbers by their name, labels left out.
type Figures map[string]float64

// Operator is the process that looks after databases.
type Operator struct {
	Namespace string `json:"namespace"`
	Image     string `json:"image,omitempty"`
	// Wanted and Ready are numbers of replicas.
	Wanted int32 `json:"wanted"`
	Ready  int32 `json:"ready"`
	// Holder is the replica that acts, Renewed when it last said so.
	Holder  string    `json:"holder,omitempty"`
	Renewed time.Time `json:"renewed,omitzero"`
	// Namespaces are those that it works in; none means all.
	Namespaces []string `json:"namespaces,omitempty"`
}

// The figures of an agent that are shown. internal/metrics serves them.
const (
	FigureLag        = "meridian_postgres_replication_lag_seconds"
	FigureVolumeUsed = "meridian_volume_used_bytes"
	FigureVolumeSize = "meridian_volume_size_bytes"
	FigureLogUsed    = "meridian_log_volume_used_bytes"
	FigureLogSize    = "meridian_log_volume_size_bytes"
)
