package act

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
)

// adoptClaim gives the database a claim of an earlier one. It reads live that the spec still says so, and that the
// claim is the one that was decided on.
func (p *pass) adoptClaim(
	ctx context.Context, action database.Action, adopt database.AdoptClaim,
) (database.Result, error) {
	now, err := p.liveDatabase(ctx)
	if err == nil {
		err = p.guarded(action, now)
	}
	if err != nil {
		return database.Result{}, err
	}
	if now.Spec.Storage.Adopt == "" || now.Spec.Storage.Adopt != p.object.Spec.Storage.Adopt || now.Spec.Paused {
		return database.Result{}, moved(action, "the spec says otherwise by now")
	}
	var claim corev1.PersistentVolumeClaim
	if err := p.ReadAsDecided(ctx, action, &claim); err != nil {
		return database.Result{}, err
	}
	if claim.Annotations[database.AnnotationOwner] != adopt.Owner || claim.DeletionTimestamp != nil {
		return database.Result{}, moved(action, "it belongs to another database")
	}
	after := claim.DeepCopy()
	annotate(after, database.AnnotationOwner, string(p.object.UID))
	annotate(after, database.AnnotationOrigin, adopt.Origin)
	return p.Patch(ctx, action, &claim, after)
}

// noteParting notes on a claim what it takes to come back, and leaves everything else of it as it is stored.
func (p *pass) noteParting(
	ctx context.Context, action database.Action, note database.NoteParting,
) (database.Result, error) {
	if err := p.requireDeletion(ctx, action); err != nil {
		return database.Result{}, err
	}
	var claim corev1.PersistentVolumeClaim
	if err := p.ReadAsDecided(ctx, action, &claim); err != nil {
		return database.Result{}, err
	}
	design := p.design
	design.Parting = note.Parting
	wanted := render.Claim(design, action.Name, claim.Spec.Resources.Requests[corev1.ResourceStorage])
	// A wish that the API server refuses, such as another class, must not keep the note from being written.
	wanted.Spec.StorageClassName, wanted.Spec.AccessModes = claim.Spec.StorageClassName, claim.Spec.AccessModes
	return p.Write(ctx, wanted, &claim)
}

// unlabelClaim takes one label off a claim, and leaves everything else of it.
func (p *pass) unlabelClaim(ctx context.Context, action database.Action) (database.Result, error) {
	var claim corev1.PersistentVolumeClaim
	if err := p.ReadAsDecided(ctx, action, &claim); err != nil {
		return database.Result{}, err
	}
	after := claim.DeepCopy()
	delete(after.Labels, database.LabelAppOf)
	return p.Patch(ctx, action, &claim, after)
}
