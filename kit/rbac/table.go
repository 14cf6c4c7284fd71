package rbac

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Scope says where a right is needed.
type Scope string

const (
	// Watched is needed in each namespace that the program works in.
	Watched Scope = "Watched"
	// Home is needed in the namespace that the program itself runs in, for its own
	// lease or its own certificates.
	Home Scope = "Home"
	// Cluster is needed for objects that have no namespace.
	Cluster Scope = "Cluster"
)

// Row is one line of the table: some verbs on one resource.
type Row struct {
	// Scope says where the right is needed.
	Scope Scope
	// Group is the API group, empty for the core group.
	Group string
	// Resource is the plural name, with a sub-resource behind a slash: pods/status.
	Resource string
	// Verbs are what is done with it.
	Verbs []string
	// Names restricts the right to objects of these names; none means all.
	Names []string
	// Implied says that no request shows the use of this right, because the API
	// server asks for it on the way: to set blockOwnerDeletion in an owner
	// reference, for example, one must be able to update the finalizers of the
	// owner. Table.Audit does not expect to see it used.
	Implied bool
	// Why completes the sentence "the program needs this to …".
	Why string
	// UsedBy names the part of the program that needs it.
	UsedBy string
}

// String returns what the row is about, as kubectl would write it: a plural with
// its group, and the names if it is restricted to some.
func (r Row) String() string {
	var names []string
	for _, name := range slices.Sorted(slices.Values(r.Names)) {
		names = append(names, strconv.Quote(name))
	}
	return strings.TrimSpace(qualified(r.Group, r.Resource) + " " + strings.Join(names, ", "))
}

// Table is all rights of a program. Rows may overlap: each part of the program
// lists what it needs, without looking at the others.
type Table []Row

// verbs are those that a table may use, in the order in which they are printed.
// The verbs that make rights out of rights are left out on purpose.
var verbs = []string{"get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"}

// Check returns an error that names every row with a mistake in it: a wildcard,
// a missing field, an unknown verb, or a restriction that cannot work.
func (t Table) Check() error {
	var problems []error
	for i, row := range t {
		for _, problem := range row.problems() {
			problems = append(problems, fmt.Errorf("row %d (%s): %s", i+1, row, problem))
		}
	}
	return errors.Join(problems...)
}

func (r Row) problems() []string {
	var found []string
	report := func(wrong bool, problem string) {
		if wrong {
			found = append(found, problem)
		}
	}
	texts := slices.Concat([]string{r.Group, r.Resource}, r.Verbs, r.Names)
	report(slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, "*") }),
		"a wildcard gives rights that nobody has asked for")
	report(!slices.Contains([]Scope{Watched, Home, Cluster}, r.Scope), fmt.Sprintf("the scope %q is unknown", r.Scope))
	report(r.Resource == "", "the resource is missing")
	report(r.Resource != strings.ToLower(r.Resource), "the resource is not a plural in lower case")
	report(len(r.Verbs) == 0, "the verbs are missing")
	for _, verb := range r.Verbs {
		known := slices.Contains(verbs, verb) || verb == "*" // The wildcard is already reported.
		report(!known, fmt.Sprintf("the verb %q is none of %s", verb, strings.Join(verbs, ", ")))
	}
	report(slices.Contains(r.Names, ""), "one of the names is empty")
	// The API server does not know the name of an object that is to be created, nor
	// those of a collection, so such a right would never match a request. To create
	// a sub-resource is another matter: the object is there already.
	report(len(r.Names) > 0 && slices.Contains(r.Verbs, "create") && !strings.Contains(r.Resource, "/"),
		"create cannot be restricted to names")
	report(len(r.Names) > 0 && slices.Contains(r.Verbs, "deletecollection"),
		"deletecollection cannot be restricted to names")
	report(strings.TrimSpace(r.Why) == "", "it does not say why it is needed")
	report(strings.TrimSpace(r.UsedBy) == "", "it does not say what uses it")
	return found
}

// qualified writes a resource with its group as kubectl does.
func qualified(group, resource string) string {
	if group == "" {
		return resource
	}
	plural, sub, found := strings.Cut(resource, "/")
	if found {
		return plural + "." + group + "/" + sub
	}
	return plural + "." + group
}
