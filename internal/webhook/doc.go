// Package webhook tells users at once what CEL cannot see: the API server asks it before it stores a GeoDatabase or a
// GeoCache, and it asks internal/admit.
//
// It is a courtesy, not a guard. The reconcilers ask internal/admit again before they touch anything, so an object that
// was stored while the webhook was away does no harm; therefore the configuration says failurePolicy Ignore, and an
// operator that is down stops nobody from changing, repairing or deleting a database. ADR 9 has the reasons.
//
// Its certificates are made and rotated by kit/pki. All replicas of the operator serve; they agree through a Secret
// that is written only by the one whose read was current, and no replica presents a certificate before the
// configuration has the authority that signed it. keeper.go says in which order.
//
// Start reading at Add, then at (*keeper).pass. review.go is the protocol, facts.go what is read from the cluster.
package webhook
