//go:build cluster

package backup_test

import (
	"os"
	"path/filepath"
	"testing"

	"meridian.dev/meridian/internal/backup/plan"
)

// A transaction that is prepared and not decided yet comes back as it is. The base backup knows nothing of it, nor that
// the server has got room for such.
func TestAPreparedTransactionComesBack(t *testing.T) {
	r, a := newRig(t)
	a.sql("create table words (id serial primary key, word text)")
	r.ship(a)
	r.backup("b1", a, a)
	a.sql("alter system set max_prepared_transactions = 8")
	a.kill()
	a.start()
	a.sql("begin; insert into words (word) values ('prepared'); prepare transaction 'one'")
	r.ship(a)
	a.kill()
	r.reset = []string{"select 1"}
	restored, _, err := r.restore(plan.Target{}, nil)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(restored.data, "postgresql.auto.conf"),
		[]byte("max_prepared_transactions = 8\n"), 0o600))
	restored.start()
	restored.sql("commit prepared 'one'")
	if got := restored.sql("select word from words"); got != "prepared" {
		t.Errorf("it has %q", got)
	}
	result, err := r.verify()
	must(t, err)
	if result.Problem != nil {
		t.Error(result.Problem)
	}
}
