package draft

import "meridian.dev/meridian/internal/database"

// StoredBackup names what the agents shall have got of backups, empty for nothing.
func StoredBackup(d *Draft) string {
	if d.Backup.Stored == "" || d.Writes(database.KindSecret, database.AccessName(d.Name)) {
		return ""
	}
	return d.Backup.Stored + "-" + d.Backup.Access.ResourceVersion
}
