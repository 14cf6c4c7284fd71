// Package backup decides about backups: that credentials and keys of the repository are mounted, which base backup is
// made next and by whom, and what is claimed about whether the database can be restored. Nothing of a running database
// waits for any of it.
//
// Start reading at MakeBase.
package backup
