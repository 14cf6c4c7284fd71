package base_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/base"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/backup/store/model"
	"meridian.dev/meridian/internal/postgres"
)

const (
	size     = 1 << 20
	label    = "START WAL LOCATION: 0/500028 (file 000000010000000000000005)\nSTART TIMELINE: 1\n"
	manifest = `{"PostgreSQL-Backup-Manifest-Version": 1, "Files": [], "WAL-Ranges": [` +
		`{ "Timeline": 1, "Start-LSN": "0/500028", "End-LSN": "0/600138" }], "Manifest-Checksum": "x"}`
)

type file struct{ name, content string }

// archive is what pg_basebackup writes to its standard output.
func archive(t *testing.T, files []file) []byte {
	t.Helper()
	var content bytes.Buffer
	writer := tar.NewWriter(&content)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: 0o600, Size: int64(len(f.content)), Typeflag: tar.TypeReg}
		if strings.HasSuffix(f.name, "/") {
			header.Typeflag, header.Mode = tar.TypeDir, 0o700
		}
		must(t, writer.WriteHeader(header))
		_, err := writer.Write([]byte(f.content))
		must(t, err)
	}
	must(t, writer.Close())
	return content.Bytes()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var owner = backup.Owner{DatabaseUID: "u1", SystemIdentifier: "7", SegmentSize: size}

func newRepository(t *testing.T) *repository.Repository {
	t.Helper()
	now := time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)
	to := &repository.Repository{
		Store: &model.Store{Now: func() time.Time { now = now.Add(time.Second); return now }}, Root: "x/",
	}
	must(t, to.Claim(context.Background(), owner))
	return to
}

var whole = []file{
	{"backup_label", label}, {"base/", ""}, {"base/1", strings.Repeat("a", 700)}, {"base/2", strings.Repeat("b", 700)},
	{"base/3", strings.Repeat("c", 2000)}, {"empty", ""}, {"global/pg_control", "control"}, {"backup_manifest", manifest},
}

func TestABackupIsCutBetweenFiles(t *testing.T) {
	ctx := context.Background()
	to := newRepository(t)
	var told int64
	request := base.Request{ID: "b1", PartSize: 1000, Progress: func(done int64) { told = done }}
	taken, err := base.Store(ctx, to, request, bytes.NewReader(archive(t, whole)))
	must(t, err)
	if taken.Start != 0x500028 || taken.Stop != 0x600138 || taken.Timeline != 1 || len(taken.Parts) != 3 ||
		told != taken.Size {
		t.Errorf("%+v, and %d bytes were told", taken, told)
	}
	var got []file
	for _, part := range taken.Parts {
		content, err := to.OpenPart(ctx, part)
		must(t, err)
		reader := tar.NewReader(content)
		for {
			header, err := reader.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			must(t, err)
			body, err := io.ReadAll(reader)
			must(t, err)
			got = append(got, file{header.Name, string(body)})
		}
		must(t, content.Close())
	}
	listed, err := to.OpenPart(ctx, taken.Manifest)
	must(t, err)
	if content, err := io.ReadAll(listed); err != nil || string(content) != manifest {
		t.Errorf("the manifest is %q, %v", content, err)
	}
	if len(got) != len(whole)-1 {
		t.Fatalf("%d files came back", len(got))
	}
	for index, f := range got {
		if f != whole[index] {
			t.Errorf("%s is another file than %s", f.name, whole[index].name)
		}
	}
}

// A backup that broke off is none: neither its end nor its manifest may be taken for granted.
func TestABackupThatBreaksOffIsNone(t *testing.T) {
	content := archive(t, whole)
	for name, broken := range map[string][]byte{
		"in a file":          content[:3000],
		"between two files":  archive(t, whole[:5]),
		"without a label":    archive(t, whole[1:]),
		"without any output": nil,
	} {
		to := newRepository(t)
		_, err := base.Store(context.Background(), to, base.Request{ID: "b1"}, bytes.NewReader(broken))
		if err == nil {
			t.Errorf("%s: it was stored", name)
		}
	}
}

func TestABackupExistsWithItsLogOnly(t *testing.T) {
	ctx := context.Background()
	to := newRepository(t)
	taken, err := base.Store(ctx, to, base.Request{ID: "b1"}, bytes.NewReader(archive(t, whole)))
	must(t, err)
	history := postgres.History{{Timeline: 1}}
	log := func(number uint64) {
		must(t, to.PutSegment(ctx, owner, 1, number, bytes.NewReader(make([]byte, size))))
	}
	log(5)
	if err := base.Complete(ctx, to, history, taken); !errors.Is(err, base.ErrLogMissing) {
		t.Errorf("without the log of its end: %v", err)
	}
	catalogue, err := to.Catalogue(ctx)
	must(t, err)
	if len(catalogue.Backups) != 0 || len(catalogue.Drafts) != 1 {
		t.Errorf("%+v", catalogue)
	}
	log(6)
	must(t, base.Complete(ctx, to, history, taken))
	catalogue, err = to.Catalogue(ctx)
	must(t, err)
	if len(catalogue.Backups) != 1 || len(catalogue.Drafts) != 0 {
		t.Errorf("%+v", catalogue)
	}
}

// What starts before the log that the repository begins with can never be complete: it is not copied in vain.
func TestABackupThatStartsTooEarlyIsNotCopied(t *testing.T) {
	ctx := context.Background()
	to := newRepository(t)
	must(t, to.PutTail(ctx, owner, 1, backup.Tail{Number: 6, To: 4}, strings.NewReader("tail")))
	var told int64
	request := base.Request{ID: "b1", PartSize: 1000, Progress: func(done int64) { told = done }}
	_, err := base.Store(ctx, to, request, bytes.NewReader(archive(t, whole)))
	if !errors.Is(err, base.ErrTooEarly) || !strings.Contains(err.Error(), "0/500028") || told != 0 {
		t.Errorf("%v, after %d bytes", err, told)
	}
	// Where the log began while it was copied, nobody waits for what is never shipped.
	taken := backup.Backup{ID: "b1", Timeline: 1, Start: 0x500028, Stop: 0x600138}
	err = base.Complete(ctx, to, postgres.History{{Timeline: 1}}, taken)
	if !errors.Is(err, base.ErrTooEarly) || errors.Is(err, base.ErrLogMissing) {
		t.Errorf("%v", err)
	}
	must(t, to.PutSegment(ctx, owner, 1, 5, strings.NewReader("log")))
	_, err = base.Store(ctx, to, request, bytes.NewReader(archive(t, whole)))
	must(t, err)
}

// again repeats a text for ever.
type again struct {
	text string
	at   int
}

func (a *again) Read(buffer []byte) (int, error) {
	count := copy(buffer, a.text[a.at:])
	a.at = (a.at + count) % len(a.text)
	return count, nil
}

// A database of many files has a large manifest, and the memory is PostgreSQL's.
func TestALargeManifestIsNotHeld(t *testing.T) {
	const entry = `{ "Path": "base/1/\"WAL-Ranges\": 1", "Size": 8192, "Checksum": "00000000" },` + "\n"
	begin, after := `{"PostgreSQL-Backup-Manifest-Version": 1, "Files": [`, strings.TrimPrefix(manifest, `{`)
	after = `{}], ` + after[strings.Index(after, `"WAL-Ranges"`):]
	middle := int64(1000_000 * len(entry))
	total := int64(len(begin)+len(after)) + middle
	var head bytes.Buffer
	writer := tar.NewWriter(&head)
	must(t, writer.WriteHeader(&tar.Header{Name: "backup_label", Mode: 0o600, Size: int64(len(label))}))
	_, err := writer.Write([]byte(label))
	must(t, err)
	must(t, writer.WriteHeader(&tar.Header{Name: "backup_manifest", Mode: 0o600, Size: total}))
	rest := bytes.NewReader(make([]byte, (512-total%512)%512+1024))
	from := io.MultiReader(&head, strings.NewReader(begin), io.LimitReader(&again{text: entry}, middle),
		strings.NewReader(after), rest)
	var before, behind runtime.MemStats
	runtime.ReadMemStats(&before)
	taken, err := base.Store(context.Background(), newRepository(t), base.Request{ID: "b1"}, from)
	runtime.ReadMemStats(&behind)
	must(t, err)
	if taken.Manifest.Size != total || taken.Stop != 0x600138 {
		t.Errorf("%+v", taken)
	}
	if used := int64(behind.TotalAlloc - before.TotalAlloc); used > total {
		t.Errorf("%d bytes were allocated for a manifest of %d", used, total)
	}
}

// What lies behind the manifest would be lost.
func TestNothingLiesBehindTheManifest(t *testing.T) {
	files := append(slices.Clone(whole), file{"late", "x"})
	from := bytes.NewReader(archive(t, files))
	_, err := base.Store(context.Background(), newRepository(t), base.Request{ID: "b1"}, from)
	if err == nil || !strings.Contains(err.Error(), "late") {
		t.Errorf("it ended with %v", err)
	}
}
