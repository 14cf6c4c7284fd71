package rbac

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Installation says where a program runs and where it works.
type Installation struct {
	// Name is given to all roles and bindings. Two installations in one cluster
	// need two names, because some of the objects have no namespace.
	Name string
	// Home is the namespace that the program runs in.
	Home string
	// ServiceAccount is the account in Home that it runs as.
	ServiceAccount string
	// Namespaces are those that it works in; none means all.
	Namespaces []string
	// Labels are put on all objects.
	Labels map[string]string
}

// everywhere stands for all namespaces, and for objects without a namespace.
const everywhere = ""

func (i Installation) check() error {
	var problems []error
	for _, field := range []struct{ name, value string }{
		{"name", i.Name}, {"home namespace", i.Home}, {"service account", i.ServiceAccount},
	} {
		if wrong := validation.IsDNS1123Subdomain(field.value); len(wrong) > 0 {
			problems = append(problems, fmt.Errorf("the %s %q is not valid: %s", field.name, field.value, wrong[0]))
		}
	}
	for _, namespace := range i.Namespaces {
		if wrong := validation.IsDNS1123Label(namespace); len(wrong) > 0 {
			problems = append(problems, fmt.Errorf("the namespace %q is not valid: %s", namespace, wrong[0]))
		}
	}
	return errors.Join(problems...)
}

// places returns the namespaces in which a scope needs its rights, sorted. A home
// that is not known is no place at all: it must never be taken for all of them.
func (i Installation) places(scope Scope) []string {
	switch {
	case scope == Home && i.Home == "":
		return nil
	case scope == Home:
		return []string{i.Home}
	case scope == Watched && len(i.Namespaces) > 0:
		return slices.Compact(slices.Sorted(slices.Values(i.Namespaces)))
	}
	return []string{everywhere}
}

// right is the smallest piece of a table: one verb on one resource, for one name
// or for all.
type right struct {
	group, resource, verb, name string
}

func (r Row) rights() []right {
	var rights []right
	for _, verb := range r.Verbs {
		for _, name := range namesOrAll(r.Names) {
			rights = append(rights, right{r.Group, r.Resource, verb, name})
		}
	}
	return rights
}

func namesOrAll(names []string) []string {
	if len(names) == 0 {
		return []string{""}
	}
	return names
}

// covers reports whether having r makes it needless to have other.
func (r right) covers(other right) bool {
	if r.name == "" {
		other.name = ""
	}
	return r == other
}

// granted returns the rights that the table needs in each place, without those
// that a wider right, or the same right everywhere, already gives.
func (t Table) granted(in Installation) map[string][]right {
	granted := map[string][]right{}
	for _, row := range t {
		for _, place := range in.places(row.Scope) {
			granted[place] = append(granted[place], row.rights()...)
		}
	}
	minimal := map[string][]right{}
	for place, rights := range granted {
		for _, one := range rights {
			needless := slices.Contains(minimal[place], one) || coveredByOther(rights, one)
			if place != everywhere {
				needless = needless || slices.ContainsFunc(granted[everywhere], func(r right) bool { return r.covers(one) })
			}
			if !needless {
				minimal[place] = append(minimal[place], one)
			}
		}
	}
	return minimal
}

func coveredByOther(rights []right, one right) bool {
	return slices.ContainsFunc(rights, func(r right) bool { return r != one && r.covers(one) })
}

// compareTexts orders lists of texts as a dictionary would.
func compareTexts(a, b []string) int {
	return slices.CompareFunc(a, b, strings.Compare)
}
