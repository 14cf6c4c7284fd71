// Package pki runs a small certificate authority inside a program: it makes the
// authority, issues the leaf certificates that servers and clients present to each
// other, and replaces all of them in time, so that no handshake ever fails because
// of it and nothing has to be restarted.
//
// # How a rotation goes
//
// The parties do not see a change at the same moment. One still holds the bundle
// of an hour ago, another already presents a new certificate. So an authority is
// never exchanged; it is introduced, used, and retired, each when the step before
// it has reached everyone:
//
//	             introduce          issue with B              drop A
//	                 │                   │                       │
//	trusted    A     │ A B ··············│·A B ··················│ B
//	signs      A     │ A                 │ B                     │ B
//	                 └──── Settle ───────┘── until the last ─────┘
//	                                         leaf of A ended
//
// Policy.Settle is how long a change takes, at most, to reach every party. What
// the package promises for it, and its tests check at every moment of many
// rotations: a leaf that is presented by a party whose material is not older than
// Settle verifies against the bundle of every party whose material is not older
// than Settle. It holds as long as Decide is asked at least once per Settle.
//
// A leaf that is still good is never touched, also not while authorities rotate:
// it is replaced when a third of its life is left, by whichever authority signs
// then. The old authority stays in the bundle until its last leaf has ended.
//
// Policy.Renew asks for all of it before its time. The order is the same: the next
// authority is introduced at once, and leaves are issued anew by the one that signs;
// when the next one signs, leaves are issued by it; and the old one is dropped when
// those have settled, without waiting for the end of leaves that nobody has any more.
//
// # How to use it
//
// [Decide] is a pure function from the [State] that is stored, the time and the
// [Policy] to a [Plan], which is data that can be printed and tested. An empty plan
// means that all is well until Plan.Again. [Plan.Apply] carries it out in memory,
// with a source of randomness that the caller hands in, and returns the new state,
// to be stored by a write that fails when someone else was faster:
//
//	plan := pki.Decide(state, now, policy)
//	if len(plan.Steps) > 0 {
//		state, err = plan.Apply(state, rand.Reader)
//		// Store first the authorities and the bundle, then the leaves.
//	}
//
// The order of storing matters: an authority remembers until when leaves of it may
// be around, and must know about a leaf before anyone presents it.
//
// [ServerConfig] and [ClientConfig] read the current material for each handshake.
//
// # When somebody else is trusted
//
// Those outside, who only verify servers, may trust an [Issuer] that they have already,
// such as the authority of a company. It signs no leaf: it signs certificates of our
// authorities, with their names and keys, which servers show behind their leaves. So a
// leaf verifies against our authorities, which the parties trust and nobody else, and
// against the root of the issuer, which those outside trust; whoever has another
// certificate of the issuer is nobody to the parties. [Endorse] decides about it, in the
// same order: a root is told of, then shown, then forgotten, each when the step before
// has settled. State.Outside is what those outside are told, State.Path what is shown.
//
// # What it may not do
//
// The package reads no clock, no files and no cluster, and holds no state. Keys of ours
// are ECDSA P-256. There are no intermediate authorities of ours and no revocation: what leaks
// is replaced by deleting the stored authorities, which interrupts, and a Plan that
// interrupts says so (Plan.Abrupt).
//
// Start reading at [Decide].
package pki
