package observe

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/condition"
)

// readBackup finds what leads to the repository, and what the database begins with. Credentials and keys stay in here:
// facts say that they are there, and whether ours are the same.
func (p *pass) readBackup(ctx context.Context) error {
	facts := &p.facts.Backup
	if unwell := condition.Find(p.object.Status.Conditions, v1alpha1.ConditionRecoverable); unwell != nil &&
		unwell.Status != metav1.ConditionTrue {
		facts.UnwellSince = unwell.LastTransitionTime.Time
	}
	if err := p.readBegin(ctx); err != nil || p.Outside {
		return err
	}
	var wanted map[string][]byte
	if backup := p.object.Spec.Backup; backup != nil {
		var err error
		if wanted, facts.Access.Missing, err = p.accessData(ctx, backup.Repository); err != nil {
			return err
		}
	}
	return p.compareAccess(ctx, database.AccessName(p.object.Name), wanted, &facts.Access)
}

// readBegin finds what a database begins with that has no data yet. What it has begun with does not matter any more.
func (p *pass) readBegin(ctx context.Context) error {
	facts, spec := &p.facts.Backup, p.object.Spec
	if !render.Begins(spec) {
		return nil
	}
	var wanted map[string][]byte
	var err error
	switch {
	case p.facts.Record.Initialised:
	case spec.Bootstrap.Restore != nil:
		restore := spec.Bootstrap.Restore
		facts.Begin = render.Restore(*restore, p.object.Namespace)
		if restore.Repository.Claim != nil {
			facts.BeginClaim = restore.Repository.Claim.Name
		}
		if !p.Outside {
			wanted, facts.Source.Missing, err = p.accessData(ctx, restore.Repository)
		}
	default:
		wanted, err = p.readOther(ctx, spec.Bootstrap.Clone.Name)
	}
	if err != nil || p.Outside {
		return err
	}
	return p.compareAccess(ctx, database.SourceName(p.object.Name), wanted, &facts.Source)
}

// readOther finds out about the database that this one is a clone of, from what its own agents are told.
func (p *pass) readOther(ctx context.Context, name string) (map[string][]byte, error) {
	facts := &p.facts.Backup
	key := client.ObjectKey{Namespace: p.object.Namespace, Name: name}
	var other v1alpha1.GeoDatabase
	if found, err := get(ctx, p.reader, key, &other); err != nil {
		return nil, err
	} else if !found {
		facts.BeginProblem = "there is no GeoDatabase " + name + " in the namespace to clone"
		return nil, nil
	}
	if other.Spec.Backup == nil {
		facts.BeginProblem = "the GeoDatabase " + name + " has no spec.backup, and a clone is made of its repository"
		return nil, nil
	}
	var stored corev1.ConfigMap
	if _, err := p.find(ctx, database.SettingsName(name), &stored); err != nil {
		return nil, err
	}
	settings, unread := wire.DecodeBackupSettings([]byte(stored.Data[wire.KeyBackup]))
	owner := metav1.GetControllerOfNoCopy(&stored)
	if unread != nil || owner == nil || owner.UID != other.UID {
		facts.BeginProblem = "the GeoDatabase " + name + " has no settings of backups yet"
		return nil, nil //nolint:nilerr // What cannot be read is a fact about the source, and its reason to wait.
	}
	facts.Begin = &wire.Restore{
		Repository: settings.Repository, Namespace: settings.Namespace, Name: settings.Database, UID: settings.DatabaseUID,
	}
	if other.Spec.Backup.Repository.Claim != nil {
		facts.BeginClaim = other.Spec.Backup.Repository.Claim.Name
	}
	if p.Outside {
		return nil, nil
	}
	data, missing, err := p.accessData(ctx, other.Spec.Backup.Repository)
	facts.Source.Missing = missing
	return data, err
}

// accessData reads the Secrets that a repository names.
func (p *pass) accessData(ctx context.Context, from v1alpha1.Repository) (map[string][]byte, string, error) {
	secrets, err := service.Secrets(ctx, p.Live, p.object.Namespace, render.SecretsOf(from))
	if err != nil {
		return nil, "", err
	}
	data, missing := render.AccessData(from, secrets)
	return data, missing, nil
}

// compareAccess holds what shall be mounted against what is stored.
func (p *pass) compareAccess(
	ctx context.Context, name string, wanted map[string][]byte, into *database.Access,
) error {
	var stored corev1.Secret
	found, err := get(ctx, p.Live, client.ObjectKey{Namespace: p.object.Namespace, Name: name}, &stored)
	if err != nil {
		return err
	}
	if found {
		into.Secret = p.secretFacts(&stored)
	}
	into.Stale = into.Missing == "" && !maps.EqualFunc(wanted, stored.Data, bytes.Equal)
	return nil
}

// backupFacts is what is stored for the agents about backups.
func backupFacts(settings *corev1.ConfigMap, into *database.Backup) {
	document := settings.Data[wire.KeyBackup]
	if document == "" {
		return
	}
	into.Now = settings.Annotations[database.AnnotationBackupNow]
	// What cannot be read was not written by us: nothing was tried then.
	if json.Unmarshal([]byte(settings.Annotations[database.AnnotationTrial]), &into.Trials.Last) != nil {
		into.Trials.Last = database.TrialNote{}
	}
	if json.Unmarshal([]byte(settings.Annotations[database.AnnotationTrialsAsked]), &into.Trials.Asked) != nil {
		into.Trials.Asked = database.TrialsAsked{}
	}
	if stored, err := wire.DecodeBackupSettings([]byte(document)); err == nil {
		into.Settings = &stored
	}
	sum := sha256.Sum256([]byte(document))
	into.Stored = hex.EncodeToString(sum[:8])
}
