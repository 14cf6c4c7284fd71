package keep_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/base"
	"meridian.dev/meridian/internal/backup/keep"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/backup/seal"
	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/wire"
)

const (
	segment = 1 << 20
	system  = 77
)

// rig is a keeper with a log of zeros, and a repository in a folder that can be away.
type rig struct {
	*testing.T
	keeper *keep.Keeper
	log    string
	folder string
	// under is where the repository is instead of the folder, nil for the folder.
	under store.Store

	mutex    sync.Mutex
	now      time.Time
	copy     keep.Copy
	settings *wire.BackupSettings
	fails    func(call, name string) error
	hangs    chan struct{} // Closed to go on.
	archive  []byte
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, log: t.TempDir(), folder: t.TempDir(), now: time.Now()}
	r.copy = keep.Copy{
		SystemIdentifier: fmt.Sprint(system), Major: 17, Leads: true, Term: 1, Timeline: 1,
		Flushed: segment + 1000, Running: true,
	}
	r.settings = &wire.BackupSettings{
		DatabaseUID: "u", Namespace: "prod", Database: "cities", WindowSeconds: 3600, AtLeast: 1,
		Repository: wire.Repository{Claim: &wire.ClaimFolder{}},
	}
	for number := range uint64(4) {
		r.segment(1, number)
	}
	r.keeper = r.newKeeper("cities-1")
	return r
}

func (r *rig) newKeeper(instance string) *keep.Keeper {
	return keep.New(keep.Ports{
		Instance: instance, Folder: r.log, Log: logr.Discard(),
		Now:      locked(r, func() time.Time { return r.now }),
		Copy:     locked(r, func() keep.Copy { return r.copy }),
		Settings: func() (*wire.BackupSettings, error) { r.mutex.Lock(); defer r.mutex.Unlock(); return r.settings, nil },
		Open: func(_ wire.Repository, root string) (*repository.Repository, error) {
			return &repository.Repository{Store: flaky{r.store(), r}, Root: root}, nil
		},
		Base: func(_ context.Context, request *base.Request, progress func(done, total int64)) error {
			progress(0, 4096)
			request.Execute = func(_ context.Context, _ []string, output *os.File) error {
				_, err := output.Write(r.archive)
				return err
			}
			return nil
		},
	})
}

func locked[T any](r *rig, get func() T) func() T {
	return func() T { r.mutex.Lock(); defer r.mutex.Unlock(); return get() }
}

func (r *rig) store() store.Store {
	if r.under != nil {
		return r.under
	}
	return store.Folder{Path: r.folder}
}

func (r *rig) change(change func()) { r.mutex.Lock(); defer r.mutex.Unlock(); change() }

// segment writes one of zeros with a long header.
func (r *rig) segment(timeline int, number uint64) {
	r.Helper()
	content := make([]byte, segment)
	binary.LittleEndian.PutUint64(content[8:], number*segment)
	binary.LittleEndian.PutUint64(content[24:], system)
	path := filepath.Join(r.log, backup.SegmentName(timeline, number, segment))
	if err := os.WriteFile(path, content, 0o600); err != nil {
		r.Fatal(err)
	}
}

// flaky is a store that fails or hangs when it is told to.
type flaky struct {
	store.Store
	*rig
}

func (f flaky) fault(ctx context.Context, call, name string) error {
	f.mutex.Lock()
	fails, hangs := f.fails, f.hangs
	f.mutex.Unlock()
	if hangs != nil {
		<-hangs // It does not care for the context either.
	}
	if fails != nil {
		return fails(call, name)
	}
	return ctx.Err()
}

func (f flaky) PutIfAbsent(ctx context.Context, name string, content io.Reader) error {
	if err := f.fault(ctx, "put", name); err != nil {
		return err
	}
	return f.Store.PutIfAbsent(ctx, name, content)
}

func (f flaky) List(ctx context.Context, prefix, token string) (store.Page, error) {
	if err := f.fault(ctx, "list", prefix); err != nil {
		return store.Page{}, err
	}
	return f.Store.List(ctx, prefix, token)
}

func (f flaky) Delete(ctx context.Context, name string) error {
	if err := f.fault(ctx, "delete", name); err != nil {
		return err
	}
	return f.Store.Delete(ctx, name)
}

// turns lets so many turns pass, each of which ends before the next, a few seconds apart.
func (r *rig) turns(count int) {
	r.Helper()
	for range count {
		r.keeper.Turn(context.Background())
		r.wait(r.keeper.Idle)
		r.change(func() { r.now = r.now.Add(20 * time.Second) })
	}
	r.keeper.Turn(context.Background())
	r.wait(r.keeper.Idle)
}

func (r *rig) wait(done func() bool) {
	r.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			r.Fatal("it does not come to an end")
		}
	}
}

func (r *rig) objects() (names []string) {
	root := filepath.Join(r.folder, "prod/cities/u")
	_ = filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			name, _ := filepath.Rel(root, path)
			names = append(names, name)
		}
		return nil
	})
	slices.Sort(names)
	return names
}

func TestKeeperShipsAndTells(t *testing.T) {
	r := newRig(t)
	r.turns(3)
	report := r.keeper.Report()
	if report == nil || !report.Ships || report.Confirmed != "0/1003E8" || report.Reason != wire.BackupFirstPending {
		t.Fatalf("%+v", report)
	}
	want := []string{
		"owner.json", "terms/0000000001.json", "wal/00000001/000000010000000000000000.zst",
		"wal/00000001/000000010000000000000001.00000000-000003E8.tail.zst",
	}
	if got := r.objects(); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	r.change(func() { r.copy.Flushed = 2*segment + 50 })
	r.turns(1)
	if report := r.keeper.Report(); report.Confirmed != "0/200032" || report.BehindBytes != 0 {
		t.Errorf("%+v", report)
	}
	r.change(func() { r.settings = nil })
	r.turns(1)
	if r.keeper.Report() != nil {
		t.Error("it tells of backups that are not wanted")
	}
}

// A store that hangs holds up no turn, and is told.
func TestKeeperDoesNotWaitForAStoreThatHangs(t *testing.T) {
	r := newRig(t)
	r.turns(2)
	hangs := make(chan struct{})
	r.change(func() { r.hangs, r.copy.Flushed = hangs, 2*segment })
	for range 10 {
		r.keeper.Turn(context.Background())
		r.change(func() { r.now = r.now.Add(20 * time.Second) })
	}
	report := r.keeper.Report()
	if report.Reason != wire.BackupRepositoryAway || report.BehindBytes == 0 || report.BehindMilliseconds < 100_000 {
		t.Errorf("%+v", report)
	}
	r.change(func() { r.hangs = nil })
	close(hangs)
	r.wait(r.keeper.Idle)
	r.turns(2)
	if report := r.keeper.Report(); report.Confirmed != "0/200000" || report.Reason == wire.BackupRepositoryAway {
		t.Errorf("%+v", report)
	}
}

func TestKeeperNamesWhatIsWrong(t *testing.T) {
	class := func(class store.Class) error { return &store.Error{Class: class, Doing: "try", Err: errors.New("no")} }
	for name, c := range map[string]struct {
		err  error
		want wire.BackupReason
	}{
		"away":    {class(store.Away), wire.BackupRepositoryAway},
		"refused": {class(store.CredentialsRefused), wire.BackupCredentialsRefused},
		"ignored": {class(store.ConditionIgnored), wire.BackupConditionIgnored},
		"key":     {fmt.Errorf("read the keys: %w", seal.ErrKeyWrong), wire.BackupKeyWrong},
		"damaged": {fmt.Errorf("read: %w", seal.ErrDamaged), wire.BackupRepositoryDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.change(func() { r.fails = func(string, string) error { return c.err } })
			r.turns(4)
			if report := r.keeper.Report(); report.Reason != c.want || report.Message == "" || report.Since.IsZero() {
				t.Errorf("%+v", report)
			}
			r.change(func() { r.fails = nil; r.now = r.now.Add(time.Hour) })
			r.turns(2)
			if report := r.keeper.Report(); report.Reason == c.want || report.Confirmed == "" {
				t.Errorf("it does not go on: %+v", report)
			}
		})
	}
}

func TestKeeperLeavesAForeignRepositoryAlone(t *testing.T) {
	r := newRig(t)
	r.turns(2)
	before := r.objects()
	r.keeper = r.newKeeper("cities-1")
	r.change(func() { r.copy.SystemIdentifier, r.copy.Flushed = "78", 2*segment+9 })
	for number := range uint64(4) {
		path := filepath.Join(r.log, backup.SegmentName(1, number, segment))
		content, _ := os.ReadFile(path)
		binary.LittleEndian.PutUint64(content[24:], 78)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.turns(3)
	if report := r.keeper.Report(); report.Reason != wire.BackupRepositoryForeign || report.Ships {
		t.Errorf("%+v", report)
	}
	if got := r.objects(); !slices.Equal(got, before) {
		t.Errorf("%q, want %q", got, before)
	}
}

// archive is what pg_basebackup writes, of a server that was at two places.
func archive(start, stop backup.LSN) []byte {
	label := fmt.Sprintf("START WAL LOCATION: %s (file 000000010000000000000001)\nSTART TIMELINE: 1\n", start)
	manifest := fmt.Sprintf(`{"WAL-Ranges":[{"Timeline":1,"Start-LSN":"%s","End-LSN":"%s"}]}`, start, stop)
	return tarOf(map[string]string{"backup_label": label, "PG_VERSION": "17\n", "backup_manifest": manifest})
}

func TestKeeperMakesOneBaseBackupOfAWish(t *testing.T) {
	r := newRig(t)
	r.archive = archive(segment+40, segment+500)
	r.turns(2)
	r.change(func() { r.settings.Base = &wire.BaseWanted{ID: "w1", Instance: "cities-1"} })
	r.turns(4)
	report := r.keeper.Report()
	if report.BackupCount != 1 || report.Base == nil || report.Base.Phase != wire.BaseDone || report.Base.Total != 4096 ||
		report.Reason != "" || report.RecoverableUntil.IsZero() || report.Backups[0].For != "w1" {
		t.Fatalf("%+v %+v", report, report.Base)
	}
	// Another agent, which knows nothing of it, is asked for the same.
	r.keeper = r.newKeeper("cities-1")
	r.turns(5)
	if report = r.keeper.Report(); report.BackupCount != 1 {
		t.Errorf("%d backups for one wish", report.BackupCount)
	}
	r.change(func() { r.settings.Base = &wire.BaseWanted{ID: "w2", Instance: "cities-1"} })
	r.turns(4)
	if report = r.keeper.Report(); report.BackupCount != 2 {
		t.Errorf("%d backups for two wishes: %+v", report.BackupCount, report.Base)
	}
}

// Log that was lost while the repository was away is recorded, and a new base backup makes up for it by itself.
func TestKeeperMakesUpForAGap(t *testing.T) {
	r := newRig(t)
	r.archive = archive(segment+40, segment+500)
	r.change(func() { r.settings.Base = &wire.BaseWanted{ID: "w1", Instance: "cities-1"} })
	r.turns(5)
	away := func(string, string) error { return &store.Error{Class: store.Away, Err: errors.New("no")} }
	r.change(func() { r.fails, r.copy.Flushed = away, 6*segment+100 })
	r.turns(3)
	for number := uint64(1); number < 4; number++ { // The server has removed them.
		if err := os.Remove(filepath.Join(r.log, backup.SegmentName(1, number, segment))); err != nil {
			t.Fatal(err)
		}
	}
	r.segment(1, 4)
	r.segment(1, 5)
	r.segment(1, 6)
	r.archive = archive(5*segment+40, 5*segment+500)
	r.change(func() { r.fails = nil; r.now = r.now.Add(time.Hour) })
	r.turns(4)
	if report := r.keeper.Report(); report.Reason != wire.BackupLogGap {
		t.Fatalf("%+v", report)
	}
	r.turns(20)
	report := r.keeper.Report()
	if report.Reason != "" || report.BackupCount != 2 || len(report.Gaps) != 1 ||
		!strings.HasPrefix(report.Backups[1].For, "gap-") {
		t.Errorf("%+v %+v", report, report.Base)
	}
	if names := strings.Join(r.objects(), " "); !strings.Contains(names, ".gap") {
		t.Error("the gap is not recorded:", names)
	}
}

func TestKeeperOfAReplicaShipsNothingOfItsOwn(t *testing.T) {
	r := newRig(t)
	r.turns(2)
	before := r.objects()
	r.change(func() { r.copy.Leads, r.copy.Flushed = false, 3*segment })
	r.turns(3)
	if got := r.objects(); !slices.Equal(got, before) {
		t.Errorf("%q, want %q", got, before)
	}
	if report := r.keeper.Report(); report.Ships || report.RecoverableUntil != (time.Time{}) || report.Reason != "" {
		t.Errorf("%+v", report)
	}
}

// K4: a former primary ships what it alone may have before its copy is replaced, and is not waited for without end.
func TestKeeperOfAFormerPrimaryShipsBelowTheFork(t *testing.T) {
	r := newRig(t)
	r.turns(2)
	r.change(func() { r.copy.Leads, r.copy.Term, r.copy.Line, r.copy.Flushed = false, 2, 2, 3*segment })
	r.turns(2)
	if !r.keeper.Unshipped(2, 2) {
		t.Error("the repository does not know the new timeline, and the copy may go")
	}
	opened := repository.Repository{Store: store.Folder{Path: r.folder}, Root: "prod/cities/u/"}
	if err := opened.PutHistory(context.Background(), 2, []byte("1\t0/200000\tno recovery target\n")); err != nil {
		t.Fatal(err)
	}
	r.turns(2)
	const whole = "wal/00000001/000000010000000000000001.zst"
	if r.keeper.Unshipped(2, 2) || !slices.Contains(r.objects(), whole) {
		t.Errorf("below the fork there is only %q", r.objects())
	}
	if slices.Contains(r.objects(), "wal/00000001/000000010000000000000002.zst") {
		t.Error("log beyond the fork was shipped")
	}
	away := func(string, string) error { return &store.Error{Class: store.Away, Err: errors.New("no")} }
	r.change(func() { r.copy.Term, r.copy.Line, r.fails = 3, 3, away })
	r.turns(1)
	if !r.keeper.Unshipped(3, 3) {
		t.Error("nothing was shipped, and the copy may go")
	}
	r.change(func() { r.now = r.now.Add(16 * time.Second) })
	if r.keeper.Unshipped(3, 3) {
		t.Error("a repository that is away is waited for, and writes may wait for the copy")
	}
	r.change(func() { r.copy.Term, r.copy.Line, r.fails, r.now = 4, 4, nil, r.now.Add(time.Hour) })
	r.turns(2)
	if !r.keeper.Unshipped(4, 4) {
		t.Error("the repository answers, and does not know the new timeline yet")
	}
	r.change(func() { r.now = r.now.Add(3 * time.Minute) })
	if r.keeper.Unshipped(4, 4) {
		t.Error("a timeline that nobody ships is waited for without end")
	}
}

func tarOf(files map[string]string) []byte {
	var content bytes.Buffer
	writer := newTar(&content)
	for _, name := range []string{"backup_label", "PG_VERSION", "backup_manifest"} {
		writer.add(name, files[name])
	}
	writer.close()
	return content.Bytes()
}
