package names

import (
	"fmt"
	"strings"
)

// Separator stands between the parts of a name and before the suffix.
const Separator = "-"

// minLimit leaves room for some readable characters before the suffix. A limit
// below it is a mistake in the program, because limits are constants.
const minLimit = suffixLength + 4

// Form is the syntax of the place that a name goes to. The forms below cover
// the places that Kubernetes has; Within narrows one of them further.
//
// The zero Form is not usable.
type Form struct {
	limit   int
	upper   bool   // Upper-case letters are allowed.
	inner   string // Allowed besides letters and digits, except at both ends.
	letter  bool   // The first character must be a letter.
	dotted  bool   // Each part between dots must itself begin and end well.
	blankOK bool   // The empty text is allowed.
}

// Label is the form of an RFC 1123 label: Namespaces, Pods that need a host
// name, and every object whose name becomes part of a DNS name.
func Label() Form { return Form{limit: 63, inner: "-"} }

// LetterLabel is a Label that begins with a letter, which is the older RFC 1035
// form that API servers demand of Services. An owner may be called "3d-tiles",
// its Service may not.
func LetterLabel() Form { return Form{limit: 63, inner: "-", letter: true} }

// Subdomain is the form of most object names: an RFC 1123 subdomain.
func Subdomain() Form { return Form{limit: 253, inner: "-.", dotted: true} }

// LabelValue is the form of the value of a Kubernetes label.
func LabelValue() Form { return Form{limit: 63, inner: "-._", upper: true, blankOK: true} }

// Within returns the form with a lower limit, for children whose name is
// extended further by someone else: a StatefulSet, whose Pods carry its name and
// a revision hash in a label, must stay within 52.
//
// It panics when the limit leaves no room for a suffix and a readable rest,
// because then it is a wrong constant. A limit above that of the form changes
// nothing.
func (f Form) Within(limit int) Form {
	if limit < minLimit {
		panic(fmt.Sprintf("names: a limit of %d leaves no readable name; at least %d", limit, minLimit))
	}
	f.limit = min(f.limit, limit)
	return f
}

// Limit returns the length that no name of this form exceeds.
func (f Form) Limit() int { return f.limit }

// Child returns the name of the child of owner in the given role. It is
// owner-role when that is valid, short enough and has no second reading;
// otherwise it ends in a suffix computed from owner, role and more. See the
// package comment for the rule and for what it promises.
func (f Form) Child(owner, role string, more ...string) string {
	parts := append([]string{owner, role}, more...)
	plain := strings.Join(parts, Separator)
	unique := len(parts) == 2 && owner != "" && !strings.Contains(role, Separator)
	if unique && f.allows(plain) && !endsLikeSuffix(plain) {
		return plain
	}
	return f.suffixed(owner, strings.Join(parts[1:], Separator), suffix(parts))
}

// Fit returns text itself when it is valid and short enough, and otherwise as
// much of it as fits, followed by a suffix computed from the whole text.
func (f Form) Fit(text string) string {
	if f.allows(text) && !endsLikeSuffix(text) {
		return text
	}
	return f.suffixed(text, "", suffix([]string{text}))
}

// suffixed puts head, tail and suffix together within the limit. The tail is the
// role, which tells siblings apart for the reader, so the head is cut first; but
// a tail of more than half of the room is cut like anything else.
func (f Form) suffixed(head, tail, suffix string) string {
	room := f.limit - len(Separator) - len(suffix)
	head, tail = f.clean(head), strings.Trim(f.clean(tail), f.inner)
	switch {
	case tail == "":
		head = f.cut(head, room)
	case len(tail) >= room/2:
		head = f.cut(head+Separator+tail, room)
	default:
		head = f.cut(head, room-len(Separator)-len(tail)) + Separator + tail
	}
	return head + Separator + suffix
}

// cut shortens text to at most room bytes and gives it valid ends. What is left
// may be nothing at all, or begin with a digit where a letter is needed; then a
// letter takes the place.
func (f Form) cut(text string, room int) string {
	text = strings.Trim(text, f.inner)
	if text == "" || f.letter && !isLetter(text[0]) {
		text = "x" + text
	}
	if len(text) > room {
		text = text[:room]
	}
	return strings.TrimRight(text, f.inner)
}
