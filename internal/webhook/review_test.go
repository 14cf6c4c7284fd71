package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/admit"
	nouns "meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/webhook"
)

// shelf answers two kinds of lists, or fails.
type shelf struct {
	client.Reader

	classes         []storagev1.StorageClass
	claims          []corev1.PersistentVolumeClaim
	noClass, noList error
}

func (s shelf) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	switch into := into.(type) {
	case *storagev1.StorageClassList:
		into.Items = s.classes
		return s.noClass
	case *corev1.PersistentVolumeClaimList:
		into.Items = s.claims
		return s.noList
	}
	return errors.New("nobody asks for this")
}

func review(t *testing.T, reader client.Reader, path string, request *admissionv1.AdmissionRequest) (
	*admissionv1.AdmissionResponse, int,
) {
	t.Helper()
	body, err := json.Marshal(admissionv1.AdmissionReview{Request: request})
	if err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	call := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
	webhook.Handler(reader).ServeHTTP(recorder, call)
	if recorder.Code != http.StatusOK {
		return nil, recorder.Code
	}
	answer := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(recorder.Body.Bytes(), answer); err != nil {
		t.Fatal(err)
	}
	return answer.Response, recorder.Code
}

const (
	databases = "/validate/geodatabase"
	caches    = "/validate/geocache"
)

func raw(text string) runtime.RawExtension { return runtime.RawExtension{Raw: []byte(text)} }

func TestReview(t *testing.T) {
	const good, bad = `{"spec":{"version":"17"}}`, `{"spec":{"version":"17","parameters":{"work_mem":"x"}}}`
	tests := map[string]struct {
		path      string
		operation admissionv1.Operation
		old, new  string
		field     string // of the only cause; empty if it is allowed
	}{
		"good database":        {databases, admissionv1.Create, "", good, ""},
		"bad database":         {databases, admissionv1.Create, "", bad, "spec.parameters.work_mem"},
		"database becomes bad": {databases, admissionv1.Update, good, bad, "spec.parameters.work_mem"},
		"database stays bad":   {databases, admissionv1.Update, bad, bad, ""},
		"good cache":           {caches, admissionv1.Create, "", `{"spec":{"databaseRef":{"name":"a"}}}`, ""},
		"cache of another space": {
			caches, admissionv1.Create, "", `{"spec":{"databaseRef":{"name":"a/b"}}}`, "spec.databaseRef.name",
		},
		"cache stays bad": {
			caches, admissionv1.Update, `{"spec":{"databaseRef":{"name":"a/b"}}}`,
			`{"spec":{"databaseRef":{"name":"a/b"}}}`, "",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			answer, _ := review(t, shelf{noClass: errors.New("away")}, test.path, &admissionv1.AdmissionRequest{
				UID: "7", Operation: test.operation, Object: raw(test.new), OldObject: raw(orNull(test.old)),
			})
			if answer == nil || answer.UID != "7" || answer.Allowed != (test.field == "") {
				t.Fatalf("answer is %+v", answer)
			}
			if test.field == "" {
				return
			}
			causes := answer.Result.Details.Causes
			if len(causes) != 1 || causes[0].Field != test.field || !strings.HasPrefix(answer.Result.Message,
				test.field+": ") {
				t.Errorf("result is %+v", answer.Result)
			}
		})
	}
}

func orNull(text string) string {
	if text == "" {
		return "null"
	}
	return text
}

// TestNonsense: what is no review is an error of the protocol, which the API server takes for a webhook that is away.
func TestNonsense(t *testing.T) {
	for name, request := range map[string]*admissionv1.AdmissionRequest{
		"no request":    nil,
		"no object":     {Operation: admissionv1.Create, Object: raw(`7`)},
		"no old object": {Operation: admissionv1.Update, Object: raw(`{}`), OldObject: raw(`7`)},
	} {
		t.Run(name, func(t *testing.T) {
			if _, code := review(t, shelf{}, databases, request); code != http.StatusBadRequest {
				t.Errorf("status is %d", code)
			}
		})
	}
	if _, code := review(t, shelf{}, "/elsewhere", nil); code != http.StatusNotFound {
		t.Errorf("status of another address is %d", code)
	}
}

func TestFactsThatCannotBeRead(t *testing.T) {
	classes := []storagev1.StorageClass{{ObjectMeta: metav1.ObjectMeta{Name: "fast"}}}
	request := &admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Name: "cities",
		Object: raw(`{"spec":{"version":"17","storage":{"size":"1Gi","class":"nowhere"}}}`),
	}
	tests := map[string]struct {
		shelf   shelf
		allowed bool
	}{
		"all known":       {shelf{classes: classes}, false},
		"classes unknown": {shelf{noClass: errors.New("away")}, true},
		"claims unknown":  {shelf{classes: classes, noList: errors.New("away")}, true},
		"claims are there": {shelf{classes: classes, claims: []corev1.PersistentVolumeClaim{
			{ObjectMeta: metav1.ObjectMeta{Name: "cities-1"}},
		}}, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			answer, _ := review(t, test.shelf, databases, request)
			if answer == nil || answer.Allowed != test.allowed {
				t.Errorf("answer is %+v", answer)
			}
		})
	}
}

func TestFacts(t *testing.T) {
	classes := webhook.ClassFacts([]storagev1.StorageClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "slow"}},
		{
			ObjectMeta: metav1.ObjectMeta{
				Name: "fast", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"},
			},
			AllowVolumeExpansion: new(true),
		},
	})
	want := []admit.StorageClass{{Name: "slow"}, {Name: "fast", Default: true, Expandable: true}}
	if diff := cmp.Diff(want, classes); diff != "" {
		t.Errorf("classes differ (-want +got):\n%s", diff)
	}
}

// claimsOf are the claims that are really made for a database of one instance, and one that somebody else made.
func claimsOf(t *testing.T, spec string) []corev1.PersistentVolumeClaim {
	t.Helper()
	object := nouns.Snapshot{
		Identity: nouns.Identity{Namespace: "gis", Name: "cities", UID: "u"},
		Images:   nouns.Images{Agent: "agent", Server: "server"},
	}
	if err := json.Unmarshal([]byte(spec), &object.Spec); err != nil {
		t.Fatal(err)
	}
	object.Spec.Bootstrap.Database, object.Spec.Bootstrap.Owner = "app", "app" // As the schema defaults it.
	children, err := render.Children(design.Of(object))
	if err != nil {
		t.Fatal(err)
	}
	made := []corev1.PersistentVolumeClaim{{
		ObjectMeta: metav1.ObjectMeta{Name: "copies", Labels: map[string]string{nouns.LabelDatabase: "cities"}},
	}}
	for _, child := range children {
		if claim, ok := child.Object.(*corev1.PersistentVolumeClaim); ok {
			made = append(made, *claim)
		}
	}
	return made
}

const withLogVolume = `{"version":"17","instances":1,"storage":{"size":"1Gi","walSize":"2Gi","class":"fast"}}`

func TestClaimsAreRecognised(t *testing.T) {
	want := []admit.Claim{
		{Name: "cities-1", Class: "fast", Size: resource.MustParse("1Gi")},
		{Name: "cities-1-wal", Class: "fast", Size: resource.MustParse("2Gi"), WAL: true},
	}
	if diff := cmp.Diff(want, webhook.ClaimFacts("cities", claimsOf(t, withLogVolume))); diff != "" {
		t.Errorf("claims differ (-want +got):\n%s", diff)
	}
}

// TestDatabaseComesBackWithItsLogVolume: the claims that a deleted database has left are those that the new one asks
// for. A size that they do not have is refused by the field that asks for it, and no claim is advised to be deleted.
func TestDatabaseComesBackWithItsLogVolume(t *testing.T) {
	shelf := shelf{claims: claimsOf(t, withLogVolume)}
	for size, field := range map[string]string{"2Gi": "", "1Gi": "spec.storage.walSize"} {
		answer, _ := review(t, shelf, databases, &admissionv1.AdmissionRequest{
			Operation: admissionv1.Create, Namespace: "gis", Name: "cities",
			Object: raw(`{"spec":{"version":"17","instances":1,"storage":{"size":"1Gi","walSize":"` + size +
				`","class":"fast","adopt":"u"}}}`),
		})
		switch {
		case answer == nil || answer.Allowed != (field == ""):
			t.Errorf("with %s the answer is %+v", size, answer)
		case field == "":
		case answer.Result.Details.Causes[0].Field != field || strings.Contains(answer.Result.Message, "delete"):
			t.Errorf("with %s the refusal is %q", size, answer.Result.Message)
		}
	}
}

func TestInstalledObjects(t *testing.T) {
	configuration := webhook.Configuration("home", []string{"a", "b"})
	if configuration.Name != "meridian-webhook.home" || len(configuration.Webhooks) != 2 {
		t.Fatalf("configuration is %+v", configuration)
	}
	for _, one := range configuration.Webhooks {
		if *one.FailurePolicy != "Ignore" || one.ClientConfig.CABundle != nil || *one.TimeoutSeconds > 5 {
			t.Errorf("%s is %+v", one.Name, one)
		}
		if diff := cmp.Diff([]string{"a", "b"}, one.NamespaceSelector.MatchExpressions[0].Values); diff != "" {
			t.Errorf("namespaces differ (-want +got):\n%s", diff)
		}
		service := one.ClientConfig.Service
		if service.Namespace != "home" || service.Name != webhook.Service("home", nil).Name {
			t.Errorf("%s asks %+v", one.Name, service)
		}
	}
	if everywhere := webhook.Configuration("home", nil).Webhooks[0].NamespaceSelector; everywhere != nil {
		t.Errorf("without namespaces the selector is %v", everywhere)
	}
	if err := webhook.Rights("home").Check(); err != nil {
		t.Error(err)
	}
}

func TestLifetimesAreChecked(t *testing.T) {
	if _, err := webhook.New(webhook.Options{Home: "home"}); err != nil {
		t.Errorf("the usual lifetimes are refused: %v", err)
	}
	if _, err := webhook.New(webhook.Options{Home: "home", Lifetimes: &webhook.Lifetimes{Authority: 1}}); err == nil {
		t.Error("lifetimes of nothing are taken")
	}
	server, err := webhook.New(webhook.Options{Home: "home"})
	if err != nil || server.Ready(nil) == nil || server.NeedLeaderElection() {
		t.Errorf("a new webhook is ready, or waits for an election: %v", err)
	}
}
