package database

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
)

// Plan is what is to be done now. Without actions and holds the database is as its spec wishes.
type Plan struct {
	Decided
	// Warnings are what will be wrong if nobody does anything, the most urgent first. Nothing waits for them.
	Warnings []Warning `json:"warnings,omitempty"`
	// Recoverable is what is claimed about backups, nil without any.
	Recoverable *Recoverable `json:"recoverable,omitempty"`
	// Roll is how far a change that restarts instances has come.
	Roll Roll `json:"-"`
	// Need is what an instance lacks that a restore on trial may have, of this database or another one.
	Need Need `json:"-"`
	// Design is what the children are rendered from.
	Design Design `json:"-"`
}

// Roll is how far a change that restarts instances has come, empty if there is none.
type Roll string

// The stages of such a change.
const (
	// RollDue means that it has not begun.
	RollDue     Roll = "Due"
	RollRunning Roll = "Running"
	// RollStopped means that it has done harm.
	RollStopped Roll = "Stopped"
)

// Warning is something that is not wrong yet.
type Warning struct {
	// Name is a CamelCase word that becomes the reason of a condition, Message one sentence for a user.
	Name    string `json:"name"`
	Message string `json:"message"`
}

// ReasonBeingMade names the hold about copies that were never there: it is no reason to warn anybody.
const ReasonBeingMade = "CopiesBeingMade"

type (
	// Hold is a named reason to wait.
	Hold = service.Hold
	// Weight is what a hold means for the conditions.
	Weight = service.Weight
)

// The weights.
const (
	Progressing = service.Progressing
	Degraded    = service.Degraded
	Stalled     = service.Stalled
	Paused      = service.Paused
	Background  = service.Background
)

// Design is what the children are rendered from: the spec, together with what the world has already fixed. It is a pure
// function of a Snapshot.
type Design struct {
	Identity
	Spec   v1alpha1.GeoDatabaseSpec
	Images Images
	Record Record
	// Installation is the operator that works for the database.
	Installation string
	// LeaseUID is the lease by which the agents agree, empty while there is none.
	LeaseUID string
	// LostBefore are the leases that were lost before that one, as far as they are known, the oldest first.
	LostBefore []string
	// Parting is what the claims keep of a database that was deleted, until there are settings again.
	Parting *Parting
	// Classes are those of claims, by name, that are in another class than the spec names; empty for one of no class.
	Classes map[string]string
	// Modes are the access modes of claims, by name, that have others than the spec asks for.
	Modes map[string][]corev1.PersistentVolumeAccessMode
	// Backup is what is known of backups, BackupSettings what the agents are told of them, nil for nothing.
	Backup         Backup
	BackupSettings *wire.BackupSettings
	// LacksSource says that there are no settings yet, because it is not known what the database begins with.
	LacksSource bool
	// Family is that of the addresses behind the write address, empty while it is not known.
	Family string
	// Instances are those that shall have a copy, as it is written down.
	Instances []InstanceDesign
	// Growth is what the volumes come to by themselves.
	Growth Growth
	// Restarts are the servers that were asked to start anew, as it is written down.
	Restarts []Restart
	// Rolling says that a change that restarts instances has begun, as it is written down.
	Rolling bool
	// Memory is what the settings count on while a container has less than the spec asks for, nil otherwise.
	Memory *resource.Quantity
	// Leaving are instances that are no longer wanted and still there.
	Leaving []string
	// Shared says that some instance presents, or may when its pod is made, what all have had in common.
	Shared bool
}

// Holders are the instances that have a certificate of their own: those that shall have a copy, and those that leave.
func (d Design) Holders() []string { return slices.Concat(d.Names(), d.Leaving) }

// Growth is what the volumes of a database come to by themselves.
type Growth struct {
	// Size is what is in force for all volumes: that of the spec, or what they have grown to.
	Size resource.Quantity
	// Why says which volume fills, if Size is a new step; empty otherwise.
	Why string
	// Moving says that a volume is on its way to what was asked for before.
	Moving bool
	// Limited says that a step is due and the limit does not allow it.
	Limited bool
}

// InstanceDesign is one wanted instance.
type InstanceDesign struct {
	Serial int
	Name   string
	// Size is never below what the claim asks for already: a volume cannot shrink.
	Size resource.Quantity
	// LogSize is that of the volume of the log, nil if the log lies with the data.
	LogSize *resource.Quantity
	// Restart is the spec.restart for which its pod is made. One that is taken out of the spec stays as it was.
	Restart string
	// Template is the name of the template that its pod is made from, see render.Template.
	Template string
	// Stopped says that it shall have no pod.
	Stopped bool
}

// ClaimSize is what the claim of that name shall ask for.
func (d Design) ClaimSize(claim string) (resource.Quantity, bool) {
	owner, log := ClaimOwner(claim)
	for _, instance := range d.Instances {
		switch {
		case instance.Name != owner:
		case !log:
			return instance.Size, true
		case instance.LogSize != nil:
			return *instance.LogSize, true
		}
	}
	return resource.Quantity{}, false
}

// Wants says that the instance shall have a copy.
func (d Design) Wants(instance string) bool {
	return slices.ContainsFunc(d.Instances, func(wanted InstanceDesign) bool { return wanted.Name == instance })
}

// Names are those of the instances that shall have a copy.
func (d Design) Names() []string {
	var names []string
	for _, instance := range d.Instances {
		names = append(names, instance.Name)
	}
	return names
}
