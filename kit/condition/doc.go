// Package condition derives the conditions of an object so that people, kubectl
// and the tools that follow the kstatus rules (kubectl wait, package appliers,
// GitOps controllers) all read the same thing from them.
//
// # Deriving
//
// A controller states on each pass everything that it claims about the object,
// as a literal list of [Claim], and [Merge] turns the list into conditions:
//
//   - the conditions are the claims, in the order of the claims: what is no
//     longer claimed is gone, and the order never depends on history;
//   - each carries the generation that was observed;
//   - the transition time moves when the status changes and at no other time, so
//     that a pass which finds nothing new produces exactly what was there before
//     and the status need not be written.
//
// Claims are never patched into an old list one by one: a condition that was
// forgotten on one path through the code is the usual way in which an object
// comes to claim Ready and broken at once.
//
// # Reading
//
// [Read] answers as a tool that follows the kstatus rules would. For an object of
// a kind that the tool does not know, these rules are, and the first that
// applies decides:
//
//  1. being deleted: Terminating;
//  2. status.observedGeneration is set and is not metadata.generation: InProgress;
//  3. of Reconciling and Stalled, the first in the list that is True: InProgress
//     for Reconciling, Failed for Stalled;
//  4. Ready is True: Current; Ready is False or Unknown: InProgress;
//  5. otherwise: Current.
//
// The rules have traps. An object without a Ready condition reads as Current,
// whatever state it is in. Rule 3 depends on the order of the list. Progressing
// and Degraded are never looked at. A condition's own observedGeneration is never
// looked at either. And an object that no controller has seen yet has no status,
// so it reads as Current by rule 5: give the status a default in the schema,
// {"observedGeneration": -1}, and rule 2 catches it.
//
// [Check] finds the sets of conditions that fall into one of these traps, or that
// contradict themselves. For a set without problems, of an object that is not
// being deleted and whose latest generation was observed, the following holds
// whatever the order of the list:
//
//	Ready is True    exactly when it reads as Current
//	Stalled is True  exactly when it reads as Failed
//
// # Reasons
//
// The reason of a condition is an interface: alerts match on it, and the one on
// call looks it up. A [Catalogue] holds all reasons of a program with what they
// mean, refuses malformed ones, and compares itself with the pages of a runbook.
//
// # What it may not do
//
// The package is pure: the time is a parameter, and nothing is read or written.
//
// Start reading at [Merge], then [Check].
package condition
