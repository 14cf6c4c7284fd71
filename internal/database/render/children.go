package render

import (
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/wire"
)

// Object is a Kubernetes object with its metadata.
type Object interface {
	metav1.Object
	runtime.Object
}

// Child is one wanted object under the words of a plan.
type Child struct {
	Kind   string
	Name   string
	Object Object
}

// Children returns everything that the design asks for, but for Secrets, sorted by kind and name. What cannot be
// rendered is left out, and the error says why: a mistake in one child is no reason not to know the others.
func Children(design database.Design) ([]Child, error) {
	var children []Child
	// The order of kinds is that of their names, so that the list is sorted as it grows.
	add := func(kind string, objects ...Object) {
		for _, object := range objects {
			children = append(children, Child{kind, object.GetName(), object})
		}
	}
	settings, problem := settingsMap(design)
	if problem == nil && !design.LacksSource {
		add(database.KindSettings, settings)
	}
	if design.Family != "" {
		add(database.KindSlice, slice(design))
	}
	if HasPolicy(design.Spec) {
		add(database.KindPolicy, policy(design))
	}
	for _, instance := range design.Instances {
		add(database.KindClaim, Claim(design, instance.Name, instance.Size))
		if instance.LogSize != nil {
			add(database.KindClaim, Claim(design, database.LogClaimName(instance.Name), *instance.LogSize))
		}
	}
	add(database.KindBudget, budget(design))
	add(database.KindRole, role(design))
	add(database.KindRoleBinding, roleBinding(design))
	add(database.KindService, podsService(design), readService(design), writeService(design))
	add(database.KindAccount, account(design))
	for _, instance := range design.Instances {
		set, err := setOf(design, instance)
		if err != nil {
			problem = errors.Join(problem, err)
			continue
		}
		add(database.KindSet, set)
	}
	return children, problem
}

// Find renders one child of a plan.
func Find(design database.Design, kind, name string) (Object, error) {
	children, err := Children(design)
	for _, child := range children {
		if child.Kind == kind && child.Name == name {
			return child.Object, nil
		}
	}
	if err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("the design has no %s %s", kind, name)
}

// meta is the metadata of a child that goes away together with the database.
func meta(design database.Design, name, component string) metav1.ObjectMeta {
	owned := keptMeta(design, name, component)
	owned.Labels[database.LabelAppOf] = design.Name
	yes := true
	owned.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "GeoDatabase", Name: design.Name, UID: types.UID(design.UID),
		Controller: &yes, BlockOwnerDeletion: &yes,
	}}
	return owned
}

// keptMeta is the metadata of a child that the garbage collector may not touch. Without an owner it must not bear the
// label by which Argo CD takes objects for its own: an application of the same name would prune it.
func keptMeta(design database.Design, name, component string) metav1.ObjectMeta {
	kept := metav1.ObjectMeta{Namespace: design.Namespace, Name: name, Labels: labels(design, component)}
	delete(kept.Labels, database.LabelAppOf)
	return kept
}

func labels(design database.Design, component string) map[string]string {
	return map[string]string{
		database.LabelDatabase:  design.Name,
		database.LabelName:      "geodatabase",
		database.LabelAppOf:     design.Name,
		database.LabelManagedBy: "meridian",
		database.LabelComponent: component,
	}
}

// instanceLabels select one instance. They are part of a selector that cannot be changed.
func instanceLabels(design database.Design, instance string) map[string]string {
	return map[string]string{database.LabelDatabase: design.Name, database.LabelInstance: instance}
}

func settingsMap(design database.Design) (*corev1.ConfigMap, error) {
	return StoredSettings(design, Settings(design))
}

// StoredSettings renders the ConfigMap around given settings.
func StoredSettings(design database.Design, settings wire.Settings) (*corev1.ConfigMap, error) {
	document, err := settings.Encode()
	if err != nil {
		return nil, err
	}
	stored := &corev1.ConfigMap{
		ObjectMeta: meta(design, database.SettingsName(design.Name), "settings"),
		Data:       map[string]string{wire.KeySettings: string(document) + "\n"},
	}
	if design.Rolling {
		stored.Labels[database.LabelRoll] = database.RollBegun
	}
	if backup := design.BackupSettings; backup != nil {
		if document, err = backup.Encode(); err != nil {
			return nil, err
		}
		stored.Data[wire.KeyBackup] = string(document) + "\n"
		stored.Annotations = backupNotes(design.Backup)
	}
	if len(design.LostBefore) > 0 {
		// It is no word to the agents: those of before would refuse settings that they do not fully know.
		if stored.Annotations == nil {
			stored.Annotations = map[string]string{}
		}
		stored.Annotations[wire.AnnotationLostBefore] = wire.FormatLost(design.LostBefore)
	}
	return stored, nil
}

// backupNotes is what is written beside the settings of backups: what was carried out, and how.
func backupNotes(backup database.Backup) map[string]string {
	notes := map[string]string{}
	if backup.Now != "" {
		notes[database.AnnotationBackupNow] = backup.Now
	}
	if last := backup.Trials.Last; last.Pod != "" {
		document, _ := json.Marshal(last) // Texts and numbers alone: it cannot fail.
		notes[database.AnnotationTrial] = string(document)
	}
	if asked := backup.Trials.Asked; asked.Verify != "" {
		document, _ := json.Marshal(asked)
		notes[database.AnnotationTrialsAsked] = string(document)
	}
	if len(notes) == 0 {
		return nil
	}
	return notes
}

// Claim renders the claim without an owner reference, whatever spec.storage.reclaim says: the garbage collector acts
// on a reference at once, also when the user has changed the word to Retain a moment before. Claims are deleted by the
// plan alone.
func Claim(design database.Design, name string, size resource.Quantity) *corev1.PersistentVolumeClaim {
	instance, log := database.ClaimOwner(name)
	component := "data"
	if log {
		component = "log"
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: keptMeta(design, name, component),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{database.AccessMode(design.Spec.Storage)},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: size},
			},
		},
	}
	claim.Labels[database.LabelInstance] = instance
	claim.Annotations = claimNotes(design)
	if class, kept := design.Classes[name]; kept {
		claim.Spec.StorageClassName = &class
	} else if design.Spec.Storage.Class != "" {
		claim.Spec.StorageClassName = &design.Spec.Storage.Class
	}
	if modes := design.Modes[name]; len(modes) > 0 {
		claim.Spec.AccessModes = modes
	}
	return claim
}

// claimNotes is what a claim tells of the data on it, also to another database that takes it over.
func claimNotes(design database.Design) map[string]string {
	notes := map[string]string{}
	if design.Record.Initialised {
		notes[database.AnnotationSystemIdentifier] = design.Record.SystemIdentifier
	}
	if design.Origin != "" {
		notes[database.AnnotationOrigin] = design.Origin
	}
	if design.Parting != nil {
		document, _ := json.Marshal(design.Parting) // Texts alone: it cannot fail.
		notes[database.AnnotationParting] = string(document)
	}
	if len(notes) == 0 {
		return nil
	}
	return notes
}
