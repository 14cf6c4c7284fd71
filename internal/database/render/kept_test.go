package render_test

import (
	"testing"

	"k8s.io/utils/ptr"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
)

// taken is a database that has taken two volumes over, of two classes, and has no settings yet.
func taken() database.Snapshot {
	parting := &database.Parting{DatabaseUID: "db-0", LeaseUID: "lease-0", Instances: []string{"cities-1", "cities-2"}}
	var snapshot database.Snapshot
	snapshot.Identity = database.Identity{Namespace: "gis", Name: "cities", UID: "db-1", Origin: "db-0"}
	snapshot.Spec.Instances = 2
	for serial, class := range []string{"old", "new"} {
		snapshot.Instances = append(snapshot.Instances, database.Instance{
			Serial: serial + 1, Name: database.InstanceName("cities", serial+1),
			Claim: &database.Claim{Class: class, Origin: "db-0", Parting: parting},
		})
	}
	return snapshot
}

// TestVolumesKeepTheirClass has a database take volumes over without a word about their class: a claim that was made
// with one cannot lose it.
func TestVolumesKeepTheirClass(t *testing.T) {
	snapshot := taken()
	classOf := func(name string) string {
		design := render.Outline(snapshot)
		return ptr.Deref(render.Claim(design, name, snapshot.Spec.Storage.Size).Spec.StorageClassName, "")
	}
	if first, second := classOf("cities-1"), classOf("cities-2"); first != "old" || second != "new" {
		t.Errorf("the claims get the classes %q and %q", first, second)
	}
	if other := classOf("cities-3"); other != "" {
		t.Errorf("a new claim gets the class %q", other)
	}
	snapshot.Spec.Storage.Class = "said"
	if class := classOf("cities-1"); class != "said" {
		t.Errorf("the spec is not heeded: %q", class)
	}
	snapshot.Spec.Storage.Class, snapshot.Origin = "", ""
	if class := classOf("cities-1"); class != "" {
		t.Errorf("a claim of the default class gets %q written into it", class)
	}
}

// TestNoteStays has the lease of the database that is gone be there for a while: what its claims tell is needed still.
func TestNoteStays(t *testing.T) {
	snapshot := taken()
	for lease, stays := range map[*database.Lease]bool{
		{}: true, {UID: "lease-0", Foreign: "belongs to somebody else"}: true, {UID: "lease-1"}: false,
	} {
		snapshot.Lease = *lease
		if render.Outline(snapshot).Parting != nil != stays {
			t.Errorf("with the lease %+v the note is to stay: %v", *lease, stays)
		}
	}
}
