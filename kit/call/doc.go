// Package call makes single calls to a Kubernetes API server, for programs that must know what became of each of them.
//
// A client that waits, retries and pools connections behind the back of its caller is right for most programs, and
// wrong for one that holds a lease: it must learn within seconds that the server does not answer, and it must know
// whether a write that failed may have been done all the same. So here each call has a bound, is made once, goes over a
// fresh connection when the one before has failed, and ends in one of three ways: it was done, it was certainly not
// done ([Refused]), or nobody knows ([Unknown]).
//
// # What it may not do
//
// It retries no call, caches nothing and knows no resource. Only [Server.Watch] begins again by itself: a watch has no
// outcome, and tells of what is there, whenever it begins. It has none of the machinery of a full client: bodies are
// JSON that the caller makes and reads.
//
// Start reading at [Server.Do].
package call
