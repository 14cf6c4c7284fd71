package act

import (
	"context"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/wire"
)

// storeRecord writes the record into a child that has none, and leaves everything else of it as it is stored, also what
// the spec asks for by now: a database whose changes are stopped gets its record all the same.
func (p *pass) storeRecord(ctx context.Context, action database.Action) (database.Result, error) {
	if action.Kind == database.KindSettings {
		return p.recordInSettings(ctx, action)
	}
	var claim corev1.PersistentVolumeClaim
	if err := p.ReadAsDecided(ctx, action, &claim); err != nil {
		return database.Result{}, err
	}
	if _, found := claim.Annotations[database.AnnotationSystemIdentifier]; found {
		return database.Result{}, moved(action, "it has a record already")
	}
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return p.Write(ctx, render.Claim(p.design, action.Name, size), &claim)
}

// stored are the settings as they are stored, and the design around them. What is not changed in them stays as it is,
// also what the spec asks for by now.
type stored struct {
	wire.Settings
	design database.Design
	// live is what they are stored in.
	live *corev1.ConfigMap
}

// editSettings changes the settings as they are stored.
func (p *pass) editSettings(
	ctx context.Context, action database.Action, edit func(*stored) error,
) (database.Result, error) {
	var live corev1.ConfigMap
	if err := p.ReadAsDecided(ctx, action, &live); err != nil {
		return database.Result{}, err
	}
	settings, err := wire.DecodeSettings([]byte(live.Data[wire.KeySettings]))
	if err != nil {
		return database.Result{}, err
	}
	changed := stored{Settings: settings, design: p.design, live: &live}
	if err := edit(&changed); err != nil {
		return database.Result{}, err
	}
	wanted, err := render.StoredSettings(changed.design, changed.Settings)
	if err != nil {
		return database.Result{}, err
	}
	return p.Write(ctx, wanted, &live)
}

func (p *pass) recordInSettings(ctx context.Context, action database.Action) (database.Result, error) {
	return p.editSettings(ctx, action, func(settings *stored) error {
		if settings.Initialised {
			return moved(action, "it has a record already")
		}
		settings.Initialised, settings.SystemIdentifier = true, p.design.Record.SystemIdentifier
		return nil
	})
}

// adoptLease writes into the settings by which lease the agents agree now, after it has read live that they do.
func (p *pass) adoptLease(
	ctx context.Context, action database.Action, adopt database.AdoptLease,
) (database.Result, error) {
	return p.editSettings(ctx, action, func(settings *stored) error {
		var lease coordinationv1.Lease
		if err := p.live(ctx, database.LeaseName(p.object.Name), &lease); err != nil {
			return err
		}
		record, err := wire.DecodeLeaseRecord(lease.Annotations[wire.AnnotationRecord])
		if err != nil || string(lease.UID) != adopt.Lease || !slices.Contains(record.Succeeds, settings.LeaseUID) {
			return moved(action, "the agents have not taken the lease over")
		}
		settings.LeaseUID = adopt.Lease
		noted := wire.ParseLost(settings.live.Annotations[wire.AnnotationLostBefore])
		settings.design.LostBefore = wire.LostBefore(adopt.Lease, noted, record.Succeeds)
		return nil
	})
}

// setInstances writes who shall have a copy into the settings.
func (p *pass) setInstances(
	ctx context.Context, action database.Action, set database.SetInstances,
) (database.Result, error) {
	return p.editSettings(ctx, action, func(settings *stored) error {
		settings.Instances = set.Instances
		return nil
	})
}

// restartServer writes into the settings that one server is to be started anew.
func (p *pass) restartServer(
	ctx context.Context, action database.Action, restart database.RestartServer,
) (database.Result, error) {
	return p.editSettings(ctx, action, func(settings *stored) error {
		settings.Restarts = slices.DeleteFunc(settings.Restarts, func(other wire.Restart) bool {
			return other.Instance == restart.Target || !slices.Contains(settings.Instances, other.Instance)
		})
		settings.Restarts = append(settings.Restarts, wire.Restart{
			Instance: restart.Target, Token: restart.Token, Stay: restart.Stay,
		})
		settings.Settings = settings.Canonical()
		return nil
	})
}

// markRoll writes onto the settings that a roll begins, once the other databases allow it, or that it is over.
func (p *pass) markRoll(ctx context.Context, action database.Action) (database.Result, error) {
	return p.editSettings(ctx, action, func(settings *stored) error {
		settings.design.Rolling = database.Does[database.BeginRoll](action)
		if settings.design.Rolling && p.Begin != nil {
			if why := p.Begin(client.ObjectKeyFromObject(p.object)); why != "" {
				return moved(action, why)
			}
		}
		return nil
	})
}

// growClaim raises the size of a claim, with the record that the claim has, whatever the plan believes it to be.
func (p *pass) growClaim(ctx context.Context, action database.Action) (database.Result, error) {
	var claim corev1.PersistentVolumeClaim
	if err := p.ReadAsDecided(ctx, action, &claim); err != nil {
		return database.Result{}, err
	}
	design := p.design
	identifier, found := claim.Annotations[database.AnnotationSystemIdentifier]
	design.Record = database.Record{Initialised: found, SystemIdentifier: identifier}
	if size, found := design.ClaimSize(action.Name); found {
		return p.Write(ctx, render.Claim(design, action.Name, size), &claim)
	}
	return database.Result{}, fmt.Errorf("the design has no claim %s", action.Name)
}
