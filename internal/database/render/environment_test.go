package render_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/service"
)

func cacheWith(name, uri string) service.Cache {
	return service.Cache{Name: name, Secret: &corev1.Secret{Data: map[string][]byte{
		"uri": []byte(uri), "ro-uri": []byte(uri + "/ro"), "ca.crt": []byte("ca"),
	}}}
}

// TestEnvironment follows the Secret for applications through caches that come and go: each step begins with what the
// one before has left.
func TestEnvironment(t *testing.T) {
	secret := &corev1.Secret{Data: map[string][]byte{
		"uri": []byte("w"), "ro-uri": []byte("r"), "password": []byte("p"), "CACHE_URL__MINE": []byte("of a user"),
	}}
	tiles, routes := cacheWith("tiles", "one"), cacheWith("my-routes", "two")
	gone, unread := tiles, service.Cache{Name: "tiles", Problem: "it cannot be read"}
	gone.Deleting = true
	for _, step := range []struct {
		name   string
		caches []service.Cache
		want   []string
	}{
		{"an older Secret gets the addresses of the database", nil, []string{"+DATABASE_READ_URL", "+DATABASE_URL"}},
		{"nothing more", nil, nil},
		{"the address has another password", nil, []string{"~DATABASE_URL"}},
		{"a cache", []service.Cache{tiles}, []string{
			"+CACHE_CA", "+CACHE_CA__TILES", "+CACHE_READ_URL", "+CACHE_READ_URL__TILES", "+CACHE_URL", "+CACHE_URL__TILES",
		}},
		{"a second one", []service.Cache{routes, tiles}, []string{
			"+CACHE_CA__MY_ROUTES", "+CACHE_READ_URL__MY_ROUTES", "+CACHE_URL__MY_ROUTES",
		}},
		{"one cannot be read", []service.Cache{routes, unread}, nil},
		{"it has another password", []service.Cache{routes, cacheWith("tiles", "new")}, []string{
			"~CACHE_READ_URL", "~CACHE_READ_URL__TILES", "~CACHE_URL", "~CACHE_URL__TILES",
		}},
		{"the first one goes, and the second is the only one", []service.Cache{routes, gone}, []string{
			"-CACHE_CA__TILES", "~CACHE_READ_URL", "-CACHE_READ_URL__TILES", "~CACHE_URL", "-CACHE_URL__TILES",
		}},
		{"a name that a user has taken", []service.Cache{cacheWith("mine", "three"), routes}, []string{
			"+CACHE_CA__MINE", "+CACHE_READ_URL__MINE",
		}},
		{"all are gone", nil, []string{
			"-CACHE_CA", "-CACHE_CA__MINE", "-CACHE_CA__MY_ROUTES", "-CACHE_READ_URL", "-CACHE_READ_URL__MINE",
			"-CACHE_READ_URL__MY_ROUTES", "-CACHE_URL", "-CACHE_URL__MY_ROUTES",
		}},
	} {
		if strings.HasPrefix(step.name, "the address has") {
			secret.Data["uri"] = []byte("w2")
		}
		after := render.Environment(secret, step.caches)
		if diff := cmp.Diff(step.want, render.KeyChanges(secret, after)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
		secret = after
	}
	const own = `{"DATABASE_READ_URL":"","DATABASE_URL":""}`
	if got := secret.Annotations[database.AnnotationBound]; got != own {
		t.Errorf("keys are said to be ours: %s", got)
	}
	if got := string(secret.Data["CACHE_URL__MINE"]); got != "of a user" {
		t.Errorf("the key of a user is %q", got)
	}
}

// TestSpoiltMark leaves everything as it is when nobody can tell any more which keys are ours.
func TestSpoiltMark(t *testing.T) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{database.AnnotationBound: "?"}},
		Data:       map[string][]byte{"CACHE_URL": []byte("before")},
	}
	after := render.Environment(secret, []service.Cache{cacheWith("tiles", "one")})
	if got := string(after.Data["CACHE_URL"]); got != "before" {
		t.Errorf("CACHE_URL is %q", got)
	}
}
