//go:build cluster

package backup_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/internal/backup/restore"
	"meridian.dev/meridian/internal/backup/verify"
)

func (r *rig) verify() (verify.Result, error) {
	r.t.Helper()
	work, err := os.MkdirTemp("", "v-")
	must(r.t, err)
	r.t.Cleanup(func() { _ = os.RemoveAll(work) })
	own, err := os.Executable()
	must(r.t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	return verify.Run(ctx, verify.Request{
		From: r.repository(), Tools: restore.Tools{Folder: programs(), Env: env}, Now: time.Now,
		Data: filepath.Join(work, "data"), Work: work, FetchCommand: own + " fetch",
	})
}

const places = `create table places (id serial primary key, area box);
insert into places (area) select box(point(i, i), point(i + 2, i + 2)) from generate_series(1, 2000) i;
create index places_area on places using gist (area)`

// A trial restores, compares and writes its result down. An index that lost entries, of a kind that PostgreSQL's own
// check does not know, is found.
func TestTrialsFindWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct{ harm, says string }{
		"a sound database": {},
		// The index believes that a half of the table was never there.
		"an index that does not have every row": {
			harm: `create table half as select * from places where id > 1000;
update pg_index set indisready = false where indexrelid = 'places_area'::regclass;
insert into places (area) select area from places where id < 1000;
update pg_index set indisready = true where indexrelid = 'places_area'::regclass`,
			says: "places_area",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, a := newRig(t)
			a.sql(places)
			if c.harm != "" {
				for _, one := range strings.Split(c.harm, ";\n") {
					a.sql(one)
				}
			}
			r.ship(a)
			r.backup("b1", a, a)
			a.sql("insert into places (area) values (box(point(0, 0), point(1, 1)))")
			r.ship(a)
			a.kill()
			result, err := r.verify()
			must(t, err)
			switch {
			case c.says == "" && (result.Problem != nil || result.Indexes != 1):
				t.Errorf("%d indexes, %v", result.Indexes, result.Problem)
			case c.says != "" && (result.Problem == nil || !strings.Contains(result.Problem.Error(), c.says)):
				t.Errorf("it found %v", result.Problem)
			}
			catalogue, err := r.repository().Catalogue(t.Context())
			must(t, err)
			if len(catalogue.Verified) != 1 || catalogue.Verified[0].Backup != "b1" ||
				(catalogue.Verified[0].Problem == "") != (c.says == "") || catalogue.Verified[0].RestoreMilliseconds == 0 {
				t.Errorf("it wrote down %+v", catalogue.Verified)
			}
		})
	}
}
