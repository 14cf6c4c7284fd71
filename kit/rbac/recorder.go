package rbac

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/fields"
)

// Use is one kind of request that a program has made.
type Use struct {
	Verb      string
	Group     string
	Resource  string // With its sub-resource behind a slash.
	Namespace string // Empty for all namespaces, and for objects without one.
	Name      string // Empty where the request has none: on create, list and watch.
}

// String returns the use in the words of kubectl.
func (u Use) String() string {
	text := u.Verb + " " + qualified(u.Group, u.Resource)
	if u.Name != "" {
		text += fmt.Sprintf(" %q", u.Name)
	}
	if u.Namespace != "" {
		text += fmt.Sprintf(" in namespace %q", u.Namespace)
	}
	return text
}

// Recorder notes the rights that requests to an API server use. The zero Recorder
// is ready, and may be shared by any number of clients and goroutines.
type Recorder struct {
	mutex sync.Mutex
	uses  map[Use]bool
}

// Wrap returns a transport that notes each request and passes it on. Its shape is
// that of rest.Config.Wrap:
//
//	config.Wrap(recorder.Wrap)
func (r *Recorder) Wrap(next http.RoundTripper) http.RoundTripper {
	return transport{recorder: r, next: next}
}

// Uses returns what was noted so far, sorted.
func (r *Recorder) Uses() []Use {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return slices.SortedFunc(maps.Keys(r.uses), func(a, b Use) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Verb, b.Verb),
			cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

func (r *Recorder) note(use Use) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.uses == nil {
		r.uses = map[Use]bool{}
	}
	r.uses[use] = true
}

type transport struct {
	recorder *Recorder
	next     http.RoundTripper
}

// RoundTrip notes the request before it is sent: one that is refused has asked for
// the right all the same.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	use, found := parse(request)
	if found {
		t.recorder.note(use)
	}
	response, err := t.next.RoundTrip(request)
	if found && err == nil && response.StatusCode == http.StatusCreated && (use.Verb == "patch" || use.Verb == "update") {
		// An apply that finds nothing creates, and needs the right to do so too.
		use.Verb = "create"
		t.recorder.note(use)
	}
	return response, err
}

// parse finds the right that a request uses in its method and path. It reads them
// as an API server does whose address has no path of its own. Paths that are not
// about objects (discovery, health) need no right from a table, and are not found.
func parse(request *http.Request) (Use, bool) {
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	var use Use
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		use.Group, parts = parts[1], parts[3:]
	default:
		return Use{}, false
	}
	if len(parts) > 1 && parts[0] == "namespaces" {
		use.Namespace = parts[1]
		// Below a namespace are objects, except for what belongs to itself.
		if len(parts) > 2 && parts[2] != "status" && parts[2] != "finalize" {
			parts = parts[2:]
		}
	}
	use.Resource = parts[0]
	if len(parts) > 1 {
		use.Name = parts[1]
	}
	if len(parts) > 2 {
		use.Resource += "/" + parts[2]
	}
	use.Verb = verbOf(request, use.Name != "")
	if use.Verb == "list" || use.Verb == "watch" {
		use.Name = selectedName(request)
	}
	return use, use.Verb != ""
}

func verbOf(request *http.Request, named bool) string {
	switch request.Method {
	case http.MethodPost:
		return "create"
	case http.MethodPut:
		return "update"
	case http.MethodPatch:
		return "patch"
	case http.MethodDelete:
		if named {
			return "delete"
		}
		return "deletecollection"
	case http.MethodGet, http.MethodHead:
		watch := request.URL.Query().Get("watch")
		switch {
		case named:
			return "get"
		case watch == "true" || watch == "1":
			return "watch"
		}
		return "list"
	}
	return ""
}

// selectedName returns the one name that a list or a watch asks for. The API
// server takes it for the name of the request, so that a right which is restricted
// to this name suffices.
func selectedName(request *http.Request) string {
	selector, err := fields.ParseSelector(request.URL.Query().Get("fieldSelector"))
	if err != nil {
		return ""
	}
	name, _ := selector.RequiresExactMatch("metadata.name")
	return name
}
