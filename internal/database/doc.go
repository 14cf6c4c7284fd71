// Package database holds the nouns of the loop that turns a GeoDatabase into instances that answer SQL.
//
//	GeoDatabase ─► observe ─► Snapshot ─► plan ─► Plan ─► act ─► Outcome ─► status
//	                         (facts)            (data)        (data)
//
// Facts are small structs and sorted slices: they can be printed, stored and replayed. The spec is the only API type in
// them, and no secret value is. The package decides nothing, reads nothing and writes nothing; the stages lie in the
// folders below it, and only controller knows them all.
//
// Start reading at Snapshot, then Plan.
package database
