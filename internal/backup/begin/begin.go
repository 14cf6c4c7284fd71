// Package begin makes the first data of a database out of a repository of backups: it finds whose backups they are,
// refuses what does not fit the new database before anything is made, restores, and takes away what belongs to the old
// database alone. It only ever reads the repository. Where the data directory lies, and when it counts, is decided by
// those who call it.
//
// Start reading at Run.
package begin

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/backup/restore"
	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/wire"
)

// Request says what a database begins with, and where.
type Request struct {
	Wanted wire.Restore
	// DatabaseUID, Major and Application are those of the new database.
	DatabaseUID string
	Major       int
	Application wire.Application
	// Open opens the repository at a root with what is mounted now.
	Open  func(settings wire.Repository, root string) (*repository.Repository, error)
	Tools restore.Tools
	// Data is the data directory to make, Log the folder of its log if that lies elsewhere. Work is a folder for what is
	// not kept, with a short path.
	Data, Log, Work string
	// FetchCommand is what PostgreSQL runs for each file of the log, before its three arguments.
	FetchCommand string
	Progress     func(restore.Progress)
	// Waiting is told why the log is waited for.
	Waiting func(error)
}

// ErrNotFitting means that the source cannot be what the new database begins with, whatever the repository does.
var ErrNotFitting = errors.New("it does not fit the new database")

// Run makes the data directory. When it returns without an error, that is the one of a server that was stopped
// properly, as a primary on a timeline above the source's.
func Run(ctx context.Context, request Request) (restore.Result, error) {
	if err := source(ctx, &request); err != nil {
		return restore.Result{}, err
	}
	wanted := request.Wanted
	from, err := request.Open(wanted.Repository,
		backup.Root(wanted.Repository.Prefix(), wanted.Namespace, wanted.Name, wanted.UID))
	if err != nil {
		return restore.Result{}, err
	}
	owner, err := from.Owner(ctx)
	if store.Is(err, store.NotFound) {
		return restore.Result{}, fmt.Errorf("%w: the repository has no backups of %s/%s with the UID %s", ErrNotFitting,
			request.Wanted.Namespace, request.Wanted.Name, request.Wanted.UID)
	}
	if err != nil {
		return restore.Result{}, err
	}
	if err := fits(request, owner); err != nil {
		return restore.Result{}, err
	}
	target, err := targetOf(request.Wanted)
	if err != nil {
		return restore.Result{}, err
	}
	// What an earlier try has left is of no use, and a socket in it would be in the way.
	if err := os.RemoveAll(request.Work); err != nil {
		return restore.Result{}, fmt.Errorf("make room for a restore: %w", err)
	}
	if err := os.MkdirAll(request.Work, 0o700); err != nil {
		return restore.Result{}, fmt.Errorf("make room for a restore: %w", err)
	}
	defer func() { _ = os.RemoveAll(request.Work) }()
	result, err := restore.Run(ctx, restore.Request{
		From: from, Target: target, Tools: request.Tools, Data: request.Data, Log: request.Log, Work: request.Work,
		FetchCommand: request.FetchCommand, Waiting: request.Waiting, Progress: request.Progress,
		Reset: resets(request.Application.Owner),
	})
	if err != nil {
		return restore.Result{}, err
	}
	return result, clean(request.Data)
}

// source finds the UID of the source. Users do not know that of a database that is gone, and need it only where there
// was more than one of that name.
func source(ctx context.Context, request *Request) error {
	wanted := request.Wanted
	if wanted.UID != "" {
		return nil
	}
	all, err := request.Open(wanted.Repository,
		backup.Root(wanted.Repository.Prefix(), wanted.Namespace, wanted.Name, ""))
	if err != nil {
		return err
	}
	found, err := owners(ctx, all)
	if err != nil {
		return err
	}
	// The place of the new database itself, when it has the name of the old one.
	found = slices.DeleteFunc(found, func(uid string) bool { return uid == request.DatabaseUID })
	switch {
	case len(found) == 0:
		return fmt.Errorf("%w: the repository has no backups of %s/%s; check bucket, prefix, namespace and name",
			ErrNotFitting, wanted.Namespace, wanted.Name)
	case len(found) > 1:
		return fmt.Errorf("%w: the repository has backups of %d databases with the name %s/%s: name one of the UIDs "+
			"%s as spec.bootstrap.restore.source.uid", ErrNotFitting, len(found), wanted.Namespace, wanted.Name,
			strings.Join(found, ", "))
	}
	request.Wanted.UID = found[0]
	return nil
}

// owners are the UIDs of all databases of a name.
func owners(ctx context.Context, all *repository.Repository) ([]string, error) {
	var found []string
	err := store.ListAll(ctx, all.Store, all.Root, func(object store.Object) error {
		uid, name := path.Split(strings.TrimPrefix(object.Name, all.Root))
		if uid = strings.TrimSuffix(uid, "/"); name == backup.OwnerName && uid != "" && !strings.Contains(uid, "/") {
			found = append(found, uid)
		}
		return nil
	})
	return found, err
}

// fits compares what the repository says of its owner with the new database.
func fits(request Request, owner backup.Owner) error {
	wanted, application := request.Wanted, request.Application
	switch {
	case owner.Namespace != wanted.Namespace, owner.Name != wanted.Name,
		owner.DatabaseUID != wanted.UID:
		return fmt.Errorf("%w: the backups in the place of %s/%s are those of %s/%s with the UID %s", ErrNotFitting,
			wanted.Namespace, wanted.Name, owner.Namespace, owner.Name, owner.DatabaseUID)
	case owner.Major != 0 && owner.Major != request.Major:
		return fmt.Errorf("%w: the backups are of PostgreSQL %d, and the image has %d: use an image of that version",
			ErrNotFitting, owner.Major, request.Major)
	case owner.Application != "" && owner.Application != application.Database,
		owner.ApplicationOwner != "" && owner.ApplicationOwner != application.Owner:
		return fmt.Errorf("%w: the application's database is %q of the role %q there, and spec.bootstrap names %q of %q: "+
			"create the GeoDatabase anew, with the names of the source", ErrNotFitting, owner.Application,
			owner.ApplicationOwner, application.Database, application.Owner)
	}
	return nil
}

func targetOf(wanted wire.Restore) (plan.Target, error) {
	var target plan.Target
	if wanted.Time != nil {
		target.Time = *wanted.Time
	}
	if wanted.LSN != "" {
		if err := target.LSN.UnmarshalText([]byte(wanted.LSN)); err != nil {
			return target, fmt.Errorf("%w: the target %q is no place in the log", ErrNotFitting, wanted.LSN)
		}
	}
	return target, nil
}

// resets is SQL that takes away what belongs to the old database: the note of its last rotation, which would make the
// new credentials look old, the logins of its applications, and what would take its place at others.
func resets(owner string) []string {
	disarm := `do $$ declare login text; begin
foreach login in array array[` + literal(owner) + `, ` + literal(wire.OtherLogin) + `] loop
if exists (select from pg_roles where rolname = login) then
execute format('alter role %I password null', login); end if;
end loop;
if exists (select from pg_roles where rolname = ` + literal(wire.OtherLogin) + `) then
execute format('alter role %I nologin', ` + literal(wire.OtherLogin) + `); end if; end $$`
	const forget = `do $$ declare login text; begin
for login in select distinct r.rolname from pg_db_role_setting s join pg_roles r on r.oid = s.setrole,
unnest(s.setconfig) c where s.setdatabase = 0 and c like 'meridian.rotation=%' loop
execute format('alter role %I reset meridian.rotation', login); end loop; end $$`
	return []string{
		forget, disarm,
		`update pg_subscription set subenabled = false where subenabled`,
		`select pg_drop_replication_slot(slot_name) from pg_replication_slots`,
	}
}

func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// clean removes files of the old server: what it was set to with ALTER SYSTEM, and what a recovery leaves.
func clean(data string) error {
	changed, err := os.OpenFile(filepath.Join(data, "postgresql.auto.conf"), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("clean what came back: %w", err)
	}
	if err := errors.Join(changed.Sync(), changed.Close()); err != nil {
		return fmt.Errorf("clean what came back: %w", err)
	}
	for _, name := range []string{
		"recovery.signal", "standby.signal", "backup_label.old", "tablespace_map.old", "backup_manifest",
		"current_logfiles", "postmaster.opts",
	} {
		if err := os.RemoveAll(filepath.Join(data, name)); err != nil {
			return fmt.Errorf("clean what came back: %w", err)
		}
	}
	return nil
}
