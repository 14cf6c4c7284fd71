package rbac_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/rest"

	"meridian.dev/meridian/kit/rbac"
)

// answering is a transport that needs no server.
type answering int

func (a answering) RoundTrip(request *http.Request) (*http.Response, error) {
	if a == 0 {
		return nil, errors.New("no connection")
	}
	return &http.Response{StatusCode: int(a), Body: io.NopCloser(strings.NewReader("")), Request: request}, nil
}

func TestRecorderReadsRequests(t *testing.T) {
	const pods = "/api/v1/namespaces/n/pods"
	for name, test := range map[string]struct {
		method, path string
		status       answering
		want         []rbac.Use
	}{
		"get":    {"GET", pods + "/p", 200, []rbac.Use{{"get", "", "pods", "n", "p"}}},
		"head":   {"HEAD", pods + "/p", 200, []rbac.Use{{"get", "", "pods", "n", "p"}}},
		"list":   {"GET", pods + "?labelSelector=a%3Db", 200, []rbac.Use{{"list", "", "pods", "n", ""}}},
		"watch":  {"GET", pods + "?watch=true", 200, []rbac.Use{{"watch", "", "pods", "n", ""}}},
		"watch1": {"GET", pods + "?watch=1", 200, []rbac.Use{{"watch", "", "pods", "n", ""}}},
		"list of all namespaces": {"GET", "/api/v1/pods", 200,
			[]rbac.Use{{"list", "", "pods", "", ""}}},
		"watch of one name": {"GET", pods + "?watch=true&fieldSelector=metadata.name%3Dp", 200,
			[]rbac.Use{{"watch", "", "pods", "n", "p"}}},
		"another field": {"GET", pods + "?fieldSelector=metadata.name%21%3Dp", 200,
			[]rbac.Use{{"list", "", "pods", "n", ""}}},
		"a broken selector": {"GET", pods + "?fieldSelector=%3D%3D%3D", 200, []rbac.Use{{"list", "", "pods", "n", ""}}},
		"create":            {"POST", pods, 201, []rbac.Use{{"create", "", "pods", "n", ""}}},
		"update":            {"PUT", pods + "/p", 200, []rbac.Use{{"update", "", "pods", "n", "p"}}},
		"patch":             {"PATCH", pods + "/p", 200, []rbac.Use{{"patch", "", "pods", "n", "p"}}},
		"an apply that creates": {"PATCH", pods + "/p?fieldManager=m", 201,
			[]rbac.Use{{"create", "", "pods", "n", "p"}, {"patch", "", "pods", "n", "p"}}},
		"an update that creates": {"PUT", "/apis/coordination.k8s.io/v1/namespaces/n/leases/l", 201,
			[]rbac.Use{{"create", "coordination.k8s.io", "leases", "n", "l"},
				{"update", "coordination.k8s.io", "leases", "n", "l"}}},
		"delete":            {"DELETE", pods + "/p", 200, []rbac.Use{{"delete", "", "pods", "n", "p"}}},
		"delete collection": {"DELETE", pods, 200, []rbac.Use{{"deletecollection", "", "pods", "n", ""}}},
		"delete collection of one name": {"DELETE", pods + "?fieldSelector=metadata.name%3Dp", 200,
			[]rbac.Use{{"deletecollection", "", "pods", "n", ""}}},
		"sub-resource":        {"PUT", pods + "/p/status", 200, []rbac.Use{{"update", "", "pods/status", "n", "p"}}},
		"evict":               {"POST", pods + "/p/eviction", 201, []rbac.Use{{"create", "", "pods/eviction", "n", "p"}}},
		"behind sub-resource": {"GET", pods + "/p/proxy/a/b", 200, []rbac.Use{{"get", "", "pods/proxy", "n", "p"}}},
		"group": {"GET", "/apis/apps/v1/namespaces/n/deployments/d/scale", 200,
			[]rbac.Use{{"get", "apps", "deployments/scale", "n", "d"}}},
		"without a namespace": {"GET", "/apis/storage.k8s.io/v1/storageclasses/fast", 200,
			[]rbac.Use{{"get", "storage.k8s.io", "storageclasses", "", "fast"}}},
		"namespaces":    {"GET", "/api/v1/namespaces", 200, []rbac.Use{{"list", "", "namespaces", "", ""}}},
		"one namespace": {"GET", "/api/v1/namespaces/n", 200, []rbac.Use{{"get", "", "namespaces", "n", "n"}}},
		"finalize a namespace": {"PUT", "/api/v1/namespaces/n/finalize", 200,
			[]rbac.Use{{"update", "", "namespaces/finalize", "n", "n"}}},
		"status of a namespace": {"GET", "/api/v1/namespaces/n/status", 200,
			[]rbac.Use{{"get", "", "namespaces/status", "n", "n"}}},
		"refused":        {"DELETE", pods + "/p", 403, []rbac.Use{{"delete", "", "pods", "n", "p"}}},
		"no connection":  {"PATCH", pods + "/p", 0, []rbac.Use{{"patch", "", "pods", "n", "p"}}},
		"discovery":      {"GET", "/apis/apps/v1", 200, nil},
		"core discovery": {"GET", "/api/v1", 200, nil},
		"health":         {"GET", "/readyz/ping/a/b", 200, nil},
		"root":           {"GET", "/", 200, nil},
		"no verb":        {"OPTIONS", pods, 200, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var recorder rbac.Recorder
			request := httptest.NewRequest(test.method, "https://server"+test.path, nil)
			_, err := recorder.Wrap(test.status).RoundTrip(request)
			if (err != nil) != (test.status == 0) {
				t.Error(err)
			}
			if diff := cmp.Diff(test.want, recorder.Uses()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestRecorderIsShared(t *testing.T) {
	var recorder rbac.Recorder
	var group sync.WaitGroup
	for _, path := range []string{"/api/v1/pods", "/api/v1/nodes", "/api/v1/services"} {
		client := recorder.Wrap(answering(200))
		for range 20 {
			group.Go(func() {
				_, _ = client.RoundTrip(httptest.NewRequest(http.MethodGet, path, nil))
				recorder.Uses()
			})
		}
	}
	group.Wait()
	want := []rbac.Use{{"list", "", "nodes", "", ""}, {"list", "", "pods", "", ""}, {"list", "", "services", "", ""}}
	if diff := cmp.Diff(want, recorder.Uses()); diff != "" {
		t.Error(diff)
	}
}

func FuzzRecorder(f *testing.F) {
	f.Add("GET", "/api/v1/namespaces/n/pods/p", "watch=true")
	f.Add("PATCH", "/apis/a//b//", "fieldSelector=metadata.name=")
	f.Fuzz(func(t *testing.T, method, path, query string) {
		var recorder rbac.Recorder
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.Method, request.URL.Path, request.URL.RawQuery = method, path, query
		if _, err := recorder.Wrap(answering(201)).RoundTrip(request); err != nil {
			t.Fatal(err)
		}
	})
}

// TestRealClient lets the real client make the requests, and audits them: a table
// that holds just these has neither too little nor too much.
func TestRealClient(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPatch {
			w.WriteHeader(http.StatusCreated)
		}
		_, _ = io.WriteString(w, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":"n"}}`)
	}))
	defer server.Close()
	var recorder rbac.Recorder
	config := &rest.Config{Host: server.URL}
	config.Wrap(recorder.Wrap)
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	deployments := client.Resource(schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"})
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "d", "namespace": "n"}}}
	in := deployments.Namespace("n")
	_, _ = in.Get(ctx, "d", metav1.GetOptions{})
	_, _ = deployments.List(ctx, metav1.ListOptions{})
	_, _ = in.UpdateStatus(ctx, object, metav1.UpdateOptions{})
	_, _ = in.Patch(ctx, "d", types.ApplyPatchType, []byte("{}"), metav1.PatchOptions{FieldManager: "m"})
	_ = in.Delete(ctx, "d", metav1.DeleteOptions{})

	row := rbac.Row{Scope: rbac.Watched, Group: "apps", Resource: "deployments", Why: "test", UsedBy: "test",
		Verbs: []string{"get", "list", "patch", "create", "delete"}}
	status := rbac.Row{Scope: rbac.Watched, Group: "apps", Resource: "deployments/status", Verbs: []string{"update"}}
	implied := rbac.Row{Scope: rbac.Watched, Group: "apps", Resource: "deployments/finalizers", Verbs: []string{"update"},
		Implied: true}
	uncovered, unused := rbac.Table{row, status, implied}.Audit(rbac.Installation{}, recorder.Uses())
	if len(uncovered) > 0 || len(unused) > 0 {
		t.Errorf("uncovered %v, unused %v", uncovered, unused)
	}

	// In a list of namespaces, the list over all of them is not covered.
	uncovered, _ = rbac.Table{row, status}.Audit(rbac.Installation{Namespaces: []string{"n"}}, recorder.Uses())
	if diff := cmp.Diff([]rbac.Use{{"list", "apps", "deployments", "", ""}}, uncovered); diff != "" {
		t.Error(diff)
	}
	row.Verbs = append(row.Verbs, "deletecollection")
	_, unused = rbac.Table{row, status}.Audit(rbac.Installation{}, recorder.Uses())
	if len(unused) != 1 || unused[0].Verb != "deletecollection" {
		t.Errorf("unused %v", unused)
	}
	// A home that is not known covers nothing.
	row.Scope = rbac.Home
	if uncovered, _ = (rbac.Table{row, status}).Audit(rbac.Installation{}, recorder.Uses()); len(uncovered) != 5 {
		t.Errorf("uncovered %v", uncovered)
	}
}

// TestSelfReviewer asks a server through the real client.
func TestSelfReviewer(t *testing.T) {
	var questions []authorizationv1.ResourceAttributes
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SelfSubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			t.Error(err)
		}
		question := *review.Spec.ResourceAttributes
		questions = append(questions, question)
		review.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: question.Verb == "get", EvaluationError: "unsure"}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	config := &rest.Config{Host: server.URL, QPS: -1}
	config.ContentType = "application/json"
	client, err := authorizationclient.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	reviewer := rbac.SelfReviewer(client.SelfSubjectAccessReviews())
	row := rbac.Row{Scope: rbac.Home, Resource: "pods/status", Verbs: []string{"get", "patch", "update"},
		Names: []string{"a", "b"}, Why: "tell", UsedBy: "status"}
	in := rbac.Installation{Home: "home"}

	missing, err := rbac.Preflight(context.Background(), reviewer, rbac.Table{row, row}, in)
	if err != nil {
		t.Fatal(err)
	}
	one := rbac.Missing{Row: row, Namespace: "home", Verbs: []string{"patch", "update"}, Reason: "unsure"}
	if diff := cmp.Diff([]rbac.Missing{one, one}, missing); diff != "" {
		t.Error(diff)
	}
	ask := func(verb, name string) authorizationv1.ResourceAttributes {
		return authorizationv1.ResourceAttributes{
			Namespace: "home", Verb: verb, Resource: "pods", Subresource: "status", Name: name}
	}
	// Each question is asked once, and no more about a verb that is refused.
	want := []authorizationv1.ResourceAttributes{ask("get", "a"), ask("get", "b"), ask("patch", "a"), ask("update", "a")}
	if diff := cmp.Diff(want, questions); diff != "" {
		t.Error(diff)
	}

	server.Close()
	_, err = rbac.Preflight(context.Background(), reviewer, rbac.Table{row}, in)
	if err == nil || !strings.HasPrefix(err.Error(),
		`ask for the right to get pods/status "a", "b" in namespace "home": create a`) {
		t.Errorf("without a server: %v", err)
	}
}

func TestPreflightRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		table rbac.Table
		want  string
	}{
		"a bad table":     {rbac.Table{{}}, "check the table of rights: row 1"},
		"an unknown home": {table, "the home namespace is not known"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := rbac.Preflight(context.Background(), readOnly{}, test.table, rbac.Installation{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}
