package design

import (
	"time"

	"meridian.dev/meridian/internal/admit"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/wire"
)

// backupSettings is what the agents are told of backups, nil for nothing. A spec that cannot be understood leaves what
// is stored.
func backupSettings(snapshot database.Snapshot) *wire.BackupSettings {
	wanted := snapshot.Spec.Backup
	if wanted == nil {
		return nil
	}
	keep, problem := admit.Keep(wanted.Retention)
	settings := &wire.BackupSettings{
		Version: wire.BackupSettingsVersion, DatabaseUID: snapshot.DataUID(), Namespace: snapshot.Namespace,
		Database: snapshot.Name, Repository: render.Repository(wanted.Repository),
		WindowSeconds: int64(keep / time.Second), AtLeast: admit.AtLeast(wanted.Retention),
	}
	if wanted.MaxRate != nil {
		settings.MaxRate = wanted.MaxRate.Value()
	}
	if stored := snapshot.Backup.Settings; stored != nil {
		settings.Base = stored.Base
	}
	if problem != nil || settings.Check() != nil {
		return snapshot.Backup.Settings
	}
	return settings
}

// beginClaim is mounted until there is data: no pod shall depend for ever on what a database has begun with.
func beginClaim(snapshot database.Snapshot) string {
	if snapshot.Record.Initialised {
		return ""
	}
	return snapshot.Backup.BeginClaim
}

// lacksSource says that a database is to begin with a repository that is not known yet: settings would have its agents
// begin an empty one.
func lacksSource(snapshot database.Snapshot) bool {
	return snapshot.Backup.Begin == nil && !snapshot.Record.Initialised && render.Begins(snapshot.Spec)
}
