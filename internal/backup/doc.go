// Package backup has the nouns of backups: what a repository holds, and how its objects are named. It is pure.
//
// The repository is the only truth about backups. It outlives the database, the namespace and the cluster, and it can
// be read by hand with tar, zstd and age. Start reading at Catalogue, which is what a listing of a repository says. The
// parts are below: store keeps objects, seal compresses and encrypts them, repository reads and writes the layout,
// plan decides what to ship, to delete and to restore, ship, base and restore do it.
package backup
