// Package apply writes the children of a controller so that nothing is overwritten by accident: every write names the
// state it was decided on, and is refused when the world has moved.
//
// # In three steps
//
//	want, err := author.Intent(service, owner.GetUID()) // what we want, canonical and hashed: pure
//	difference := apply.Compare(want, live)             // what would change, and why: pure
//	if action, needed := difference.Action(); needed {  // the write as data, printable
//		result, err := actor.Do(ctx, action)            // the write itself: conditional
//	}
//
// # What is compared
//
// What we wanted at the last write is compared with what we want now, never the whole live object with anything: a live
// object is full of defaults and of other people's additions. The annotation "<prefix>/intent" of the child keeps a
// sha256 over the canonical, versioned JSON of the intent, and the set of fields that it had, without their
// values. From these follow:
//
//   - An unchanged intent causes no write at all.
//   - A field, label, annotation or list entry that has left the intent is removed from the child. What others
//     have added stays.
//   - A field of the intent that somebody else changed is found although the hash is equal. It is repaired, and
//     reported with its path and both values.
//   - A selector is ours alone: an entry that somebody else put into it would leave less selected, and goes like any
//     other drift.
//   - So are the lists that say who may do what: the rules of a Role, the subjects of a RoleBinding, the rules of a
//     NetworkPolicy.
//   - Defaulted fields never count, because only fields of the intent are looked at.
//
// Lists of named things (containers, volumes, environment, ports, owner references…) are compared entry by entry,
// others as a whole with room for additions by admission. The values of a Secret never appear in a Change, an Action
// or an error.
//
// # How it is written
//
// Creates are plain creates under a fixed name. AlreadyExists is resolved by a live read: an object of ours counts as
// existing, anybody else's is a [ForeignError]. Updates are JSON patches of exactly the fields that differ, and
// their first operations test the UID and the resourceVersion. Deletes carry both as preconditions. There is no
// forced apply: docs/adr/0007-how-children-are-applied.md weighs it. A request whose outcome is unknown is told
// to the [Recorder], so that the next pass reads live.
//
// A patch that the API server answers without taking it over (a field that a feature gate drops, a webhook that changes
// it back) makes no new version and so no event: Result.Unheld lists such fields.
//
// # What it costs
//
// Rendering and comparing go through JSON, some hundred microseconds for a large child. An [Author] with a [Memo] does
// it once for as long as neither the wish nor the live object changes, and knows that by comparing them deeply.
//
// # What it may not do
//
// [Compare], [Difference.Action] and [Author.Remove] are pure: no clock, no context, no client. [Actor.Do] decides
// nothing: it carries out one action or says why not. The package never retries.
//
// Start reading at [Compare], then [Actor.Do].
package apply
