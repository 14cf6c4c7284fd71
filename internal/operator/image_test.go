package operator

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// TestOwnImage asks for the image of the own pod: another container's does not count, a process outside of the cluster
// has the one of the manifests, and a refusal is no guess.
func TestOwnImage(t *testing.T) {
	const mirrored = "registry.example/mirror/meridian:1.2"
	pod := corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Name: "operator-1"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			{Name: "proxy", Image: "proxy:1"}, {Name: "operator", Image: mirrored},
		}},
	}
	server := httptest.NewServer(http.HandlerFunc(func(answer http.ResponseWriter, asked *http.Request) {
		answer.Header().Set("Content-Type", "application/json")
		switch asked.URL.Path {
		case "/api/v1/namespaces/home/pods/operator-1":
			_ = json.NewEncoder(answer).Encode(pod)
		case "/api/v1/namespaces/home/pods/secret":
			answer.WriteHeader(http.StatusForbidden)
			_ = json.NewEncoder(answer).Encode(metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
				Reason: metav1.StatusReasonForbidden, Code: http.StatusForbidden,
			})
		default:
			answer.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(answer).Encode(metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure,
				Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound,
			})
		}
	}))
	t.Cleanup(server.Close)
	for name, test := range map[string]struct {
		pod, want string
		refused   bool
	}{
		"in a pod":       {pod: "operator-1", want: mirrored},
		"outside of one": {pod: "laptop", want: OwnImage},
		"not allowed":    {pod: "secret", refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ownImage(t.Context(), &rest.Config{Host: server.URL}, "home", test.pod)
			if got != test.want || (err != nil) != test.refused {
				t.Errorf("it is %q, %v; want %q", got, err, test.want)
			}
		})
	}
}
