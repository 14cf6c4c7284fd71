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

func (p *pass) recordInSettings(ctx context.Context, action database.Action) (database.Result, error) {
	var live corev1.ConfigMap
	if err := p.ReadAsDecided(ctx, action, &live); err != nil {
		return database.Result{}, err
	}
	settings, err := wire.DecodeSettings([]byte(live.Data[wire.KeySettings]))
	switch {
	case err != nil:
		return database.Result{}, err
	case settings.Initialised:
		return database.Result{}, moved(action, "it has a record already")
	}
	settings.Initialised, settings.SystemIdentifier = true, p.design.Record.SystemIdentifier
	wanted, err := render.StoredSettings(p.design, settings)
	if err != nil {
		return database.Result{}, err
	}
	return p.Write(ctx, wanted, &live)
}

// adoptLease writes into the settings by which lease the agents agree now, after it has read live that they do.
func (p *pass) adoptLease(
	ctx context.Context, action database.Action, adopt database.AdoptLease,
) (database.Result, error) {
	var live corev1.ConfigMap
	if err := p.ReadAsDecided(ctx, action, &live); err != nil {
		return database.Result{}, err
	}
	settings, err := wire.DecodeSettings([]byte(live.Data[wire.KeySettings]))
	if err != nil {
		return database.Result{}, err
	}
	var lease coordinationv1.Lease
	if err := p.live(ctx, database.LeaseName(p.object.Name), &lease); err != nil {
		return database.Result{}, err
	}
	record, err := wire.DecodeLeaseRecord(lease.Annotations[wire.AnnotationRecord])
	if err != nil || string(lease.UID) != adopt.Lease || !slices.Contains(record.Succeeds, settings.LeaseUID) {
		return database.Result{}, moved(action, "the agents have not taken the lease over")
	}
	settings.LeaseUID = adopt.Lease
	design := p.design
	noted := wire.ParseLost(live.Annotations[wire.AnnotationLostBefore])
	design.LostBefore = wire.LostBefore(adopt.Lease, noted, record.Succeeds)
	wanted, err := render.StoredSettings(design, settings)
	if err != nil {
		return database.Result{}, err
	}
	return p.Write(ctx, wanted, &live)
}

// setInstances writes who shall have a copy into the settings, and leaves everything else of them as it is stored.
func (p *pass) setInstances(
	ctx context.Context, action database.Action, set database.SetInstances,
) (database.Result, error) {
	var live corev1.ConfigMap
	if err := p.ReadAsDecided(ctx, action, &live); err != nil {
		return database.Result{}, err
	}
	settings, err := wire.DecodeSettings([]byte(live.Data[wire.KeySettings]))
	if err != nil {
		return database.Result{}, err
	}
	settings.Instances = set.Instances
	wanted, err := render.StoredSettings(p.design, settings)
	if err != nil {
		return database.Result{}, err
	}
	return p.Write(ctx, wanted, &live)
}

// restartServer writes into the settings that one server is to be started anew, and leaves everything else of them.
func (p *pass) restartServer(
	ctx context.Context, action database.Action, restart database.RestartServer,
) (database.Result, error) {
	var live corev1.ConfigMap
	if err := p.ReadAsDecided(ctx, action, &live); err != nil {
		return database.Result{}, err
	}
	settings, err := wire.DecodeSettings([]byte(live.Data[wire.KeySettings]))
	if err != nil {
		return database.Result{}, err
	}
	settings.Restarts = slices.DeleteFunc(settings.Restarts, func(other wire.Restart) bool {
		return other.Instance == restart.Target || !slices.Contains(settings.Instances, other.Instance)
	})
	settings.Restarts = append(settings.Restarts, wire.Restart{
		Instance: restart.Target, Token: restart.Token, Stay: restart.Stay,
	})
	wanted, err := render.StoredSettings(p.design, settings.Canonical())
	if err != nil {
		return database.Result{}, err
	}
	return p.Write(ctx, wanted, &live)
}

// markRoll writes onto the settings that a roll begins, once the other databases allow it, or that it is over. What
// they say stays as it is stored.
func (p *pass) markRoll(ctx context.Context, action database.Action) (database.Result, error) {
	var live corev1.ConfigMap
	if err := p.ReadAsDecided(ctx, action, &live); err != nil {
		return database.Result{}, err
	}
	settings, err := wire.DecodeSettings([]byte(live.Data[wire.KeySettings]))
	if err != nil {
		return database.Result{}, err
	}
	design := p.design
	design.Rolling = database.Does[database.BeginRoll](action)
	if design.Rolling && p.Begin != nil {
		if why := p.Begin(client.ObjectKeyFromObject(p.object)); why != "" {
			return database.Result{}, moved(action, why)
		}
	}
	wanted, err := render.StoredSettings(design, settings)
	if err != nil {
		return database.Result{}, err
	}
	return p.Write(ctx, wanted, &live)
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
