package plan_test

import (
	"slices"
	"testing"
	"time"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/invariant"
	"meridian.dev/meridian/internal/service"
)

// TestInvariantsBite shows for each invariant a plan that it refuses.
func TestInvariantsBite(t *testing.T) {
	create := cache.Action{Do: cache.Create{}, Kind: cache.KindService, Name: "tiles"}
	update := cache.Action{
		Do: cache.Update{}, Kind: cache.KindService, Name: "tiles", UID: "uid-tiles", ResourceVersion: "5",
	}
	settings := cache.Action{
		Do: cache.Update{}, Kind: cache.KindSettings, Name: "tiles-settings", UID: "uid", ResourceVersion: "5",
	}
	certificates := cache.Action{Do: cache.StoreCertificates{}, Kind: cache.KindSecret, Name: "tiles-tls"}
	publish := cache.Action{Do: cache.PublishBundle{}, Kind: cache.KindSecret, Name: "tiles"}
	follow := certificates
	follow.Do = cache.StoreCertificates{Issuer: true}
	change := service.Issuing{Secret: "company-ca", Change: []string{"tell"}}
	resize := func(bytes int64) cache.Action {
		return cache.Action{
			Do: cache.ResizePod{Bytes: bytes}, Kind: cache.KindPod, Name: "tiles-1-0", UID: "uid-pod", ResourceVersion: "6",
		}
	}
	leave := func(name string) cache.Action {
		return cache.Action{Do: cache.DeleteSet{}, Kind: cache.KindSet, Name: name, UID: "uid", ResourceVersion: "5"}
	}
	rotation := service.Rotation{Token: "a", Number: 1, Began: time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)}
	move := cache.Action{
		Do: cache.MovePassword{Number: 1}, Kind: cache.KindSecret, Name: "tiles", UID: "uid", ResourceVersion: "5",
	}
	restart := resize(0)
	restart.Do = cache.RestartPod{}
	remove := resize(0)
	remove.Do = cache.DeletePod{}
	stranger, blind := resize(500<<20), resize(500<<20)
	stranger.UID, blind.ResourceVersion = "uid-other", ""
	invalid := func(s *cache.Snapshot) { s.Spec.Parameters = map[string]v1alpha1.Setting{"import-mode": "yes"} }
	tests := map[string]struct {
		world  func(*cache.Snapshot)
		action cache.Action
		want   string
	}{
		"a child of a deleted cache": {
			world: func(s *cache.Snapshot) { s.Deleting = true }, action: create,
			want: "cache.build-nothing-for-a-deleted-cache",
		},
		"settings of an invalid spec":   {world: invalid, action: settings, want: "cache.write-nothing-invalid"},
		"a resize for an invalid spec":  {world: invalid, action: resize(500 << 20), want: "cache.write-nothing-invalid"},
		"a replaced pod for an invalid": {world: invalid, action: remove, want: "cache.write-nothing-invalid"},
		"an address before there is an instance": {
			world: func(s *cache.Snapshot) { invalid(s); s.Instances = nil }, action: create,
			want: "cache.write-nothing-invalid",
		},
		"a change while paused": {
			world: func(s *cache.Snapshot) { s.Spec.Paused = true }, action: update, want: "cache.respect-the-pause",
		},
		"a foreign child is overwritten": {
			world: func(s *cache.Snapshot) {
				s.Children = []cache.Child{{Kind: cache.KindService, Name: "tiles", State: cache.Foreign}}
			},
			action: update, want: "cache.touch-nothing-foreign",
		},
		"foreign certificates are overwritten": {
			world: func(s *cache.Snapshot) { s.Certificates.Leaf.Foreign = "somebody's" }, action: certificates,
			want: "cache.touch-nothing-foreign",
		},
		"an unreadable authority is replaced": {
			world: func(s *cache.Snapshot) { s.Certificates.Problem = "garbage" }, action: certificates,
			want: "cache.touch-nothing-foreign",
		},
		"a lost authority is replaced": {
			world: func(s *cache.Snapshot) { s.Certificates.Authorities = 0 }, action: certificates,
			want: "cache.replace-no-authority",
		},
		"another issuer is shown before an instance knows of it": {
			world: func(s *cache.Snapshot) {
				s.Certificates.Identity, s.Certificates.Issuing = "c2", service.Issuing{Changing: true, Change: []string{"show"}}
			},
			action: follow, want: "cache.change-the-issuer-step-by-step",
		},
		"another issuer is shown before applications know of it": {
			world: func(s *cache.Snapshot) {
				s.Certificates.Unpublished, s.Certificates.Issuing = true, service.Issuing{Change: []string{"show"}}
			},
			action: follow, want: "cache.change-the-issuer-step-by-step",
		},
		"an issuer is followed that cannot be used": {
			world: func(s *cache.Snapshot) {
				s.Certificates.Issuing = service.Issuing{Secret: "company-ca", Problem: "gone", Change: []string{"tell"}}
			},
			action: follow, want: "cache.change-the-issuer-step-by-step",
		},
		"an issuer is followed that nobody has named": {action: follow, want: "cache.change-the-issuer-step-by-step"},
		"an issuer is followed while changes are stopped": {
			world:  func(s *cache.Snapshot) { s.Spec.Paused, s.Certificates.Issuing = true, change },
			action: follow, want: "cache.respect-the-pause",
		},
		"an issuer of an invalid spec is followed": {
			world:  func(s *cache.Snapshot) { invalid(s); s.Certificates.Issuing = change },
			action: follow, want: "cache.write-nothing-invalid",
		},
		"authorities are told without a version": {action: publish, want: "cache.write-conditionally"},
		"authorities are told where nothing was": {
			world: func(s *cache.Snapshot) { s.Binding = cache.Secret{} }, action: publish,
			want: "cache.create-credentials-once",
		},
		"authorities are told in a Secret of somebody": {
			world: func(s *cache.Snapshot) { s.Binding.Foreign = "somebody's" }, action: publish,
			want: "cache.touch-nothing-foreign",
		},
		"credentials are rewritten": {
			action: cache.Action{Do: cache.CreateBinding{}, Kind: cache.KindSecret, Name: "tiles"},
			want:   "cache.create-credentials-once",
		},
		"credentials are updated": {
			action: cache.Action{Do: cache.Update{}, Kind: cache.KindSecret, Name: "tiles", UID: "u", ResourceVersion: "1"},
			want:   "cache.create-credentials-once",
		},
		"a container becomes smaller than what its server may keep": {
			action: resize(100 << 20), want: "cache.never-shrink-below-usage",
		},
		"a container becomes smaller than what its server takes": {
			world: func(s *cache.Snapshot) {
				s.Instances[0].Pod.Limit, s.Instances[0].Report.Resident = 448<<20, 300<<20
			},
			action: resize(208 << 20), want: "cache.never-shrink-below-usage",
		},
		"a container shrinks without a word of its server": {
			world: func(s *cache.Snapshot) {
				s.Instances[0].Pod.Limit, s.Instances[0].Report = 448<<20, cache.Report{}
			},
			action: resize(208 << 20), want: "cache.never-shrink-below-usage",
		},
		"a container without memory": {action: resize(0), want: "cache.never-shrink-below-usage"},
		"the pod of somebody else":   {action: stranger, want: "cache.never-shrink-below-usage"},
		"a running pod is deleted":   {action: remove, want: "cache.delete-only-stuck-pods"},
		"a password is told before every instance accepts it": {
			world:  func(s *cache.Snapshot) { s.Rotation = rotation },
			action: move, want: "cache.create-credentials-once",
		},
		"a password is told that nobody asked for": {action: move, want: "cache.create-credentials-once"},
		"a password is made without a version": {
			action: cache.Action{Do: cache.BeginPassword{}, Kind: cache.KindSecret, Name: "tiles-tls"},
			want:   "cache.write-conditionally",
		},
		"a resize without a version": {action: blind, want: "cache.write-conditionally"},
		"a create over something": {action: cache.Action{Do: cache.Create{}, Name: "x", UID: "u"},
			want: "cache.write-conditionally"},
		"a lease that is lost is made again": {
			world:  func(s *cache.Snapshot) { s.Lease = cache.Lease{} },
			action: cache.Action{Do: cache.CreateLease{}, Kind: cache.KindLease, Name: "tiles-primary"},
			want:   "cache.create-the-lease-once",
		},
		"another lease is named to an agent that has obeyed one": {
			world: func(s *cache.Snapshot) { s.Lease.UID = "uid-other" }, action: settings, want: "cache.keep-to-the-lease",
		},
		"a cache is deleted beside its database": {
			world:  func(s *cache.Snapshot) { s.Spec.FollowDatabase = true },
			action: cache.Action{Do: cache.DeleteCache{Database: "cities"}, Name: "tiles", UID: "gc-1"},
			want:   "cache.end-after-the-database",
		},
		"a cache is deleted that does not follow": {
			world:  func(s *cache.Snapshot) { s.Database.Exists = false },
			action: cache.Action{Do: cache.DeleteCache{Database: "cities"}, Name: "tiles", UID: "gc-1"},
			want:   "cache.end-after-the-database",
		},
		"the primary is taken away": {action: leave("tiles-1"), want: "cache.remove-no-primary"},
		"an instance that could be the primary is taken away": {
			world: func(s *cache.Snapshot) { s.Lease.Members = []string{"tiles-1", "tiles-2"} }, action: leave("tiles-2"),
			want: "cache.remove-no-primary",
		},
		"an instance is taken away while nobody leads": {
			world: func(s *cache.Snapshot) { s.Lease.Holder = "" }, action: leave("tiles-2"), want: "cache.remove-no-primary",
		},
		"the primary goes to sleep before the others": {
			world: func(s *cache.Snapshot) {
				s.Spec.FollowDatabase, s.Database.Hibernated = true, true
				s.Instances = append(s.Instances, cache.Instance{Name: "tiles-2"})
			},
			action: leave("tiles-1"), want: "cache.remove-no-primary",
		},
		"a cache is emptied that nobody has asked to": {
			action: cache.Action{Do: cache.AskFlush{Request: "f1"}, Name: "tiles-1", UID: "uid-pod"},
			want:   "cache.flush-only-when-asked",
		},
		"a replica is emptied": {
			world:  func(s *cache.Snapshot) { s.Flush = "f1" },
			action: cache.Action{Do: cache.AskFlush{Request: "f1"}, Name: "tiles-2", UID: "uid-pod2"},
			want:   "cache.flush-only-when-asked",
		},
		"the only pod that has everything is restarted": {action: restart, want: "cache.restart-beside-a-copy"},
		"a pod is restarted while the others copy": {
			world: func(s *cache.Snapshot) {
				s.Instances = append(s.Instances, cache.Instance{
					Name: "tiles-2", Pod: &cache.Pod{UID: "u2", Ready: true}, Report: cache.Report{Reachable: true},
				})
			},
			action: restart, want: "cache.restart-beside-a-copy",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			snapshot, before := base(), base()
			run(&snapshot, &before)
			if test.world != nil {
				test.world(&snapshot)
			}
			var broken []string
			decided := cache.Plan{Decided: cache.Decided{Actions: []cache.Action{test.action}}}
			for _, violation := range invariant.Check(snapshot, decided) {
				broken = append(broken, violation.Rule)
			}
			if !slices.Contains(broken, test.want) {
				t.Errorf("broken: %v, want %s among them", broken, test.want)
			}
		})
	}
	twice := invariant.Check(base(), cache.Plan{Decided: cache.Decided{Actions: []cache.Action{create, create}}})
	if len(twice) != 1 || twice[0].Rule != "cache.write-once" {
		t.Errorf("an object that is written twice: %v, want cache.write-once", twice)
	}
}
