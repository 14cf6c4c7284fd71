//go:build cluster

package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/hack/demo/store"
	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/open"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/condition"
)

// claimName is the claim that is a repository.
const claimName = "backups"

// onlyInAll leaves a test to `make e2e-backup`.
func onlyInAll(t *testing.T) {
	t.Helper()
	if *backupCases != "all" && !slices.Contains(strings.Split(*backupCases, ";"), t.Name()) {
		t.Skip("only with -backups=all, or with its name")
	}
}

// newClaim makes a claim of the class whose volumes all nodes share, and a key.
func newClaim(c *cluster, namespace string) *objectStore {
	c.t.Helper()
	s := &objectStore{c: c, namespace: namespace, key: newKey(c.t)}
	class := "shared"
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: claimName},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("5Gi")},
			},
		},
	}
	key := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: keyName},
		StringData: map[string]string{v1alpha1.KeyIdentity: s.key},
	}
	for _, object := range []client.Object{claim, key} {
		if err := c.Create(c.t.Context(), object); err != nil {
			c.t.Fatal(err)
		}
	}
	c.until("the claim has a volume", time.Minute, func(ctx context.Context) (bool, string) {
		var volume corev1.PersistentVolume
		if err := c.Get(ctx, client.ObjectKeyFromObject(claim), claim); err != nil || claim.Spec.VolumeName == "" {
			return false, fmt.Sprintf("%+v %v", claim.Status, err)
		}
		err := c.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, &volume)
		if err != nil || volume.Spec.HostPath == nil {
			return false, fmt.Sprintf("%+v %v", volume.Spec, err)
		}
		s.folder = volume.Spec.HostPath.Path
		return claim.Status.Phase == corev1.ClaimBound, string(claim.Status.Phase)
	})
	return s
}

// openFolder opens the repository of a database on the claim, on this machine.
func (s *objectStore) openFolder(name string, uid types.UID) *repository.Repository {
	s.c.t.Helper()
	folder := s.c.t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, wire.KeyBackupIdentities), []byte(s.key), 0o600); err != nil {
		s.c.t.Fatal(err)
	}
	found, err := (&open.Opener{Folder: folder, Claim: s.folder}).Repository(wire.Repository{
		Encrypted: true, Claim: &wire.ClaimFolder{Prefix: "geo"},
	}, backup.Root("geo", s.namespace, name, string(uid)))
	if err != nil {
		s.c.t.Fatal(err)
	}
	return found
}

// TestBackupOnAClaim keeps a database on a claim that all of its pods mount: the log arrives there, also when the agent
// of the primary is killed, a base backup is restored on trial, and a table that was dropped comes back in another
// database.
func TestBackupOnAClaim(t *testing.T) {
	onlyInAll(t)
	b := &backed{}
	programs(connect(t))
	b.failover = newFailover(t, func(database *v1alpha1.GeoDatabase) {
		b.store = newClaim(connect(t), database.Namespace)
		database.Spec.Backup = b.store.backup()
	})
	database, err := b.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.uid = database.UID
	b.awaitRecoverable("the first point can be restored to")
	for _, one := range backupTable {
		if slices.Contains([]string{
			"a base backup on request", "a restore on trial", "the agent of the primary is killed",
		}, one.name) {
			b.try(one)
		}
	}
	moment := b.dropPlaces()
	b.store.checkWhole(failoverName, b.uid, b.place())
	t.Log(b.c.meridian("restore", failoverName, "-n", b.c.space, "--to", moment.Format(time.RFC3339),
		"--as", "before", "--instances", "1", "--timeout", "5m"))
	b.checkPlaces("before", "5000")
	b.awaitWell()
}

// dropPlaces makes a table and drops it, and returns a moment between.
func (b *backed) dropPlaces() time.Time {
	b.t.Helper()
	b.do(places)
	moment := b.pause()
	b.do(`drop table places; create table after (word text)`)
	return moment
}

// places makes a table of 5,000 of them, with a spatial index.
const places = `create table places (name text, spot geometry(point, 4326));
	create index on places using gist (spot);
	insert into places select 'place ' || n, st_setsrid(st_makepoint(n % 180, n % 90), 4326)
	from generate_series(1, 5000) n`

// vault is a namespace of its own for the S3 server, and again the one of the second database.
const vault, again = "vault", "again"

// TestRestoreOfWhatIsGone deletes a database and the namespace that it was in. Nothing in the repository goes for it,
// and a new database in another namespace, which has the two Secrets and nothing else, begins with all that was
// written.
func TestRestoreOfWhatIsGone(t *testing.T) {
	onlyInAll(t)
	b := &backed{}
	c := connect(t)
	programs(c)
	c.namespace(vault)
	c.namespace(again)
	b.failover = newFailover(t, func(database *v1alpha1.GeoDatabase) {
		b.store = newStore(c, vault)
		b.store.of = c.space
		b.store.copySecrets(c.space)
		b.store.copySecrets(again)
		database.Spec.Backup = b.store.backup()
	})
	database, err := b.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.uid = database.UID
	b.awaitRecoverable("the first point can be restored to")
	b.do(places)
	b.store.checkWhole(failoverName, b.uid, b.place())
	before := b.store.names(failoverName, b.uid)

	c.kubectl("-n", c.space, "delete", "gdb", failoverName, "--timeout=180s")
	c.kubectl("delete", "namespace", c.space, "--timeout=180s")
	after := b.store.names(failoverName, b.uid)
	for _, name := range before {
		// Pieces of a segment go when it is there as a whole; base backups and segments stay.
		if !slices.Contains(after, name) && !strings.Contains(name, ".tail.") {
			t.Errorf("%s has gone with the database", name)
		}
	}

	begun := time.Now()
	made := &v1alpha1.GeoDatabase{
		ObjectMeta: metav1.ObjectMeta{Namespace: again, Name: failoverName, Annotations: database.Annotations},
		Spec:       database.Spec,
	}
	made.Spec.Backup, made.Spec.Instances = nil, 1
	made.Spec.Bootstrap.Restore = &v1alpha1.Restore{
		Repository: b.store.backup().Repository,
		Source:     v1alpha1.RestoreSource{Namespace: c.space, Name: failoverName},
	}
	if err := c.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	c.until("the second database is Ready", 5*time.Minute, func(ctx context.Context) (bool, string) {
		err := c.Get(ctx, client.ObjectKeyFromObject(made), made)
		ready := condition.IsTrue(made.Status.Conditions, v1alpha1.ConditionReady)
		return err == nil && ready, fmt.Sprintf("%+v", made.Status)
	})
	t.Logf("a database that was deleted with its namespace is Ready in another one after %s",
		time.Since(begun).Round(100*time.Millisecond))
	if got := strings.TrimSpace(c.meridian("psql", failoverName, "-n", again, "--", "-XAtc",
		"select count(*) from places where spot && st_makeenvelope(-180, -90, 180, 90, 4326)")); got != "5000" {
		t.Errorf("it has %q places", got)
	}
}

// copySecrets gives another namespace what leads to the server.
func (s *objectStore) copySecrets(namespace string) {
	s.c.t.Helper()
	for _, name := range []string{store.Credentials, keyName} {
		var secret corev1.Secret
		if err := s.c.Get(s.c.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, &secret); err != nil {
			s.c.t.Fatal(err)
		}
		made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: secret.Data}
		if err := s.c.Create(s.c.t.Context(), made); err != nil {
			s.c.t.Fatal(err)
		}
	}
}

// names are all objects of a database.
func (s *objectStore) names(name string, uid types.UID) []string {
	s.c.t.Helper()
	var names []string
	for _, object := range s.catalogue(name, uid).Objects {
		names = append(names, object.Name)
	}
	return names
}
