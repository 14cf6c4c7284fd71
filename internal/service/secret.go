package service

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Secret is what is known of a Secret: never its values.
type Secret struct {
	Exists          bool   `json:"exists,omitempty"`
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Deleting        bool   `json:"deleting,omitempty"`
	// Foreign is who has the name, if it is not the resource.
	Foreign string `json:"foreign,omitempty"`
}

// Certificates is the state of the authority of a resource and of the certificates that it has issued.
type Certificates struct {
	Authority Secret `json:"authority,omitzero"`
	// Leaf is what all instances have in common: of a database those of an earlier version, until each has its own.
	Leaf Secret `json:"leaf,omitzero"`
	// Own are those of single instances, by serial number.
	Own []Certificate `json:"own,omitempty"`
	// Authorities is how many are stored.
	Authorities int `json:"authorities,omitempty"`
	// Steps are what kit/pki says is to be done now, in words.
	Steps []string `json:"steps,omitempty"`
	// Problem is why the stored authorities cannot be read. They are never replaced without a human.
	Problem string `json:"problem,omitempty"`
	// Again is when to look again.
	Again time.Time `json:"again,omitzero"`
	// Identity is what Leaf and the bundle beside it are called in reports.
	Identity string `json:"identity,omitempty"`
	// Unpublished says that the Secret for applications has other authorities than are stored.
	Unpublished bool `json:"unpublished,omitempty"`
	// Settles is until when applications have time for what it tells, zero if that has passed.
	Settles time.Time `json:"settles,omitzero"`
	// Rotation is the one that was asked for last, Renewal what it takes next beyond Steps, in words.
	Rotation Rotation `json:"rotation,omitzero"`
	Renewal  []string `json:"renewal,omitempty"`
	// Issuing is about the authority of the user's own that applications trust.
	Issuing Issuing `json:"issuing,omitzero"`
	// Ahead is how far the operator's clock is ahead of the API server's, to the minute, if they disagree while
	// certificates are due.
	Ahead time.Duration `json:"ahead,omitempty"`
}

// Certificate is the Secret of one instance, which no other pod mounts.
type Certificate struct {
	Instance string `json:"instance"`
	Secret   `json:",inline"`
	// Identity is what it is called in reports, with the bundle beside it.
	Identity string `json:"identity,omitempty"`
	// Unwanted says that the instance is gone and does not come back.
	Unwanted bool `json:"unwanted,omitempty"`
}

// Issued says that an instance may present something already.
func (c Certificates) Issued() bool {
	return c.Leaf.Exists || slices.ContainsFunc(c.Own, func(own Certificate) bool { return own.Exists })
}

// Foreign is who has the name of a Secret of theirs, if it is not the resource.
func (c Certificates) Foreign() string {
	for _, own := range c.Own {
		if own.Secret.Foreign != "" && !own.Unwanted {
			return own.Secret.Foreign
		}
	}
	return cmp.Or(c.Authority.Foreign, c.Leaf.Foreign)
}

// Lost says that there is no authority any more, although somebody trusts one: a leaf of it was issued, or applications
// were given its certificate.
func (c Certificates) Lost(app Secret) bool {
	return c.Authorities == 0 && (c.Issued() || app.Exists && app.Foreign == "")
}

// Keeping is whose certificates are kept: the names of the Secrets of the authority, of what it issued and of
// applications, the last of these as it is, and what stores them.
type Keeping[Step any] struct {
	Certificates Certificates
	Authority    string
	Issued       []string
	App          string
	AppSecret    Secret
	Store        Action[Step]
}

// KeepCertificates makes the authority once and then keeps it alive. Replacing what exists is safety and goes on while
// changes are stopped. It reports whether all is well and nothing was due.
func (d *Draft[Step]) KeepCertificates(keep Keeping[Step]) (well bool) {
	certificates := keep.Certificates
	wayOut := fmt.Sprintf("bring it back; or delete it together with the Secrets %s and %s to have new ones made, which "+
		"interrupts every client that trusts the old authority", strings.Join(keep.Issued, ", "), keep.App)
	switch {
	case certificates.Problem != "":
		d.Hold(Stalled, 0, "AuthorityUnreadable", fmt.Sprintf(
			"the Secret %s cannot be read: %s; %s", keep.Authority, certificates.Problem, wayOut))
		return false
	case certificates.Foreign() != "":
		return false
	case certificates.Lost(keep.AppSecret):
		d.Hold(Stalled, 0, "AuthorityLost", fmt.Sprintf(
			"the Secret %s has no authority any more, and one is trusted; %s", keep.Authority, wayOut))
		return false
	case !d.tellIssuing(certificates.Issuing) && certificates.Authorities == 0:
		// What was never trusted is begun with the issuer, and with nothing else.
		return false
	case !d.tellClock(certificates.Ahead):
		return false
	case len(certificates.Steps) == 0:
		return true
	}
	action := keep.Store
	action.Kind, action.Why = KindSecret, strings.Join(certificates.Steps, "; ")
	if certificates.Issued() {
		d.Do(action)
	} else {
		d.Change(action)
	}
	return false
}
