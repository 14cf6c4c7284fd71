package render

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/wire"
)

// DesignOf says what the children should be rendered from, given what the world has already fixed.
func DesignOf(snapshot database.Snapshot) database.Design {
	design := database.Design{
		Identity: snapshot.Identity, Spec: snapshot.Spec, Images: snapshot.Images, Record: snapshot.Record,
	}
	for _, instance := range snapshot.Instances {
		if instance.Claim == nil && instance.Set == nil {
			continue
		}
		design.Instances = append(design.Instances, database.InstanceDesign{
			Serial: instance.Serial, Name: instance.Name, Size: sizeOf(snapshot.Spec.Storage.Size, instance.Claim),
		})
	}
	if len(design.Instances) == 0 {
		design.Instances = []database.InstanceDesign{{
			Serial: 1, Name: database.InstanceName(snapshot.Name, 1), Size: snapshot.Spec.Storage.Size,
		}}
	}
	design.Primary = primaryOf(snapshot, design.Instances[0].Name)
	return design
}

// sizeOf never asks for less than is there: somebody may have grown the claim by hand, and it cannot shrink.
func sizeOf(wanted resource.Quantity, claim *database.Claim) resource.Quantity {
	if claim != nil && claim.Requested.Cmp(wanted) > 0 {
		return claim.Requested
	}
	return wanted
}

// primaryOf follows what an instance says of itself. Without such a word the route stays where it is: an agent that
// cannot be reached is no reason to send writes elsewhere.
func primaryOf(snapshot database.Snapshot, first string) string {
	for _, instance := range snapshot.Instances {
		if instance.Report.Reachable && instance.Report.Role == string(wire.RolePrimary) {
			return instance.Name
		}
	}
	if _, found := snapshot.Instance(snapshot.Routed); found {
		return snapshot.Routed
	}
	return first
}
