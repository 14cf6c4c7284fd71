package service

import (
	"fmt"
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

// Certificates is the state of the authority of a resource and of the certificate that it has issued.
type Certificates struct {
	Authority Secret `json:"authority,omitzero"`
	Leaf      Secret `json:"leaf,omitzero"`
	// Authorities is how many are stored.
	Authorities int `json:"authorities,omitempty"`
	// Steps are what kit/pki says is to be done now, in words.
	Steps []string `json:"steps,omitempty"`
	// Problem is why the stored authorities cannot be read. They are never replaced without a human.
	Problem string `json:"problem,omitempty"`
	// Again is when to look again.
	Again time.Time `json:"again,omitzero"`
	// Identity is what the stored leaf and bundle are called in reports.
	Identity string `json:"identity,omitempty"`
	// Unpublished says that the Secret for applications has other authorities than are stored.
	Unpublished bool `json:"unpublished,omitempty"`
	// Rotation is the one that was asked for last, Renewal what it takes next beyond Steps, in words.
	Rotation Rotation `json:"rotation,omitzero"`
	Renewal  []string `json:"renewal,omitempty"`
}

// Lost says that there is no authority any more, although somebody trusts one: a leaf of it was issued, or applications
// were given its certificate.
func (c Certificates) Lost(app Secret) bool {
	return c.Authorities == 0 && (c.Leaf.Exists || app.Exists && app.Foreign == "")
}

// Keeping is whose certificates are kept: the names of their Secrets, the Secret for applications, and the step that
// stores them.
type Keeping[Step any] struct {
	Certificates         Certificates
	Authority, Leaf, App string
	AppSecret            Secret
	Store                Step
}

// KeepCertificates makes the authority once and then keeps it alive. Replacing what exists is safety and goes on while
// changes are stopped. It reports whether all is well and nothing was due.
func (d *Draft[Step]) KeepCertificates(keep Keeping[Step]) (well bool) {
	certificates := keep.Certificates
	wayOut := fmt.Sprintf("bring it back; or delete it together with the Secrets %s and %s to have new ones made, which "+
		"interrupts every client that trusts the old authority", keep.Leaf, keep.App)
	switch {
	case certificates.Problem != "":
		d.Hold(Stalled, 0, "AuthorityUnreadable", fmt.Sprintf(
			"the Secret %s cannot be read: %s; %s", keep.Authority, certificates.Problem, wayOut))
		return false
	case certificates.Authority.Foreign != "" || certificates.Leaf.Foreign != "":
		return false
	case certificates.Lost(keep.AppSecret):
		d.Hold(Stalled, 0, "AuthorityLost", fmt.Sprintf(
			"the Secret %s has no authority any more, and one is trusted; %s", keep.Authority, wayOut))
		return false
	case len(certificates.Steps) == 0:
		return true
	}
	action := Action[Step]{
		Do: keep.Store, Kind: KindSecret, Name: keep.Leaf, UID: certificates.Leaf.UID,
		ResourceVersion: certificates.Leaf.ResourceVersion, Why: strings.Join(certificates.Steps, "; "),
	}
	if certificates.Leaf.Exists {
		d.Do(action)
	} else {
		d.Change(action)
	}
	return false
}
