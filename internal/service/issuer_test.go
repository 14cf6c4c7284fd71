package service_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/internal/service"
)

// TestPublished reads since when applications are told of what is stored. Whoever may write the Secret may write
// anything there, and a change must not wait for ever for it.
func TestPublished(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for told, settles := range map[string]time.Time{
		"": {}, "yesterday": {}, "2026-03-01T10:59:59Z": {}, "2027-03-01T12:00:00Z": {},
		"2026-03-01T11:30:00Z": now.Add(30 * time.Minute), "2026-03-01T12:30:00+01:00": now.Add(30 * time.Minute),
	} {
		app := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{service.AnnotationTold: told}}}
		app.Data = map[string][]byte{"ca.crt": []byte("roots")}
		facts := service.Certificates{Authorities: 1}
		facts.Published(app, []byte("roots"), time.Hour, now)
		if !facts.Settles.Equal(settles) || facts.Untold() == "" != settles.IsZero() || !facts.Again.Equal(settles) {
			t.Errorf("told %q: until %s, again at %s, %q", told, facts.Settles, facts.Again, facts.Untold())
		}
		facts.Published(app, []byte("other roots"), time.Hour, now)
		if !facts.Unpublished || facts.Untold() == "" {
			t.Errorf("told %q: that other roots are stored is not noticed", told)
		}
	}
}
