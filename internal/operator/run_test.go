//go:build cluster

package operator_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/operator"
	"meridian.dev/meridian/test/apiserver"
)

// log is written by the operator and read by the test.
type log struct {
	lock sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(line []byte) (int, error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.text.Write(line)
}

func (l *log) String() string {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.text.String()
}

// TestScopes runs the whole operator over two of three namespaces, with the rights for these two and no others.
func TestScopes(t *testing.T) {
	server, err := apiserver.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	}()
	admin := prepare(t, server.Config)
	options := operator.Defaults()
	options.Namespaces = []string{"roses", "tulips"}
	options.MetricsAddress, options.ProbeAddress, options.Webhook = "0", "0", false
	config := rest.CopyConfig(server.Config)
	config.Impersonate.UserName = "system:serviceaccount:" + operator.HomeNamespace + ":" + operator.Name

	// Without rights it stops before anything starts, and names each of them.
	var output log
	err = operator.Run(t.Context(), config, options, &output)
	for _, want := range []string{
		`may not get, list, watch pods in namespace "roses"`, `secrets in namespace "tulips"`, "`meridian rbac`",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("without rights: %v; want %q in it", err, want)
		}
	}

	objects, err := operator.Rights(options.Home, false).Objects(operator.Installation(options.Home, options.Namespaces))
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		create(t, admin, object.(client.Object))
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- operator.Run(ctx, config, options, &output) }()
	for _, namespace := range []string{"roses", "tulips", "weeds"} {
		create(t, admin, &v1alpha1.GeoDatabase{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "cities"},
			Spec:       v1alpha1.GeoDatabaseSpec{Instances: 1, Storage: v1alpha1.Storage{Size: resource.MustParse("1Gi")}},
		})
	}
	for _, namespace := range options.Namespaces {
		await(t, admin, namespace, ended, &output)
	}
	var claims corev1.PersistentVolumeClaimList
	if err := admin.List(t.Context(), &claims, client.InNamespace("weeds")); err != nil || len(claims.Items) > 0 {
		t.Errorf("in a namespace that was not named: %d claims, %v", len(claims.Items), err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the operator ended with %v", err)
	}
}

func prepare(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	admin, err := client.New(config, client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{operator.HomeNamespace, "roses", "tulips", "weeds"} {
		create(t, admin, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	create(t, admin, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{
			Name: "disk", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
		},
		Provisioner: "example.com/disk",
	})
	for _, kind := range []string{"geodatabases", "geocaches"} {
		content, err := os.ReadFile(filepath.Join("..", "..", "deploy", "crds", "meridian.dev_"+kind+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		definition := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(content, &definition.Object); err != nil {
			t.Fatal(err)
		}
		create(t, admin, definition)
	}
	served := func() bool {
		return admin.List(t.Context(), &v1alpha1.GeoDatabaseList{}) == nil &&
			admin.List(t.Context(), &v1alpha1.GeoCacheList{}) == nil
	}
	for start := time.Now(); !served(); time.Sleep(50 * time.Millisecond) {
		if time.Since(start) > 20*time.Second {
			t.Fatal("the definition is not served")
		}
	}
	return admin
}

func create(t *testing.T, admin client.Client, object client.Object) {
	t.Helper()
	if err := admin.Create(t.Context(), object); err != nil {
		t.Fatalf("create %T %s: %v", object, object.GetName(), err)
	}
}

// await waits for the last child that can be made without nodes.
func await(t *testing.T, admin client.Client, namespace string, ended <-chan error, output *log) {
	t.Helper()
	key := client.ObjectKey{Namespace: namespace, Name: "cities-app"}
	for start := time.Now(); admin.Get(t.Context(), key, &corev1.Secret{}) != nil; time.Sleep(50 * time.Millisecond) {
		select {
		case err := <-ended:
			t.Fatalf("the operator ended before it had done anything in %s: %v", namespace, err)
		default:
		}
		if time.Since(start) > 40*time.Second {
			t.Fatalf("no credentials in %s; the operator says:\n%s", namespace, output)
		}
	}
}
