package condition

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maxReason keeps a reason readable in one column of a terminal. The schema of a
// condition would admit a thousand characters.
const maxReason = 64

// Reason says in one CamelCase word why a condition has its status.
type Reason string

// Validate returns an error unless the reason is a CamelCase word: it begins with
// an upper-case letter and goes on with letters and digits.
func (r Reason) Validate() error {
	if r == "" {
		return errors.New("the reason is missing")
	}
	if len(r) > maxReason {
		return fmt.Errorf("the reason %q has %d characters, at most %d are readable", r, len(r), maxReason)
	}
	for i, c := range []byte(r) {
		upper, lower, digit := c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c >= '0' && c <= '9'
		if upper || i > 0 && (lower || digit) {
			continue
		}
		return fmt.Errorf("the reason %q is not a CamelCase word", r)
	}
	return nil
}

// Entry documents one reason.
type Entry struct {
	Reason Reason
	// Means says, in a sentence, what is the case when this reason is shown.
	Means string
}

// Catalogue holds all reasons that a program uses. The zero Catalogue is empty
// and knows no reason.
type Catalogue struct {
	entries []Entry // Sorted by reason.
}

// NewCatalogue returns a catalogue of the entries. It refuses malformed reasons,
// reasons without a meaning, and reasons that are documented twice, and names all
// of these at once.
func NewCatalogue(entries ...Entry) (Catalogue, error) {
	var problems []error
	sorted := slices.Clone(entries)
	slices.SortStableFunc(sorted, func(a, b Entry) int { return strings.Compare(string(a.Reason), string(b.Reason)) })
	for i, entry := range sorted {
		if err := entry.Reason.Validate(); err != nil {
			problems = append(problems, err)
		}
		if strings.TrimSpace(entry.Means) == "" {
			problems = append(problems, fmt.Errorf("the reason %q is not documented", entry.Reason))
		}
		if i > 0 && sorted[i-1].Reason == entry.Reason {
			problems = append(problems, fmt.Errorf("the reason %q is documented twice", entry.Reason))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return Catalogue{}, fmt.Errorf("make a catalogue of reasons: %w", err)
	}
	return Catalogue{entries: sorted}, nil
}

// MustCatalogue is NewCatalogue for a package variable: it panics on a mistake,
// which then cannot get past the first test that loads the package.
func MustCatalogue(entries ...Entry) Catalogue {
	catalogue, err := NewCatalogue(entries...)
	if err != nil {
		panic(err)
	}
	return catalogue
}

// Entries returns all entries, sorted by reason.
func (c Catalogue) Entries() []Entry { return slices.Clone(c.entries) }

// Means returns what the reason means, and whether it is in the catalogue.
func (c Catalogue) Means(reason Reason) (string, bool) {
	for _, entry := range c.entries {
		if entry.Reason == reason {
			return entry.Means, true
		}
	}
	return "", false
}

// Unknown returns the reasons among the conditions that are not in the catalogue,
// in the order of the conditions.
func (c Catalogue) Unknown(conditions []metav1.Condition) []Reason {
	var unknown []Reason
	for _, condition := range conditions {
		if _, known := c.Means(Reason(condition.Reason)); !known {
			unknown = append(unknown, Reason(condition.Reason))
		}
	}
	return unknown
}

// Compare compares the catalogue with the pages of a runbook, which are named
// after the reasons. It returns the reasons without a page and the pages without
// a reason, both sorted. A test gives it the file names without their extension.
func (c Catalogue) Compare(pages []string) (missing []Reason, orphaned []string) {
	for _, entry := range c.entries {
		if !slices.Contains(pages, string(entry.Reason)) {
			missing = append(missing, entry.Reason)
		}
	}
	for _, page := range pages {
		if _, known := c.Means(Reason(page)); !known {
			orphaned = append(orphaned, page)
		}
	}
	slices.Sort(orphaned)
	return missing, orphaned
}
