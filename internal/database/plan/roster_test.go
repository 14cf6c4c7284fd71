package plan_test

import (
	"slices"
	"testing"
	"time"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/database/invariant"
)

// three is a database of three instances, all well.
func three() database.Snapshot {
	snapshot := base()
	snapshot.Spec.Instances = 3
	run(&snapshot, snapshot)
	return snapshot
}

// leave takes the last instance off the list of those that are wanted and of those that are counted on.
func leave(s *database.Snapshot) {
	s.Settings.Instances, s.Lease.Members = s.Settings.Instances[:2], s.Lease.Members[:2]
}

// TestInvariantsOfMembersBite shows for each invariant about instances and the lease a plan that it refuses.
func TestInvariantsOfMembersBite(t *testing.T) {
	roster := func(names ...string) database.Action {
		return database.Action{
			Do: database.SetInstances{Instances: names}, Kind: database.KindSettings, Name: "cities-settings",
			UID: "uid-configmap", ResourceVersion: "5",
		}
	}
	deleteSet := database.Action{
		Do: database.DeleteSet{}, Kind: database.KindSet, Name: "cities-3", UID: "uid-set-3", ResourceVersion: "9",
	}
	deleteClaim := database.Action{
		Do: database.DeleteClaim{}, Kind: database.KindClaim, Name: "cities-3", UID: "uid-claim-3", ResourceVersion: "5",
	}
	removePod := database.Action{
		Do: database.RemovePod{}, Kind: database.KindPod, Name: "cities-3-0", UID: "uid-pod-3", ResourceVersion: "6",
	}
	ask := database.Action{
		Do:   database.SwitchOver{Request: "r1", Target: "any", Term: 1},
		Name: "cities-1", UID: "uid-pod", ResourceVersion: "6",
	}
	createLease := database.Action{Do: database.CreateLease{}, Kind: database.KindLease, Name: "cities-primary"}
	tests := map[string]struct {
		world  func(*database.Snapshot)
		action database.Action
		change func(*database.Action)
		design func(*database.Design)
		want   string
	}{
		"a second lease": {action: createLease, want: "database.create-the-lease-once"},
		"a lease in place of a lost one": {
			world: func(s *database.Snapshot) { s.Lease = database.Lease{} }, action: createLease,
			want: "database.create-the-lease-once",
		},
		"a lease for data that a claim alone knows of": {
			world: func(s *database.Snapshot) {
				s.Lease, s.Settings, s.Record = database.Lease{}, database.Settings{}, database.Record{}
			},
			action: createLease, want: "database.create-the-lease-once",
		},
		"the lease of a living database is let go": {
			action: database.Action{
				Do: database.FreeLease{}, Kind: database.KindLease, Name: "cities-primary", UID: "uid-lease", ResourceVersion: "8",
			},
			want: "database.free-no-living-lease",
		},
		"the settings name another lease": {
			action: database.Action{
				Do: database.Update{}, Kind: database.KindSettings, Name: "cities-settings", UID: "uid-configmap",
				ResourceVersion: "5",
			},
			design: func(d *database.Design) { d.LeaseUID = "another" }, want: "database.keep-to-the-lease",
		},
		"the primary leaves": {action: roster("cities-2", "cities-3"), want: "database.change-instances-safely"},
		"two leave at once":  {action: roster("cities-1"), want: "database.change-instances-safely"},
		"nobody stays":       {action: roster(), want: "database.change-instances-safely"},
		"one leaves for another": {action: roster("cities-1", "cities-2", "cities-4"),
			want: "database.change-instances-safely"},
		"a name of somebody else": {
			action: roster("cities-1", "cities-2", "cities-3", "towns-4"), want: "database.change-instances-safely",
		},
		"a name that was there": {
			world:  func(s *database.Snapshot) { s.Settings.Instances = s.Settings.Instances[:2] },
			action: roster("cities-1", "cities-2", "cities-3"), want: "database.change-instances-safely",
		},
		"one leaves while another is away": {
			world:  func(s *database.Snapshot) { s.Instances[1].Report = database.Report{} },
			action: roster("cities-1", "cities-2"), want: "database.change-instances-safely",
		},
		"one leaves while the primary is not known": {
			world: func(s *database.Snapshot) { s.Lease.Expired = true }, action: roster("cities-1", "cities-2"),
			want: "database.change-instances-safely",
		},
		"a wanted instance is removed": {action: deleteSet, want: "database.remove-no-counted-copy"},
		"a member is removed": {
			world:  func(s *database.Snapshot) { s.Settings.Instances = s.Settings.Instances[:2] },
			action: deleteSet, want: "database.remove-no-counted-copy",
		},
		"the holder is removed": {
			world: func(s *database.Snapshot) { leave(s); s.Lease.Holder = "cities-3" }, action: deleteSet,
			want: "database.remove-no-counted-copy",
		},
		"an instance is removed while the lease is lost": {
			world: func(s *database.Snapshot) { leave(s); s.Lease.UID = "another" }, action: deleteSet,
			want: "database.remove-no-counted-copy",
		},
		"another StatefulSet is removed": {
			world: leave, action: deleteSet, change: func(a *database.Action) { a.UID = "another" },
			want: "database.remove-no-counted-copy",
		},
		"a claim that the spec keeps goes with its instance": {
			world: leave, action: deleteClaim, want: "database.delete-only-released-claims",
		},
		"a claim that is counted on goes": {
			world:  func(s *database.Snapshot) { s.Spec.Storage.Reclaim = v1alpha1.ReclaimDelete },
			action: deleteClaim, want: "database.delete-only-released-claims",
		},
		"a claim goes while no primary serves": {
			world: func(s *database.Snapshot) {
				leave(s)
				s.Spec.Storage.Reclaim, s.Instances[0].Report.Serving = v1alpha1.ReclaimDelete, false
			},
			action: deleteClaim, want: "database.delete-only-released-claims",
		},
		"a claim goes although the children stay": {
			world: func(s *database.Snapshot) {
				s.Deleting, s.Orphaning, s.Spec.Storage.Reclaim = true, true, v1alpha1.ReclaimDelete
			},
			action: deleteClaim, want: "database.delete-only-released-claims",
		},
		"the database goes while its lease is held": {
			world:  func(s *database.Snapshot) { s.Deleting = true },
			action: database.Action{Do: database.Release{}, Name: "cities"}, want: "database.release-only-when-done",
		},
		"a replica is asked to hand over": {
			action: ask, change: func(a *database.Action) { a.Name = "cities-2" }, want: "database.ask-only-the-holder",
		},
		"the holder of an earlier term is asked": {
			action: ask, want: "database.ask-only-the-holder",
			change: func(a *database.Action) { a.Do = database.SwitchOver{Request: "r1", Target: "any", Term: 7} },
		},
		"the holder is asked to hand over to itself": {
			action: ask, want: "database.ask-only-the-holder",
			change: func(a *database.Action) { a.Do = database.SwitchOver{Request: "r1", Target: "cities-1", Term: 1} },
		},
		"a running pod is removed by force": {action: removePod, want: "database.force-delete-only-lost-pods"},
		"a pod is removed while its node may come back": {
			world: func(s *database.Snapshot) {
				s.Instances[2].Pod.Deleting, s.Instances[2].Node.AwaySince = true, s.Now.Add(-time.Hour)
			},
			action: removePod, want: "database.force-delete-only-lost-pods",
		},
		"a pod that nobody deletes is removed": {
			world: func(s *database.Snapshot) { s.Instances[2].Node.Gone = true }, action: removePod,
			want: "database.force-delete-only-lost-pods",
		},
		"the database of another installation is touched": {
			world:  func(s *database.Snapshot) { s.StampedBy = "elsewhere" },
			action: roster("cities-1", "cities-2"), want: "database.leave-other-installations-alone",
		},
		"an empty claim takes the place of a member's": {
			world:  func(s *database.Snapshot) { s.Instances[2].Claim = nil },
			action: database.Action{Do: database.Create{}, Kind: database.KindClaim, Name: "cities-3"},
			want:   "database.replace-no-volume",
		},
		"instances change while paused": {
			world: func(s *database.Snapshot) { s.Spec.Paused = true }, action: roster("cities-1", "cities-2"),
			want: "database.respect-the-pause",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			snapshot, action := three(), test.action
			if test.world != nil {
				test.world(&snapshot)
			}
			if test.change != nil {
				test.change(&action)
			}
			decided := database.Plan{Decided: database.Decided{Actions: []database.Action{action}}, Design: design.Of(snapshot)}
			if test.design != nil {
				test.design(&decided.Design)
			}
			var broken []string
			for _, violation := range invariant.Check(snapshot, decided) {
				broken = append(broken, violation.Rule)
			}
			if !slices.Contains(broken, test.want) {
				t.Errorf("broken: %v, want %s among them", broken, test.want)
			}
		})
	}
	// The same actions at the right moment break nothing, or the table would show nothing.
	right := three()
	for _, action := range []database.Action{roster("cities-1", "cities-2"), ask} {
		decided := database.Plan{Decided: database.Decided{Actions: []database.Action{action}}, Design: design.Of(right)}
		if got := invariant.Check(right, decided); got != nil {
			t.Errorf("%s breaks %v", action.Verb(), got)
		}
	}
	leave(&right)
	right.Spec.Storage.Reclaim = v1alpha1.ReclaimDelete
	for _, action := range []database.Action{deleteSet, deleteClaim} {
		decided := database.Plan{Decided: database.Decided{Actions: []database.Action{action}}, Design: design.Of(right)}
		if got := invariant.Check(right, decided); got != nil {
			t.Errorf("%s breaks %v", action.Verb(), got)
		}
	}
}
