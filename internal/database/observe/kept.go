package observe

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/database"
)

// readSettings comes before whatever is recognised by the UID of the data: that of the database itself, unless it goes
// on with the data of one that was deleted. The settings say so; without them the claims do.
func (p *pass) readSettings(ctx context.Context) error {
	var settings corev1.ConfigMap
	found, err := p.find(ctx, database.SettingsName(p.object.Name), &settings)
	if err != nil {
		return err
	}
	if found && p.ours(&settings) {
		p.facts.Settings = settingsFacts(&settings)
		backupFacts(&settings, &p.facts.Backup)
	}
	origin := p.facts.Settings.DatabaseUID
	for _, instance := range p.facts.Instances {
		for _, claim := range p.facts.Claims(instance) {
			if claim.Claim != nil {
				origin = cmp.Or(origin, claim.Origin)
			}
		}
	}
	if origin != p.facts.UID {
		p.facts.Origin = origin
	}
	return nil
}

// readKept finds claims under names of this database that belong to an earlier one. They matter to one without data.
func (p *pass) readKept(ctx context.Context) error {
	if p.facts.Record.Initialised && p.facts.Settings.UID != "" && p.object.Spec.Storage.Adopt == "" {
		return nil
	}
	var claims corev1.PersistentVolumeClaimList
	err := p.reader.List(ctx, &claims, client.InNamespace(p.object.Namespace),
		client.MatchingLabels{database.LabelDatabase: p.object.Name})
	if err != nil {
		return fmt.Errorf("list claims: %w", err)
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		name, _ := database.ClaimOwner(claim.Name)
		owner := claim.Annotations[database.AnnotationOwner]
		if _, known := database.SerialOf(p.object.Name, name); !known || owner == "" || p.ours(claim) ||
			metav1.GetControllerOfNoCopy(claim) != nil {
			continue
		}
		p.facts.Kept = append(p.facts.Kept, database.Kept{
			Name: claim.Name, UID: string(claim.UID), ResourceVersion: claim.ResourceVersion,
			Deleting: claim.DeletionTimestamp != nil, Owner: owner, Class: ptr.Deref(claim.Spec.StorageClassName, ""),
			Origin: cmp.Or(originOf(claim), owner), Parting: partingOf(claim),
		})
	}
	slices.SortFunc(p.facts.Kept, func(a, b database.Kept) int { return strings.Compare(a.Name, b.Name) })
	return nil
}

// originOf is the UID by which the data knows its database, empty if the claim does not tell.
func originOf(claim *corev1.PersistentVolumeClaim) string {
	if parting := partingOf(claim); parting != nil {
		return parting.DatabaseUID
	}
	return claim.Annotations[database.AnnotationOrigin]
}

// partingOf reads what a deleted database has left. What cannot be read was not noted.
func partingOf(claim *corev1.PersistentVolumeClaim) *database.Parting {
	var parting database.Parting
	text := claim.Annotations[database.AnnotationParting]
	err := json.Unmarshal([]byte(text), &parting)
	if err != nil || parting.DatabaseUID == "" || parting.LeaseUID == "" || len(parting.Instances) == 0 {
		return nil
	}
	return &parting
}
