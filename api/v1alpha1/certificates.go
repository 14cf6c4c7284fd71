package v1alpha1

// Certificates say whom applications trust.
type Certificates struct {
	// An authority of your own that applications trust, in the place of the one that Meridian makes. Its root is then
	// what `ca.crt` says in the Secret for applications, and servers show how one gets from their certificate to it.
	// Instances, replication and the operator go on trusting each other by the authority that Meridian makes: a
	// certificate of yours lets nobody in there.
	// Without it: the authority that Meridian makes. Changing it, or the root in its Secret, restarts nothing and
	// refuses no connection: the new root is told first, beside the old one; after `spec.rotate.overlap` servers
	// show the new path; after the same once more the old root is told no longer.
	// +optional
	Issuer *CertificateIssuer `json:"issuer,omitempty"`
}

// CertificateIssuer is an authority of the user's own.
type CertificateIssuer struct {
	// Secret with `tls.crt`, the certificate of the authority and those between it and its root; `tls.key`, its key; and
	// `ca.crt`, its root, which may be missing if `tls.crt` is the root. It must be allowed to sign for another
	// authority: no `pathlen:0`. cert-manager makes such a Secret of a Certificate with `isCA: true`.
	// It is read anew twice a minute. One that cannot be used changes nothing; the condition Stalled says why.
	Secret SecretReference `json:"secret"`
}
