// Package lives lets databases and caches live whole lives in a hostile world: the real loops of the operator, plugged
// in as they are plugged into controller-runtime, on the API server of kit/sim, with caches per kind that stand in the
// past, calls that fail, fail after they were done, conflict or never return, crashes at every write, a second leader,
// and a user who does not wait. The cluster and the agents are modelled in a few lines each; package sim beside this
// one has the real agents and models the operator instead.
//
// A [Life] is a beginning, what the user does, and what there is in the end. The rules of rules.go are asked after
// every write of anybody and before every write of the operator; that the wished state is reached, is kept, and costs
// no more writes is asked at the end. Package kit/sim/search decides what happens when. A [Flaw] is a mistake put in on
// purpose: each of them has to be found.
//
// README.md is the track record: every bug that was found here, and how to see it again.
//
// Start reading at [Lives], then rules.go.
package lives
