// Package names gives child objects their names: always the same name for the
// same parts, never longer than the place it goes to allows, and never the
// same name for different parts.
//
// A controller that names its children by chance, or by counting what it sees,
// creates a second child whenever its view of the world is old. A name computed
// from the owner alone turns that mistake into an "already exists". This only
// works when the computation is stable (the name of a child never changes, not
// even with a new release) and injective (two owners never meet in one name).
//
// # The rule
//
// [Form.Child] joins owner and role with a hyphen and leaves it at that when the
// joined text has exactly one reading: the role holds no hyphen, so the last
// hyphen of the name is the one that was added. "a-b-c" therefore belongs to
// the owner "a-b" and the role "c". Every other way to arrive at the same text,
// such as the owner "a" with the role "b-c" or with the roles "b" and "c", gets
// a suffix computed from all its parts, whole and uncut:
//
//	Child("cities", "rw")     cities-rw
//	Child("a-b", "c")         a-b-c
//	Child("a", "b-c")         a-b-c-<suffix>
//	Child("a", "b", "c")      a-b-c-<suffix>
//
// A name that would be too long is cut and suffixed in the same way; so is one
// whose parts hold characters that the form does not allow. A short and valid
// name that happens to end like a suffix is suffixed too: without that, it could
// be the name of something cut.
//
// A name made here may be the owner of further names, which keeps them readable:
// the claim "data" of the instance Child("cities", "1") is cities-1-data. The
// promise then holds per level, so give the levels roles that differ: an owner
// called "cities-1" would meet that claim only if it had a role "data" itself.
//
// [Form.Fit] does the same for a single text, for example to carry an owner's
// name, which may have 253 characters, in a label value, which may have 63.
//
// Both are injective, each for itself, up to collisions of 57 bits of SHA-256.
// That is enough against chance. It is no defence against someone who searches
// for a collision on purpose, so a child found under the expected name must
// still be checked for its owner.
//
// Neither is idempotent, and neither can be: if Fit(Fit(s)) were Fit(s), then s
// and Fit(s) would share a name. Compute a name once, from the original parts.
//
// # What it may not do
//
// The package is pure: no clock, no randomness, no I/O, nothing but strings.
//
// Start reading at [Form.Child]; the suffix is in suffix.go.
package names
