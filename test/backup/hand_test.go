//go:build cluster

package backup_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The page that is run, and how it gets to a process that has another user and another folder.
const (
	pagePath     = "../../docs/guide/restore-by-hand.md"
	pageVariable = "MERIDIAN_TEST_PAGE"
)

// The page of the guide is run as it stands there.
func TestRestoreByHand(t *testing.T) {
	text := os.Getenv(pageVariable)
	if text == "" {
		content, err := os.ReadFile(pagePath)
		must(t, err)
		text = string(content)
	}
	_, rest, found := strings.Cut(text, "```sh\n")
	script, _, ended := strings.Cut(rest, "```\n")
	_, rest, foundMore := strings.Cut(rest, "```sql\n")
	statements, _, endedToo := strings.Cut(rest, "```\n")
	if !found || !ended || !foundMore || !endedToo {
		t.Fatal("the page has no script, or no statements after it")
	}
	for _, program := range []string{"age", "zstd", "tar"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("there is no %s on this machine", program)
		}
	}
	r, a := newRig(t)
	a.sql("create table words (id serial primary key, word text)")
	a.sql("alter system set cluster_name = 'old'")
	a.sql("create subscription taken connection 'host=/nowhere dbname=x' publication p with (connect = false)")
	a.sql("alter subscription taken enable")
	r.ship(a)
	r.backup("b1", a, a)
	a.sql("insert into words (word) values ('one'); select pg_switch_wal()")
	r.ship(a)
	a.sql("insert into words (word) values ('two')")
	r.ship(a)
	a.sql("insert into words (word) values ('three')")
	r.ship(a)
	a.kill()
	restored := newServer(t, "")
	key := filepath.Join(restored.folder, "key")
	must(t, os.WriteFile(key, []byte(r.key+"\n"), 0o600))
	command := exec.Command("bash", "-euo", "pipefail", "-c", script)
	command.Env = append([]string{
		"REPO=" + filepath.Join(r.store.Path, r.repository().Root), "KEY=" + key, "DATA=" + restored.data, "BASE=b1",
		"PATH=" + programs() + ":" + os.Getenv("PATH"),
	}, "LC_ALL=C.UTF-8", "HOME=/tmp")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	restored.start()
	restored.waitFor("select not pg_is_in_recovery()")
	const settings = "select current_setting('max_logical_replication_workers') || current_setting('cluster_name')"
	if got := restored.sql(settings); got != "0" {
		t.Errorf("its settings are those of the old one: %q", got)
	}
	for statement := range strings.SplitSeq(strings.TrimSpace(statements), "\n") {
		restored.sql(statement)
	}
	if got := restored.sql("select string_agg(subenabled::text, ' ') from pg_subscription"); got != "false" {
		t.Errorf("its subscriptions are enabled: %q", got)
	}
	if got := restored.sql("select string_agg(word, ' ' order by id) from words"); got != "one two three" {
		t.Errorf("it has %q", got)
	}
}
