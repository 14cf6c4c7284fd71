//go:build cluster

package e2e_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/hack/demo/store"
	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/open"
	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/wire"
)

const (
	storeName = store.Name
	bucket    = store.Bucket
	keyName   = "rivers-backup-key"
)

// objectStore is an S3 server in a namespace of the tests, or a claim, and a key for what is kept there.
type objectStore struct {
	c         *cluster
	namespace string
	key       string
	// of is the namespace of the databases that are kept there, if it is another one.
	of string
	// folder is where the content of the claim is on this machine, empty for a server.
	folder string
}

// newStore starts the server, with TLS. It is waited for by nobody: a database begins without its repository.
func newStore(c *cluster, namespace string) *objectStore {
	c.t.Helper()
	if !shared() {
		c.sandbox("image", "build", "s3", "--load")
	}
	c.kubectl("apply", "-n", namespace, "-f", store.Manifest)
	s := &objectStore{c: c, namespace: namespace}
	// The pod waits for its Secrets, and the certificate is for the address too, by which the tests come.
	secrets, err := store.Secrets(namespace, keyName, netip.MustParseAddr(s.address()))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, secret := range secrets {
		if secret.Name == keyName {
			s.key = secret.StringData[v1alpha1.KeyIdentity]
		}
		if err := c.Create(c.t.Context(), secret); err != nil {
			c.t.Fatal(err)
		}
	}
	return s
}

// address is that of the Service.
func (s *objectStore) address() string {
	s.c.t.Helper()
	var service corev1.Service
	if err := s.c.Get(s.c.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: storeName}, &service); err != nil {
		s.c.t.Fatal(err)
	}
	return service.Spec.ClusterIP
}

// newKey is a file of age-keygen.
func newKey(t *testing.T) string {
	t.Helper()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return identity.String() + "\n"
}

// backup is what a user writes to have a database kept there.
func (s *objectStore) backup() *v1alpha1.Backup {
	if s.folder != "" {
		return &v1alpha1.Backup{Repository: v1alpha1.Repository{
			Claim:      &v1alpha1.ClaimRepository{Name: claimName, Prefix: "geo"},
			Encryption: v1alpha1.Encryption{Key: &v1alpha1.SecretReference{Name: keyName}},
		}}
	}
	return &v1alpha1.Backup{Repository: v1alpha1.Repository{
		S3: &v1alpha1.S3Repository{
			Bucket: bucket, Prefix: "geo", Endpoint: fmt.Sprintf("https://%s.%s.svc:7070", storeName, s.namespace),
			Credentials: v1alpha1.SecretReference{Name: store.Credentials},
		},
		Encryption: v1alpha1.Encryption{Key: &v1alpha1.SecretReference{Name: keyName}},
	}}
}

// scale takes the server away, or brings it back.
func (s *objectStore) scale(replicas int) {
	s.c.t.Helper()
	s.c.kubectl("-n", s.namespace, "scale", "deployment/"+storeName, fmt.Sprintf("--replicas=%d", replicas))
	s.c.until(fmt.Sprintf("the S3 server has %d pods", replicas), 2*time.Minute, func(ctx context.Context) (bool, string) {
		var deployment appsv1.Deployment
		key := client.ObjectKey{Namespace: s.namespace, Name: storeName}
		err := s.c.Get(ctx, key, &deployment)
		status := deployment.Status
		return err == nil && int(status.Replicas) == replicas && int(status.ReadyReplicas) == replicas &&
			status.ObservedGeneration == deployment.Generation, fmt.Sprintf("%+v %v", status, err)
	})
}

// node is where the server runs.
func (s *objectStore) node() string {
	s.c.t.Helper()
	var pods corev1.PodList
	err := s.c.List(s.c.t.Context(), &pods, client.InNamespace(s.namespace),
		client.MatchingLabels{"app.kubernetes.io/name": storeName})
	if err != nil || len(pods.Items) != 1 {
		s.c.t.Fatalf("the S3 server has %d pods: %v", len(pods.Items), err)
	}
	return pods.Items[0].Spec.NodeName
}

// setSecret replaces keys of a Secret, and returns what puts those of before back.
func (s *objectStore) setSecret(name string, values map[string]string) (undo func()) {
	s.c.t.Helper()
	set := func(data map[string][]byte) map[string][]byte {
		var secret corev1.Secret
		if err := s.c.Get(s.c.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, &secret); err != nil {
			s.c.t.Fatal(err)
		}
		before := maps.Clone(secret.Data)
		maps.Copy(secret.Data, data)
		if err := s.c.Update(s.c.t.Context(), &secret); err != nil {
			s.c.t.Fatal(err)
		}
		return before
	}
	data := map[string][]byte{}
	for key, value := range values {
		data[key] = []byte(value)
	}
	before := set(data)
	return func() { set(before) }
}

// open opens the repository of a database from outside of the cluster, as another cluster would.
func (s *objectStore) open(name string, uid types.UID) *repository.Repository {
	s.c.t.Helper()
	if s.folder != "" {
		return s.openFolder(name, uid)
	}
	var secret corev1.Secret
	key := client.ObjectKey{Namespace: s.namespace, Name: store.Credentials}
	if err := s.c.Get(s.c.t.Context(), key, &secret); err != nil {
		s.c.t.Fatal(err)
	}
	folder := s.c.t.TempDir()
	for file, content := range map[string]string{
		wire.KeyS3AccessKey:      string(secret.Data[v1alpha1.KeyAccessKeyID]),
		wire.KeyS3SecretKey:      string(secret.Data[v1alpha1.KeySecretAccessKey]),
		wire.KeyStoreAuthority:   string(secret.Data[v1alpha1.KeyAuthority]),
		wire.KeyBackupIdentities: s.key,
	} {
		if err := os.WriteFile(filepath.Join(folder, file), []byte(content), 0o600); err != nil {
			s.c.t.Fatal(err)
		}
	}
	found, err := (&open.Opener{Folder: folder}).Repository(wire.Repository{Encrypted: true, S3: &wire.S3Bucket{
		Bucket: bucket, Prefix: "geo", Endpoint: "https://" + s.address() + ":7070", Region: "us-east-1",
		PathStyle: true,
	}}, backup.Root("geo", cmp.Or(s.of, s.namespace), name, string(uid)))
	if err != nil {
		s.c.t.Fatal(err)
	}
	return found
}

// catalogue reads the repository of a database.
func (s *objectStore) catalogue(name string, uid types.UID) *backup.Catalogue {
	s.c.t.Helper()
	found, err := s.open(name, uid).Catalogue(s.c.t.Context())
	if err != nil {
		s.c.t.Fatalf("read the repository: %v", err)
	}
	return &found
}

// checkWhole reads the repository, and finds that one backup at least leads without a gap to a place in the log.
func (s *objectStore) checkWhole(name string, uid types.UID, lsn string) {
	s.c.t.Helper()
	var catalogue *backup.Catalogue
	s.c.until("the repository has the log up to "+lsn, time.Minute, func(context.Context) (bool, string) {
		catalogue = s.catalogue(name, uid)
		windows := plan.Windows(catalogue)
		return slices.ContainsFunc(windows, func(found plan.Window) bool {
			return uint64(found.Until) >= place(s.c.t, lsn)
		}), fmt.Sprintf("%+v", windows)
	})
	for _, log := range catalogue.Logs {
		if len(log.Gaps) > 0 {
			s.c.t.Errorf("timeline %d has gaps: %+v", log.Timeline, log.Gaps)
		}
	}
	lines := make([]string, 0, len(catalogue.Logs))
	for _, log := range catalogue.Logs {
		lines = append(lines, fmt.Sprintf("timeline %d: %d segments, %d tails", log.Timeline, len(log.Segments),
			len(log.Tails)))
	}
	s.c.t.Logf("the repository has %d base backups and the log up to %s; %s", len(catalogue.Backups), lsn,
		strings.Join(lines, "; "))
}

// place understands a place in the log.
func place(t *testing.T, text string) uint64 {
	t.Helper()
	var high, low uint64
	if _, err := fmt.Sscanf(text, "%X/%X", &high, &low); err != nil {
		t.Fatalf("%q is no LSN: %v", text, err)
	}
	return high<<32 | low
}
