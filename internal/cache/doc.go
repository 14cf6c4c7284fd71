// Package cache holds the nouns of the loop that turns a GeoCache into servers that answer.
//
//	GeoCache ─► observe ─► Snapshot ─► plan ─► Plan ─► act ─► Outcome ─► status
//	                      (facts)            (data)        (data)
//
// Facts are small structs and sorted slices: they can be printed, stored and replayed. The spec is the only API type in
// them, and no secret value is. The package decides nothing, reads nothing and writes nothing; the stages lie in the
// folders below it, and only controller knows them all.
//
// A cache keeps nothing on a volume, so there is nothing to undo when it is deleted: everything it has is owned by it
// and goes with it.
//
// Start reading at Snapshot, then Plan.
package cache
