package plan_test

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/database/invariant"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/service"
)

// wished gives a database so many instances, all well, and another image to be rolled through.
func wished(s *database.Snapshot, instances int) {
	s.Spec.Instances, s.Instances, s.Lease, s.Settings = int32(instances), nil, database.Lease{}, database.Settings{}
	before := *s
	run(s, before)
	label(s, before)
	s.Spec.Image = "mine:2"
}

// idle has an instance say for ten minutes that it does not stream.
func idle(s *database.Snapshot, serial int) {
	instance := &s.Instances[serial-1]
	instance.Pod.Ready, instance.Pod.UnreadySince = false, s.Now.Add(-10*time.Minute)
	instance.Report.Streams = false
}

// rotated is a write of the credentials.
func rotated(do database.Step) database.Action {
	return database.Action{Do: do, Kind: database.KindSecret, Name: "cities-app", UID: "uid-app", ResourceVersion: "7"}
}

// forward is the next step of a change of whom applications trust.
var forward = database.Action{
	Do: database.StoreCertificates{Issuer: true}, Kind: database.KindSecret, Name: "cities-ca", UID: "uid-ca",
	ResourceVersion: "7",
}

// removed is the end of a certificate.
func removed(name, uid string) database.Action {
	return database.Action{
		Do: database.RemoveCertificate{}, Kind: database.KindSecret, Name: name, UID: uid, ResourceVersion: "7",
	}
}

// TestInvariantsBite shows for each invariant a plan that it refuses.
func TestInvariantsBite(t *testing.T) {
	create := database.Action{Do: database.Create{}, Kind: database.KindService, Name: "cities-rw"}
	update := database.Action{
		Do: database.Update{}, Kind: database.KindService, Name: "cities-rw", UID: "uid-service", ResourceVersion: "5",
	}
	updateSettings := database.Action{
		Do: database.Update{}, Kind: database.KindSettings, Name: "cities-settings", UID: "uid-configmap",
		ResourceVersion: "5",
	}
	deleteClaim := database.Action{
		Do: database.DeleteClaim{}, Kind: database.KindClaim, Name: "cities-1", UID: "uid-claim", ResourceVersion: "5",
	}
	deletePod := database.Action{
		Do: database.DeletePod{}, Kind: database.KindPod, Name: "cities-1-0", UID: "uid-pod", ResourceVersion: "6",
	}
	replace := func(serial int) database.Action {
		name := database.InstanceName("cities", serial)
		return database.Action{
			Do: database.ReplacePod{}, Kind: database.KindPod, Name: name + "-0", UID: "uid-pod" + suffix(serial),
			ResourceVersion: "6",
		}
	}
	kept := []database.Kept{{Name: "cities-2", UID: "uid-kept", Owner: "db-0", Origin: "db-0"}}
	adopt := database.Action{
		Do: database.AdoptClaim{Owner: "db-0", Origin: "db-0"}, Kind: database.KindClaim, Name: "cities-2",
		UID: "uid-kept", ResourceVersion: "1",
	}
	tests := map[string]struct {
		world  func(*database.Snapshot)
		action database.Action
		design func(*database.Design)
		want   string
	}{
		"a claim of a log is deleted by another UID": {
			world: func(s *database.Snapshot) {
				log := resource.MustParse("1Gi")
				s.Deleting, s.Spec.Storage.Reclaim, s.Spec.Storage.WALSize = true, v1alpha1.ReclaimDelete, &log
				s.Instances[0].LogClaim = &database.Claim{UID: "uid-new", Requested: log}
			},
			action: database.Action{
				Do: database.DeleteClaim{}, Kind: database.KindClaim, Name: "cities-1-wal", UID: "uid-log", ResourceVersion: "5",
			},
			want: "database.delete-only-released-claims",
		},
		"a claim of a log is made in place of one that is lost": {
			world: func(s *database.Snapshot) {
				log := resource.MustParse("1Gi")
				s.Spec.Storage.WALSize = &log
			},
			action: database.Action{Do: database.Create{}, Kind: database.KindClaim, Name: "cities-1-wal"},
			want:   "database.replace-no-volume",
		},
		"a pod is deleted that alone keeps a deleted log": {
			world: func(s *database.Snapshot) {
				log := resource.MustParse("1Gi")
				s.Spec.Storage.WALSize = &log
				s.Instances[0].Pod.Stuck, s.Instances[0].Pod.Ready = "ErrImagePull", false
				s.Instances[0].LogClaim = &database.Claim{UID: "uid-log", Requested: log, Deleting: true}
			},
			action: database.Action{
				Do: database.DeletePod{}, Kind: database.KindPod, Name: "cities-1-0", UID: "uid-pod", ResourceVersion: "6",
			},
			want: "database.keep-pods-of-deleted-claims",
		},
		"a claim of a living database is deleted": {action: deleteClaim, want: "database.delete-only-released-claims"},
		"a claim that the spec keeps is deleted": {
			world: func(s *database.Snapshot) { s.Deleting = true }, action: deleteClaim,
			want: "database.delete-only-released-claims",
		},
		"the claim of another incarnation is deleted": {
			world: func(s *database.Snapshot) {
				s.Deleting, s.Spec.Storage.Reclaim = true, v1alpha1.ReclaimDelete
				s.Instances[0].Claim.UID = "uid-new"
			},
			action: deleteClaim, want: "database.delete-only-released-claims",
		},
		"the finalizer goes before the claim": {
			world: func(s *database.Snapshot) {
				s.Deleting, s.Guarded, s.Spec.Storage.Reclaim = true, true, v1alpha1.ReclaimDelete
			},
			action: database.Action{Do: database.Release{}, Name: "cities"}, want: "database.release-only-when-done",
		},
		"something is written for an invalid spec": {
			world:  func(s *database.Snapshot) { s.Spec.Parameters = map[string]v1alpha1.Setting{"fsync": "off"} },
			action: updateSettings, want: "database.write-nothing-invalid",
		},
		"an invalid spec makes an address before there is an instance": {
			world: func(s *database.Snapshot) {
				s.Spec.Parameters, s.Instances = map[string]v1alpha1.Setting{"fsync": "off"}, nil
			},
			action: create, want: "database.write-nothing-invalid",
		},
		"an invalid spec replaces a pod": {
			world: func(s *database.Snapshot) {
				s.Spec.Parameters = map[string]v1alpha1.Setting{"fsync": "off"}
				s.Instances[0].Pod.Stuck, s.Instances[0].Pod.Ready = "ErrImagePull", false
			},
			action: deletePod, want: "database.write-nothing-invalid",
		},
		"a foreign child is overwritten": {
			world: func(s *database.Snapshot) {
				s.Children = []database.Child{{Kind: database.KindService, Name: "cities-rw", State: database.Foreign}}
			},
			action: update, want: "database.touch-nothing-foreign",
		},
		"foreign certificates are overwritten": {
			world: func(s *database.Snapshot) { s.Certificates.Own[0].Secret.Foreign = "somebody's" },
			action: database.Action{
				Do: database.StoreCertificates{}, Kind: database.KindSecret, Name: "cities-ca",
			},
			want: "database.touch-nothing-foreign",
		},
		"an unreadable authority is replaced": {
			world: func(s *database.Snapshot) { s.Certificates.Problem = "garbage" },
			action: database.Action{
				Do: database.StoreCertificates{}, Kind: database.KindSecret, Name: "cities-ca",
			},
			want: "database.touch-nothing-foreign",
		},
		"a lost authority is replaced": {
			world: func(s *database.Snapshot) { s.Certificates.Authorities = 0 },
			action: database.Action{
				Do: database.StoreCertificates{}, Kind: database.KindSecret, Name: "cities-ca",
			},
			want: "database.replace-no-authority",
		},
		"the certificate of an instance that is there is removed": {
			action: removed("cities-cert1", "uid-cert1"), want: "database.remove-no-mounted-certificate",
		},
		"the certificate of an instance that is wanted is removed": {
			world:  func(s *database.Snapshot) { s.Instances = s.Instances[1:] },
			action: removed("cities-cert1", "uid-cert1"), want: "database.remove-no-mounted-certificate",
		},
		"what instances have in common is removed under a pod": {
			world: func(s *database.Snapshot) {
				s.Certificates.Leaf = database.Secret{Exists: true, UID: "uid-tls", ResourceVersion: "7"}
				s.Instances[0].Pod.Shares = true
			},
			action: removed("cities-tls", "uid-tls"), want: "database.remove-no-mounted-certificate",
		},
		"the Secret for applications is removed": {
			action: removed("cities-app", "uid-app"), want: "database.remove-no-mounted-certificate",
		},
		"a password is made for a token that was served": {
			world: func(s *database.Snapshot) {
				s.Spec.Rotate = &v1alpha1.Rotate{Password: "a"}
				s.Credentials = database.Rotation{Token: "a", Began: s.Now, Done: s.Now}
			},
			action: rotated(database.BeginLogin{Token: "a"}), want: "database.rotate-once",
		},
		"a second password is made while one is made ready": {
			world: func(s *database.Snapshot) {
				s.Spec.Rotate = &v1alpha1.Rotate{Password: "b"}
				s.Credentials = database.Rotation{Token: "a", Number: 17, Began: s.Now}
			},
			action: rotated(database.BeginLogin{Token: "b"}), want: "database.rotate-once",
		},
		"a login is published that the primary does not confirm": {
			world:  func(s *database.Snapshot) { s.Credentials = database.Rotation{Token: "a", Number: 17, Began: s.Now} },
			action: rotated(database.MoveLogin{Number: 17}), want: "database.publish-only-a-confirmed-login",
		},
		"a new authority signs before an instance knows it": {
			world: func(s *database.Snapshot) {
				s.Certificates.Own[0].Identity, s.Instances[0].Report.Certificate = "c2", "c1"
				s.Certificates.Rotation = database.Rotation{Token: "a", Began: s.Now}
			},
			action: database.Action{
				Do: database.StoreCertificates{Token: "a"}, Kind: database.KindSecret, Name: "cities-ca", UID: "uid-ca",
				ResourceVersion: "7",
			},
			want: "database.sign-only-what-is-trusted",
		},
		"another issuer is shown before an instance knows of it": {
			world: func(s *database.Snapshot) {
				s.Certificates.Own[0].Identity, s.Instances[0].Report.Certificate = "c2", "c1"
				s.Certificates.Issuing = service.Issuing{Secret: "company-ca", Changing: true, Change: []string{"show"}}
			},
			action: forward, want: "database.sign-only-what-is-trusted",
		},
		"an issuer is followed that cannot be used": {
			world: func(s *database.Snapshot) {
				s.Certificates.Issuing = service.Issuing{Secret: "company-ca", Problem: "gone", Change: []string{"tell"}}
			},
			action: forward, want: "database.rotate-once",
		},
		"an issuer is followed while changes are stopped": {
			world: func(s *database.Snapshot) {
				s.Spec.Paused = true
				s.Certificates.Issuing = service.Issuing{Secret: "company-ca", Change: []string{"tell"}}
			},
			action: forward, want: "database.respect-the-pause",
		},
		"credentials are rewritten": {
			action: database.Action{
				Do: database.CreateBinding{}, Kind: database.KindSecret, Name: "cities-app",
			},
			want: "database.create-credentials-once",
		},
		"the credentials are changed together with the addresses of caches": {
			world: func(s *database.Snapshot) { s.Caches.Unbound = []string{"+CACHE_URL", "~password"} },
			action: database.Action{
				Do: database.BindCaches{}, Kind: database.KindSecret, Name: "cities-app", UID: "uid-app", ResourceVersion: "7",
			},
			want: "database.create-credentials-once",
		},
		"the addresses of caches are written into a Secret of somebody else": {
			world: func(s *database.Snapshot) { s.Binding.Foreign = "somebody's" },
			action: database.Action{
				Do: database.BindCaches{}, Kind: database.KindSecret, Name: "cities-app", UID: "uid-app", ResourceVersion: "7",
			},
			want: "database.touch-nothing-foreign",
		},
		"a claim shrinks": {
			action: database.Action{
				Do: database.Grow{}, Kind: database.KindClaim, Name: "cities-1", UID: "uid-claim", ResourceVersion: "5",
			},
			design: func(d *database.Design) { d.Instances[0].Size = resource.MustParse("512Mi") },
			want:   "database.shrink-no-claim",
		},
		"a claim grows beyond the limit": {
			world: func(s *database.Snapshot) {
				s.Spec.Storage.AutoGrow = &v1alpha1.AutoGrow{Limit: resource.MustParse("2Gi"), AtPercent: 80}
			},
			action: database.Action{
				Do: database.Grow{}, Kind: database.KindClaim, Name: "cities-1", UID: "uid-claim", ResourceVersion: "5",
			},
			design: func(d *database.Design) { d.Instances[0].Size = resource.MustParse("3Gi") },
			want:   "database.grow-within-the-limit",
		},
		"a second step begins before the first has arrived": {
			world: func(s *database.Snapshot) {
				s.Spec.Storage.AutoGrow = &v1alpha1.AutoGrow{Limit: resource.MustParse("9Gi"), AtPercent: 80}
				s.Instances[0].Claim.Resize = database.ResizeFileSystem
				s.Instances[0].Report.Reachable = true
			},
			action: database.Action{
				Do: database.Grow{}, Kind: database.KindClaim, Name: "cities-1", UID: "uid-claim", ResourceVersion: "5",
			},
			design: func(d *database.Design) { d.Instances[0].Size = resource.MustParse("3Gi") },
			want:   "database.grow-one-step",
		},
		"an empty claim takes the place of data": {
			world:  func(s *database.Snapshot) { s.Instances[0].Claim = nil },
			action: database.Action{Do: database.Create{}, Kind: database.KindClaim, Name: "cities-1"},
			want:   "database.replace-no-volume",
		},
		"the identity changes": {
			action: updateSettings, design: func(d *database.Design) { d.Record.SystemIdentifier = "9009" },
			want: "database.keep-every-record",
		},
		"the pass believes one copy and the other differs": {
			world:  func(s *database.Snapshot) { s.Instances[0].Claim.Copy.SystemIdentifier = "9009" },
			action: updateSettings, want: "database.keep-every-record",
		},
		"settings that cannot be read are written anew": {
			world: func(s *database.Snapshot) {
				s.Settings.Copy, s.Settings.Problem = database.Record{}, "no settings in it"
			},
			action: updateSettings, want: "database.keep-every-record",
		},
		"a record without a system": {
			design: func(d *database.Design) { d.Record.SystemIdentifier = "" }, action: updateSettings,
			want: "database.keep-every-record",
		},
		"a running pod is deleted": {action: deletePod, want: "database.delete-only-stuck-pods"},
		"a stuck pod is deleted while its claim is deleted": {
			world: func(s *database.Snapshot) {
				s.Instances[0].Pod.Stuck, s.Instances[0].Pod.Ready = "ErrImagePull", false
				s.Instances[0].Claim.Deleting = true
			},
			action: deletePod, want: "database.keep-pods-of-deleted-claims",
		},
		"a stuck pod is deleted while no claim is seen": {
			world: func(s *database.Snapshot) {
				s.Instances[0].Pod.Stuck, s.Instances[0].Pod.Ready, s.Instances[0].Claim = "ErrImagePull", false, nil
			},
			action: deletePod, want: "database.keep-pods-of-deleted-claims",
		},
		"an update without a version": {
			action: database.Action{Do: database.Update{}, Kind: database.KindService, Name: "cities-rw"},
			want:   "database.write-conditionally",
		},
		"a create over something": {
			action: database.Action{Do: database.Create{}, Kind: database.KindService, Name: "cities-rw", UID: "u"},
			want:   "database.write-conditionally",
		},
		"a change while paused": {
			world: func(s *database.Snapshot) { s.Spec.Paused = true }, action: update, want: "database.respect-the-pause",
		},
		"a working pod is replaced for nothing": {action: replace(1), want: "database.restart-only-for-the-user"},
		"a pod is replaced while another is not well": {
			world:  func(s *database.Snapshot) { wished(s, 3); s.Instances[1].Report.Streams = false },
			action: replace(3), want: "database.restart-one-at-a-time",
		},
		"a pod is replaced while the primary does not serve": {
			world:  func(s *database.Snapshot) { wished(s, 3); s.Instances[0].Report.Serving = false },
			action: replace(3), want: "database.restart-one-at-a-time",
		},
		"an idle replica is replaced beside one that has the change": {
			world: func(s *database.Snapshot) {
				wished(s, 3)
				idle(s, 2)
				idle(s, 3)
				s.Instances[1].Pod.Template = render.Template(design.Of(*s), "cities-2")
			},
			action: replace(3), want: "database.restart-one-at-a-time",
		},
		"a replica that works is replaced beside an idle one": {
			world:  func(s *database.Snapshot) { wished(s, 3); idle(s, 2) },
			action: replace(3), want: "database.restart-one-at-a-time",
		},
		"an unknown pod is replaced": {
			action: database.Action{Do: database.ReplacePod{}, Name: "x", UID: "x", ResourceVersion: "1"},
			want:   "database.restart-one-at-a-time",
		},
		"the primary is replaced although others could take over": {
			world: func(s *database.Snapshot) { wished(s, 3) }, action: replace(1), want: "database.restart-the-primary-last",
		},
		"a replaced pod loses its claim": {
			world:  func(s *database.Snapshot) { wished(s, 3); s.Instances[2].Claim.Deleting = true },
			action: replace(3), want: "database.keep-pods-of-deleted-claims",
		},
		"a template spreads after it did harm": {
			world: func(s *database.Snapshot) {
				wished(s, 3)
				s.Instances[2].Pod.Template = render.Template(design.Of(*s), "cities-3")
				s.Instances[2].Pod.Stuck, s.Instances[2].Pod.Ready = "ErrImagePull", false
			},
			action: database.Action{
				Do: database.Update{}, Kind: database.KindSet, Name: "cities-2", UID: "uid-set-2", ResourceVersion: "9",
			},
			want: "database.spread-no-harm",
		},
		"a server is started anew for nothing": {
			action: database.Action{
				Do: database.RestartServer{Target: "cities-1", Token: "t"}, Kind: database.KindSettings, Name: "cities-settings",
				UID: "u", ResourceVersion: "1",
			},
			want: "database.restart-only-for-the-user",
		},
		"the primary moves for a new version of Meridian": {
			world: func(s *database.Snapshot) { s.Instances[0].Pod.Template = "older" },
			action: database.Action{
				Do:   database.SwitchOver{For: database.ForRestart, Request: "r1", Target: database.AnyInstance, Term: 1},
				Name: "cities-1", UID: "uid-pod", ResourceVersion: "6",
			},
			want: "database.restart-only-for-the-user",
		},
		"the primary stops before the others": {
			world:  func(s *database.Snapshot) { wished(s, 3); s.Spec.Hibernated = true },
			design: func(d *database.Design) { d.Instances[0].Stopped = true },
			action: database.Action{
				Do: database.Update{}, Kind: database.KindSet, Name: "cities-1", UID: "uid-set", ResourceVersion: "9",
			},
			want: "database.stop-the-primary-last",
		},
		"an instance stops that nobody wants to sleep": {
			design: func(d *database.Design) { d.Instances[0].Stopped = true },
			action: database.Action{
				Do: database.Update{}, Kind: database.KindSet, Name: "cities-1", UID: "uid-set", ResourceVersion: "9",
			},
			want: "database.stop-the-primary-last",
		},
		"a pod is replaced by one that is refused": {
			world:  func(s *database.Snapshot) { wished(s, 3); s.Trial = &database.Trial{Refusal: "no"} },
			action: replace(3), want: "database.try-before-replacing",
		},
		"memory is taken from under the buffers": {
			world: func(s *database.Snapshot) {
				s.Instances[0].Pod.Memory = resource.MustParse("2Gi")
				s.Instances[0].Report.PendingRestart = []string{"shared_buffers"}
			},
			action: database.Action{
				Do:   database.ResizePod{Size: database.Size{Memory: resource.MustParse("1Gi")}},
				Kind: database.KindPod, Name: "cities-1-0", UID: "uid-pod", ResourceVersion: "6",
			},
			want: "database.shrink-no-used-memory",
		},
		"a second lease is made": {
			action: database.Action{Do: database.CreateLease{}, Kind: database.KindLease, Name: "cities-primary"},
			want:   "database.create-the-lease-once",
		},
		"a lease succeeds another than the lost one": {
			world: func(s *database.Snapshot) { s.Lease = database.Lease{} },
			action: database.Action{
				Do: database.CreateLease{Succeeds: "another"}, Kind: database.KindLease, Name: "cities-primary",
			},
			want: "database.create-the-lease-once",
		},
		"a lease is adopted that the agents have not taken over": {
			world: func(s *database.Snapshot) { s.Settings.LeaseUID = "uid-lost" },
			action: database.Action{
				Do: database.AdoptLease{Lease: "uid-lease"}, Kind: database.KindSettings, Name: "cities-settings", UID: "u",
				ResourceVersion: "1",
			},
			want: "database.name-only-a-successor-lease",
		},
		"a claim of an earlier database is taken over without the word of the spec": {
			world: func(s *database.Snapshot) {
				s.Settings, s.Lease = database.Settings{}, database.Lease{}
				s.Kept = kept
			},
			action: adopt,
			want:   "database.adopt-only-when-told",
		},
		"a claim is taken over by a database with data of its own": {
			world: func(s *database.Snapshot) {
				s.Spec.Storage.Adopt = "db-0"
				s.Kept = kept
			},
			action: adopt,
			want:   "database.adopt-only-when-told",
		},
		"a lease goes before the claims have a note of it": {
			world: func(s *database.Snapshot) { s.Deleting = true },
			action: database.Action{
				Do: database.FreeLease{}, Kind: database.KindLease, Name: "cities-primary", UID: "uid-lease", ResourceVersion: "8",
			},
			want: "database.note-before-parting",
		},
		"a first lease is made while volumes are to be taken over": {
			world: func(s *database.Snapshot) {
				*s = database.Snapshot{Identity: s.Identity, Spec: s.Spec, Guarded: true}
				s.Spec.Storage.Adopt = "db-0"
				s.Kept = kept
			},
			action: database.Action{Do: database.CreateLease{}, Kind: database.KindLease, Name: "cities-primary"},
			want:   "database.create-the-lease-once",
		},
		"instances are made without end": {
			world: func(s *database.Snapshot) { s.Settings.Instances = []string{"cities-1", "cities-2", "cities-3"} },
			action: database.Action{
				Do:   database.SetInstances{Instances: []string{"cities-1", "cities-2", "cities-3", "cities-4"}},
				Kind: database.KindSettings, Name: "cities-settings", UID: "u", ResourceVersion: "1",
			},
			want: "database.change-instances-safely",
		},
		"a network policy is removed that is wanted": {
			action: database.Action{
				Do: database.Remove{}, Kind: database.KindPolicy, Name: "cities-pods", UID: "u", ResourceVersion: "1",
			},
			want: "database.remove-only-optional-objects",
		},
		"a Service is removed": {
			world: func(s *database.Snapshot) { s.Spec.Network.Policy = v1alpha1.NetworkNone },
			action: database.Action{
				Do: database.Remove{}, Kind: database.KindService, Name: "cities-rw", UID: "u", ResourceVersion: "1",
			},
			want: "database.remove-only-optional-objects",
		},
		"a child of a deleted database": {
			world: func(s *database.Snapshot) { s.Deleting = true }, action: create,
			want: "database.build-nothing-for-a-deleted-database",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			snapshot := base()
			run(&snapshot, snapshot)
			label(&snapshot, snapshot)
			if test.world != nil {
				test.world(&snapshot)
			}
			decided := database.Plan{
				Decided: database.Decided{Actions: []database.Action{test.action}}, Design: design.Of(snapshot),
			}
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
	smaller := base()
	run(&smaller, smaller)
	label(&smaller, smaller)
	wished(&smaller, 3)
	idle(&smaller, 2)
	idle(&smaller, 3)
	smaller.Instances[1].Pod.Template = render.Template(design.Of(smaller), "cities-2")
	smaller.Instances[1].Pod.Resize = database.PodResizeInfeasible
	for _, violation := range invariant.Check(smaller, database.Plan{
		Decided: database.Decided{Actions: []database.Action{replace(3)}}, Design: design.Of(smaller),
	}) {
		if violation.Rule == "database.restart-one-at-a-time" {
			t.Errorf("an idle replica beside one that waits for a larger node: %v", violation)
		}
	}
	twice := base()
	if got := invariant.Check(twice, database.Plan{
		Decided: database.Decided{Actions: []database.Action{create, create}}, Design: design.Of(twice),
	}); len(got) != 1 || got[0].Rule != "database.write-once" {
		t.Errorf("an object that is written twice: %v, want database.write-once", got)
	}
}
