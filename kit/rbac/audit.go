package rbac

import (
	"fmt"
	"slices"
)

// Unused is a right of the table that nothing was seen to use.
type Unused struct {
	// Row is the row in question.
	Row Row
	// Verb is the verb of it that was not used.
	Verb string
	// Name is the name that it was not used for, in a row that has names.
	Name string
}

// String returns a sentence for whoever keeps the table.
func (u Unused) String() string {
	what := qualified(u.Row.Group, u.Row.Resource)
	if u.Name != "" {
		what += fmt.Sprintf(" %q", u.Name)
	}
	return fmt.Sprintf("nothing was seen to %s %s, although %s is said to need this to %s",
		u.Verb, what, u.Row.UsedBy, u.Row.Why)
}

// Audit compares the table with what a Recorder has noted. It returns the uses
// that the table does not allow in the installation, and the rights that were not
// used anywhere. Both empty means: the rights suffice, and none is too much, as
// far as the requests that were made can show.
func (t Table) Audit(in Installation, uses []Use) (uncovered []Use, unused []Unused) {
	for _, use := range uses {
		if !slices.ContainsFunc(t, func(row Row) bool { return row.allows(in, use) }) {
			uncovered = append(uncovered, use)
		}
	}
	for _, row := range t {
		if row.Implied {
			continue
		}
		for _, one := range row.rights() {
			single := row
			single.Verbs, single.Names = []string{one.verb}, nameList(one.name)
			if !slices.ContainsFunc(uses, func(use Use) bool { return single.allows(in, use) }) {
				unused = append(unused, Unused{Row: row, Verb: one.verb, Name: one.name})
			}
		}
	}
	return uncovered, unused
}

// allows reports whether the row gives the right to the use.
func (r Row) allows(in Installation, use Use) bool {
	places := in.places(r.Scope)
	return r.Group == use.Group && r.Resource == use.Resource && slices.Contains(r.Verbs, use.Verb) &&
		(len(r.Names) == 0 || slices.Contains(r.Names, use.Name)) &&
		(slices.Contains(places, everywhere) || use.Namespace != "" && slices.Contains(places, use.Namespace))
}
