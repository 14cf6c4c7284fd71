//go:build cluster

// Package api_test holds the definitions, their rules and the webhook against a real API server, through the same doors
// that users have: kubectl and the REST API.
//
// The tests are behind the build tag cluster, because they need the programs of Kubernetes; they need no root and no
// nodes. All of them share one API server, and each has a namespace of its own. Start reading at rules_test.go.
package api_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/test/apiserver"
)

// server and cluster are shared: they are made once, and nothing that a test does in its namespace is seen by another.
var (
	server  *apiserver.Server
	cluster client.Client
)

var crds = filepath.Join("..", "..", "deploy", "crds")

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx := context.Background()
	log.SetLogger(logr.Discard())
	started, err := apiserver.Start(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	server = started
	code := 1
	if err := prepare(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, "last lines of the API server:\n"+started.Log("kube-apiserver"))
	}
	if err := started.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// prepare installs the definitions in the way that most users do, with plain `kubectl apply`, and makes two storage
// classes: fast is the default and can grow, slow is and can neither.
func prepare(ctx context.Context) error {
	if output, ok := server.Kubectl(ctx, "", "apply", "-f", crds); !ok {
		return errors.New(output)
	}
	output, ok := server.Kubectl(ctx, "", "wait", "--for=condition=Established", "--timeout=60s", "-f", crds)
	if !ok {
		return errors.New(output)
	}
	kinds := runtime.NewScheme()
	if err := errors.Join(clientscheme.AddToScheme(kinds), v1alpha1.AddToScheme(kinds)); err != nil {
		return err
	}
	made, err := client.New(server.Config, client.Options{Scheme: kinds})
	if err != nil {
		return err
	}
	cluster = made
	return errors.Join(
		cluster.Create(ctx, &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{
				Name: "fast", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
			},
			Provisioner: "test.invalid/fast", AllowVolumeExpansion: new(true),
		}),
		cluster.Create(ctx, &storagev1.StorageClass{
			ObjectMeta: metav1.ObjectMeta{Name: "slow"}, Provisioner: "test.invalid/slow",
		}),
	)
}

// newNamespace returns a namespace that only this test uses.
func newNamespace(t *testing.T) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	if err := cluster.Create(t.Context(), namespace); err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}

// kubectl runs kubectl in a namespace.
func kubectl(t *testing.T, namespace, input string, args ...string) (output string, ok bool) {
	t.Helper()
	return server.Kubectl(t.Context(), input, append([]string{"--namespace", namespace}, args...)...)
}

// mustKubectl is for steps that are not what a test is about.
func mustKubectl(t *testing.T, namespace, input string, args ...string) string {
	t.Helper()
	output, ok := kubectl(t, namespace, input, args...)
	if !ok {
		t.Fatalf("kubectl %s: %s", strings.Join(args, " "), output)
	}
	return output
}

// object reads a manifest. The kind is given, and the name is cities unless it says otherwise.
func object(t *testing.T, kind, namespace, manifest string) *unstructured.Unstructured {
	t.Helper()
	content := map[string]any{}
	if err := yaml.Unmarshal([]byte(manifest), &content); err != nil {
		t.Fatalf("parse %q: %v", manifest, err)
	}
	result := &unstructured.Unstructured{Object: content}
	result.SetAPIVersion(v1alpha1.GroupVersion.String())
	result.SetKind(kind)
	result.SetNamespace(namespace)
	if result.GetName() == "" {
		result.SetName("cities")
	}
	return result
}
