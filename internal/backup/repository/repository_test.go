package repository_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/backup/repository"
	"meridian.dev/meridian/internal/backup/seal"
	"meridian.dev/meridian/internal/backup/store"
	"meridian.dev/meridian/internal/backup/store/model"
)

const size = 1 << 20

var owner = backup.Owner{DatabaseUID: "u1", Namespace: "prod", Name: "cities", SystemIdentifier: "7", SegmentSize: size}

func newRepository(t *testing.T) (*repository.Repository, *model.Store) {
	t.Helper()
	text, err := seal.NewKey()
	must(t, err)
	keys, err := seal.ParseKeys(text)
	must(t, err)
	now := time.Date(2026, 11, 18, 0, 0, 0, 0, time.UTC)
	under := &model.Store{Now: func() time.Time { now = now.Add(time.Second); return now }}
	return &repository.Repository{Store: under, Root: backup.Root("geo", "prod", "cities", "u1"), Keys: keys}, under
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// overwrite does what nobody may.
func overwrite(t *testing.T, under *model.Store, name string, change func([]byte) []byte) {
	t.Helper()
	ctx := context.Background()
	reader, err := under.Get(ctx, name)
	must(t, err)
	content, err := io.ReadAll(reader)
	must(t, err)
	must(t, under.Delete(ctx, name))
	must(t, under.PutIfAbsent(ctx, name, bytes.NewReader(change(content))))
}

func TestANamesakeAndACopyAreForeign(t *testing.T) {
	ctx := context.Background()
	r, _ := newRepository(t)
	must(t, r.Claim(ctx, owner))
	must(t, r.Claim(ctx, owner))
	namesake, other := owner, owner
	namesake.DatabaseUID, other.SystemIdentifier = "u2", "8"
	for name, claimant := range map[string]backup.Owner{"a namesake": namesake, "another system": other} {
		err := r.Claim(ctx, claimant)
		if !errors.Is(err, repository.ErrForeign) || !strings.Contains(err.Error(), "prod/cities") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestALaterLayoutIsLeftAlone(t *testing.T) {
	ctx := context.Background()
	r, under := newRepository(t)
	must(t, r.Claim(ctx, owner))
	overwrite(t, under, r.Root+backup.OwnerName, func(content []byte) []byte {
		return bytes.Replace(content, []byte(`"version": 1`), []byte(`"version": 2`), 1)
	})
	if _, err := r.Catalogue(ctx); err == nil || !strings.Contains(err.Error(), "use a newer Meridian") {
		t.Errorf("%v", err)
	}
}

// What is wrong with an object is told by its name, each in its own words.
func TestWhatIsWrongIsToldByName(t *testing.T) {
	ctx := context.Background()
	r, under := newRepository(t)
	must(t, r.Claim(ctx, owner))
	content := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	must(t, r.PutSegment(ctx, owner, 1, 5, bytes.NewReader(content)))
	must(t, r.PutTail(ctx, owner, 1, backup.Tail{Number: 6, From: 0, To: 32}, bytes.NewReader(content[:32])))
	must(t, r.PutTail(ctx, owner, 1, backup.Tail{Number: 6, From: 16, To: 64}, bytes.NewReader(content[16:64])))
	catalogue, err := r.Catalogue(ctx)
	must(t, err)
	files := plan.Follow(&catalogue, plan.Newest(&catalogue), 5*size).Files
	if len(files) != 2 {
		t.Fatalf("%+v", files)
	}
	read := func() error {
		for _, file := range files {
			var got bytes.Buffer
			if err := r.WriteFile(ctx, file, size, &got); err != nil {
				return err
			}
			want := append(bytes.Clone(content[:file.Valid]), make([]byte, size-file.Valid)...)
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("segment %d has another content", file.Number)
			}
		}
		return nil
	}
	must(t, read())
	name := r.Root + files[0].Whole
	under.Fault = func(call, _ string) model.Fault {
		if call == "get" {
			return model.Missed
		}
		return model.None
	}
	if err := read(); !store.Is(err, store.Away) || errors.Is(err, repository.ErrLost) {
		t.Errorf("listed, but not found: %v", err)
	}
	under.Fault = nil
	own := r.Keys
	text, err := seal.NewKey()
	must(t, err)
	r.Keys, err = seal.ParseKeys(text)
	must(t, err)
	if err := read(); !errors.Is(err, seal.ErrKeyWrong) || !strings.Contains(err.Error(), files[0].Whole) {
		t.Errorf("a wrong key: %v", err)
	}
	r.Keys = own
	overwrite(t, under, name, func(content []byte) []byte { content[len(content)/2] ^= 1; return content })
	if err := read(); !errors.Is(err, seal.ErrDamaged) || !strings.Contains(err.Error(), files[0].Whole) {
		t.Errorf("a flipped bit: %v", err)
	}
	must(t, under.Delete(ctx, name))
	if err := read(); !errors.Is(err, repository.ErrLost) || !strings.Contains(err.Error(), files[0].Whole) {
		t.Errorf("a lost segment: %v", err)
	}
}

func TestAPartThatWasExchangedIsFound(t *testing.T) {
	ctx := context.Background()
	r, under := newRepository(t)
	name := backup.PartName("b1", 1, r.Keys.Suffix())
	sum, err := r.PutPart(ctx, name, strings.NewReader("files"))
	must(t, err)
	part := backup.Part{Name: name, SHA256: sum}
	read := func() error {
		reader, err := r.OpenPart(ctx, part)
		if err != nil {
			return err
		}
		_, err = io.ReadAll(reader)
		return errors.Join(err, reader.Close())
	}
	must(t, read())
	must(t, under.Delete(ctx, r.Root+name))
	if _, err := r.PutPart(ctx, name, strings.NewReader("other files")); err != nil {
		t.Fatal(err)
	}
	if err := read(); !errors.Is(err, seal.ErrDamaged) {
		t.Errorf("a part that is sealed by our own key, but another: %v", err)
	}
}
