// Package lease reads, writes and watches one coordination.k8s.io Lease that carries a document in an annotation, for
// programs that agree through it on who may do something.
//
// Holder, number of transitions and document change together, in one write that demands the version that the writer has
// seen: whoever decided on something older is refused. What the package does not know of the object, it leaves as it
// is.
//
// Reads are of two kinds, and they are not worth the same. [Client.Get] is consistent: it shows the lease as it is at
// some moment after the call began. [Client.Watch] tells of changes soon and without asking again and again, but what
// it tells may be old.
//
// A write ends in one of the three ways of package call. One whose outcome is unknown may have been done, or may be
// done later, until the lease has another version than the one that it demands.
//
// # What it may not do
//
// It elects nobody, looks at no clock to judge a lease, and never creates or deletes one.
//
// Start reading at [Client].
package lease
