package metrics_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authenticationclient "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"

	"meridian.dev/meridian/internal/metrics"
)

// tokens knows every token but those called stranger, and fails for one called broken.
type tokens struct {
	authenticationclient.TokenReviewInterface
	asked int
}

func (t *tokens) Create(_ context.Context, review *authenticationv1.TokenReview, _ metav1.CreateOptions) (
	*authenticationv1.TokenReview, error,
) {
	t.asked++
	if review.Spec.Token == "broken" {
		return nil, errors.New("away")
	}
	review.Status.Authenticated = review.Spec.Token != "stranger"
	review.Status.User.Username = review.Spec.Token
	return review, nil
}

// rights lets prometheus get /metrics, and nobody else anything.
type rights struct {
	authorizationclient.SubjectAccessReviewInterface
	revoked bool
}

func (r *rights) Create(_ context.Context, review *authorizationv1.SubjectAccessReview, _ metav1.CreateOptions) (
	*authorizationv1.SubjectAccessReview, error,
) {
	asked := review.Spec.NonResourceAttributes
	review.Status.Allowed = !r.revoked && review.Spec.User == "prometheus" && asked.Verb == "get" &&
		asked.Path == "/metrics"
	return review, nil
}

func TestGate(t *testing.T) {
	now := time.Unix(1000, 0)
	known, may := &tokens{}, &rights{}
	gate := &metrics.Gate{Tokens: known, Rights: may, Now: func() time.Time { return now }}
	inner := http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) { _, _ = out.Write([]byte("tenants")) })
	call := func(method, path, authorization string) int {
		request := httptest.NewRequestWithContext(t.Context(), method, path, nil)
		if authorization != "" {
			request.Header.Set("Authorization", authorization)
		}
		out := httptest.NewRecorder()
		gate.Wrap(inner).ServeHTTP(out, request)
		if (out.Body.String() == "tenants") != (out.Code == http.StatusOK) {
			t.Errorf("%s %s by %q: %d with %q", method, path, authorization, out.Code, out.Body)
		}
		return out.Code
	}
	for name, one := range map[string]struct {
		method, path, authorization string
		want                        int
	}{
		"nobody":           {"GET", "/metrics", "", http.StatusUnauthorized},
		"a password":       {"GET", "/metrics", "Basic cHJvbWV0aGV1czp4", http.StatusUnauthorized},
		"no token":         {"GET", "/metrics", "Bearer ", http.StatusUnauthorized},
		"a stranger":       {"GET", "/metrics", "Bearer stranger", http.StatusUnauthorized},
		"a tenant":         {"GET", "/metrics", "Bearer tenant", http.StatusForbidden},
		"another path":     {"GET", "/debug/pprof", "Bearer prometheus", http.StatusForbidden},
		"who may":          {"GET", "/metrics", "Bearer prometheus", http.StatusOK},
		"who may, a write": {"POST", "/metrics", "Bearer prometheus", http.StatusUnauthorized},
		"nobody to ask":    {"GET", "/metrics", "Bearer broken", http.StatusServiceUnavailable},
	} {
		if got := call(one.method, one.path, one.authorization); got != one.want {
			t.Errorf("%s is answered by %d, want %d", name, got, one.want)
		}
	}
	before := known.asked
	if call("GET", "/metrics", "Bearer prometheus") != http.StatusOK || known.asked != before {
		t.Errorf("each scrape asks the API server anew: %d", known.asked-before)
	}
	may.revoked = true
	now = now.Add(2 * time.Minute)
	if got := call("GET", "/metrics", "Bearer prometheus"); got != http.StatusForbidden {
		t.Errorf("a right that was taken away still holds: %d", got)
	}
}
