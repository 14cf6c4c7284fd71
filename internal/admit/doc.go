// Package admit says what is wrong with a GeoDatabase or a GeoCache beyond what the schema and its CEL rules can say:
// parameters that the server does not know or that Meridian manages, extensions that no image has, changes to the pods
// that would break an instance, and storage that cannot do what is asked.
//
// It is pure. The webhook asks it before an object is stored, and the reconcilers ask it again before they touch
// anything, so that nothing gets through while the webhook is away. What must be known about the world comes in as
// Facts; a fact that is not known is not judged.
//
// What a server knows about its parameters, extensions and time zones is data, taken from the real servers and kept in
// catalogue/: catalogue/collect.sql is the query, and the first lines of that file say how to run it.
//
// Start reading at Database and the list databaseRules. A rule is a function that returns Problems; each names the
// field and the way out, because the message is all that a user of kubectl gets to see.
package admit
