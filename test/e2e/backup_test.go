//go:build cluster

package e2e_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/seal"
	"meridian.dev/meridian/kit/condition"
	"meridian.dev/meridian/test/e2e/checks"
	processes "meridian.dev/meridian/test/e2e/faults"
	"meridian.dev/meridian/test/e2e/traffic"
)

var backupCases = flag.String("backups", "short", "short, all, or names of cases with semicolons between")

// backed is a database that is kept in a repository.
type backed struct {
	*failover
	store *objectStore
	uid   types.UID
}

// backupCase is something that happens to a database under traffic, whose backups must be well afterwards.
type backupCase struct {
	name  string
	short bool
	do    func(*backed)
	// moves says that the primary may be another afterwards, and that writes may have failed.
	moves bool
}

var backupTable = []backupCase{
	{name: "a base backup on request", short: true, do: (*backed).baseOnRequest},
	{name: "a restore on trial", short: true, do: (*backed).restoreOnTrial},
	{name: "the credentials are wrong", do: (*backed).wrongCredentials},
	{name: "the agent of the primary is killed", short: true, do: (*backed).killShipping, moves: true},
	{name: "the repository is away for half a minute", short: true, do: func(b *backed) { b.away(30 * time.Second) }},
	{name: "the repository is away for five minutes", do: func(b *backed) { b.away(5 * time.Minute) }},
	{name: "the key is wrong", do: (*backed).wrongKey},
	{name: "the key is replaced", do: (*backed).replaceKey},
	{name: "the bucket is wrong", do: (*backed).wrongBucket},
	{name: "the agent is killed during a base backup", do: (*backed).killDuringBase, moves: true},
	{name: "the primary is lost during a base backup", do: (*backed).loseDuringBase, moves: true},
	{name: "the node of the primary is off", do: (*backed).nodeOff, moves: true},
}

// TestBackup keeps a database in an S3 server in the cluster, does to both what happens to them, and reads the
// repository from outside: no write is lost or refused for it, and the log there has no gap.
func TestBackup(t *testing.T) {
	b := &backed{}
	var created time.Time
	b.failover = newFailover(t, func(database *v1alpha1.GeoDatabase) {
		b.store = newStore(connect(t), database.Namespace)
		database.Spec.Backup = b.store.backup()
		created = time.Now()
	})
	database, err := b.get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b.uid = database.UID
	b.awaitRecoverable("the first point can be restored to")
	t.Logf("first recoverable point %s after the database was made", time.Since(created).Round(100*time.Millisecond))
	b.checkAge()
	ran := 0
	for _, one := range backupTable {
		named := slices.Contains(strings.Split(*backupCases, ";"), one.name)
		if *backupCases == "all" || *backupCases == "short" && one.short || named {
			b.try(one)
			ran++
		}
	}
	if ran == 0 {
		t.Fatalf("-backups=%s names none", *backupCases)
	}
	b.checkCopies()
	b.checkSegments()
}

// try is one case, once: all well, traffic, the case, all well again, and the repository as it should be.
func (b *backed) try(one backupCase) {
	b.t.Helper()
	b.awaitWell()
	b.steer()
	b.startTraffic()
	b.awaitSteady("writes are accepted before " + one.name)
	times, begun := checks.Times{Fault: b.traffic.Now()}, time.Now()
	one.do(b)
	b.awaitWell()
	b.awaitSteady("writes are accepted after " + one.name)
	b.c.until("there were enough writes to judge", time.Minute, func(context.Context) (bool, string) {
		return b.traffic.Acknowledged() > 150, fmt.Sprint(b.traffic.Acknowledged())
	})
	times.End = b.traffic.Now()
	operations := b.endTraffic(times.Fault)
	verdict := checks.Judge(operations, b.present(), times)
	lsn := b.place()
	b.awaitRecoverable("the database is recoverable after " + one.name)
	b.checkNoGaps()
	b.store.checkWhole(failoverName, b.uid, lsn)
	b.t.Logf("%s: longest pause of writes %s, lost %d, took %s", one.name, ms(verdict.Gap), len(verdict.Lost),
		time.Since(begun).Round(100*time.Millisecond))
	if problem := verdict.Bad() + verdict.Invalid(); problem != "" {
		b.t.Errorf("%s: %s", one.name, problem)
	}
	if refused := refusals(operations, times); !one.moves && len(refused) > 0 {
		b.t.Errorf("%s: %d writes were not acknowledged, such as %+v", one.name, len(refused), refused[0])
	}
}

// refusals are the writes from a fault to its end that were not acknowledged. Those that were under way when the
// traffic was stopped do not count.
func refusals(operations []traffic.Operation, times checks.Times) []traffic.Operation {
	return slices.DeleteFunc(slices.Clone(operations), func(one traffic.Operation) bool {
		return one.Fate == traffic.Acknowledged || one.Begin < times.Fault || one.End > times.End
	})
}

// place is how far the log is now.
func (b *backed) place() string {
	b.t.Helper()
	var lsn string
	b.c.until("the primary tells its place in the log", 30*time.Second, func(ctx context.Context) (bool, string) {
		var err error
		lsn, err = b.ask(ctx, b.pod(b.before), `select pg_current_wal_flush_lsn()::text`)
		return err == nil, fmt.Sprint(err)
	})
	return lsn
}

func (b *backed) awaitRecoverable(what string) {
	b.t.Helper()
	b.c.until(what, 4*time.Minute, func(ctx context.Context) (bool, string) {
		database, err := b.get(ctx)
		if err != nil {
			return false, err.Error()
		}
		found := condition.Find(database.Status.Conditions, v1alpha1.ConditionRecoverable)
		return found != nil && found.Status == "True", fmt.Sprintf("%+v %+v", found, database.Status.Backup)
	})
}

// awaitReason waits until the condition says why the database is not recoverable, and tells how long that took.
func (b *backed) awaitReason(reason string) {
	b.t.Helper()
	// An agent reads the repository every two minutes, and the operator looks at that every half one.
	took := b.c.until("the condition says "+reason, 4*time.Minute,
		b.conditionIs(v1alpha1.ConditionRecoverable, "False", reason))
	b.t.Logf("%s shown after %s", reason, took.Round(100*time.Millisecond))
	database, err := b.get(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	if !condition.IsTrue(database.Status.Conditions, v1alpha1.ConditionServing) {
		b.t.Errorf("%s: Serving depends on backups: %+v", reason, database.Status.Conditions)
	}
}

// checkAge sees what a user sees first.
func (b *backed) checkAge() {
	b.t.Helper()
	b.c.until("the newest point is seconds old", time.Minute, func(context.Context) (bool, string) {
		table := b.c.kubectl("-n", b.c.space, "get", "gdb", failoverName)
		lines := strings.SplitN(table, "\n", 3)
		return len(lines) > 1 && strings.Contains(lines[0], "RECOVERABLE") && strings.Contains(lines[1], "<10s"), table
	})
}

func (b *backed) checkNoGaps() {
	b.t.Helper()
	database, err := b.get(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	if told := database.Status.Backup; told == nil || len(told.Gaps) > 0 {
		b.t.Errorf("the status tells of gaps: %+v", told)
	}
}

// touch changes the database in a way that means nothing: the operator looks at Secrets then.
func (b *backed) touch() {
	b.t.Helper()
	b.c.kubectl("-n", b.c.space, "annotate", "gdb", failoverName, "--overwrite",
		fmt.Sprintf("example.org/touched=%d", time.Now().UnixNano()))
}

// baseOnRequest asks for a base backup and waits for it.
func (b *backed) baseOnRequest() {
	b.t.Helper()
	before := b.backups()
	b.askBase("on request")
	b.awaitBase("on request")
	if after := b.backups(); after != before+1 {
		b.t.Errorf("there were %d base backups, and there are %d", before, after)
	}
}

func (b *backed) backups() int { return len(b.store.catalogue(failoverName, b.uid).Backups) }

func (b *backed) askBase(token string) { b.patch(`{"spec":{"backup":{"now":"` + token + `"}}}`) }

func (b *backed) awaitBase(token string) {
	b.t.Helper()
	took := b.c.until("the base backup "+token+" is there", 6*time.Minute, func(ctx context.Context) (bool, string) {
		database, err := b.get(ctx)
		if err != nil || database.Status.Backup == nil {
			return false, fmt.Sprint(err)
		}
		told := database.Status.Backup
		return told.Now == token && told.Running == "" && int(told.Backups) == b.backups(), fmt.Sprintf("%+v", told)
	})
	b.t.Logf("the base backup %q took %s", token, took.Round(100*time.Millisecond))
}

// restoreOnTrial turns restores on trial on and asks for one.
func (b *backed) restoreOnTrial() { b.tryRestore("on trial") }

// tryRestore asks for a restore on trial: it is made beside the instances, finds the backup good, tells how long it
// took, and leaves nothing in the cluster.
func (b *backed) tryRestore(token string) {
	b.t.Helper()
	trial := client.ObjectKey{Namespace: b.c.space, Name: failoverName + "-trial"}
	before := len(b.store.catalogue(failoverName, b.uid).Verified)
	b.patch(`{"spec":{"backup":{"verify":"weekly","verifyNow":"` + token + `"}}}`)
	b.c.until("the pod of a restore on trial is there", time.Minute, func(ctx context.Context) (bool, string) {
		err := b.c.Get(ctx, trial, &corev1.Pod{})
		return err == nil, fmt.Sprint(err)
	})
	var told *v1alpha1.BackupStatus
	took := b.c.until("the backup is verified", 6*time.Minute, func(ctx context.Context) (bool, string) {
		database, err := b.get(ctx)
		if err != nil || database.Status.Backup == nil {
			return false, fmt.Sprint(err)
		}
		told = database.Status.Backup
		return told.VerifyNow == token, fmt.Sprintf("%+v", told)
	})
	if told.VerifyProblem != "" || told.LastVerified == nil || told.RestoreDuration == nil {
		b.t.Fatalf("the restore on trial came to %+v", told)
	}
	b.t.Logf("the restore on trial took %s, of which the restore %s", took.Round(100*time.Millisecond),
		told.RestoreDuration.Duration)
	b.c.until("the pod and its volume are gone", time.Minute, func(ctx context.Context) (bool, string) {
		claim := client.ObjectKey{Namespace: trial.Namespace, Name: trial.Name + "-scratch"}
		pod, volume := b.c.Get(ctx, trial, &corev1.Pod{}), b.c.Get(ctx, claim, &corev1.PersistentVolumeClaim{})
		return apierrors.IsNotFound(pod) && apierrors.IsNotFound(volume), fmt.Sprint(pod, volume)
	})
	catalogue := b.store.catalogue(failoverName, b.uid)
	newest := catalogue.Backups[len(catalogue.Backups)-1].ID
	found := slices.ContainsFunc(catalogue.Verified, func(one backup.Verified) bool {
		return one.Backup == newest && one.Problem == ""
	})
	if len(catalogue.Verified) != before+1 || !found {
		b.t.Errorf("the newest base backup is %s, and the repository has %+v", newest, catalogue.Verified)
	}
}

func (b *backed) wrongCredentials() {
	undo := b.store.setSecret(storeName+"-credentials", map[string]string{v1alpha1.KeySecretAccessKey: "another"})
	b.touch()
	b.awaitReason("CredentialsRefused")
	undo()
	b.touch()
	b.awaitRecoverable("the credentials are right again")
}

func (b *backed) wrongKey() {
	undo := b.store.setSecret(keyName, map[string]string{v1alpha1.KeyIdentity: newKey(b.t)})
	b.touch()
	b.awaitReason("KeyWrong")
	undo()
	b.touch()
	b.awaitRecoverable("the key is right again")
}

// replaceKey puts another key before the old one. What is written from then on is sealed with it, and the old one still
// opens what was there before.
func (b *backed) replaceKey() {
	another := newKey(b.t)
	keys, err := seal.ParseKeys(another)
	if err != nil {
		b.t.Fatal(err)
	}
	b.store.key = another + b.store.key
	b.store.setSecret(keyName, map[string]string{v1alpha1.KeyIdentity: b.store.key})
	b.touch()
	// The kubelets of the instances take a while to show them what is in the Secret: a base backup may be faster.
	const most = 6
	for try := 1; ; try++ {
		token, before := fmt.Sprintf("with another key, %d", try), b.backups()
		b.askBase(token)
		b.awaitBase(token)
		if after := b.backups(); after != before+1 {
			b.t.Errorf("there were %d base backups, and there are %d", before, after)
		}
		err := b.opens(len(b.store.catalogue(failoverName, b.uid).Backups)-1, keys)
		if err == nil {
			break
		}
		if try == most {
			b.t.Fatalf("the newest base backup is not sealed with the new key alone: %v", err)
		}
		b.t.Logf("the base backup %q was sealed before the key was there: %v", token, err)
		time.Sleep(15 * time.Second)
	}
	if err := b.opens(0, keys); !errors.Is(err, seal.ErrKeyWrong) {
		b.t.Errorf("the oldest base backup, which the old key has sealed, and the new one: %v", err)
	}
	both, err := seal.ParseKeys(b.store.key)
	if err == nil {
		err = b.opens(0, both)
	}
	if err != nil {
		b.t.Errorf("the oldest base backup does not open with both keys: %v", err)
	}
}

// opens reads the beginning of a base backup with some keys, counted from the oldest.
func (b *backed) opens(number int, keys seal.Keys) error {
	b.t.Helper()
	opened := b.store.open(failoverName, b.uid)
	name := b.store.catalogue(failoverName, b.uid).Backups[number].Manifest.Name
	opened.Keys = keys
	content, err := opened.Open(b.t.Context(), name)
	if err != nil {
		return err
	}
	_, err = io.ReadFull(content, make([]byte, 1))
	return errors.Join(err, content.Close())
}

func (b *backed) wrongBucket() {
	b.patch(`{"spec":{"backup":{"repository":{"s3":{"bucket":"another"}}}}}`)
	b.awaitReason("RepositoryAway")
	b.patch(`{"spec":{"backup":{"repository":{"s3":{"bucket":"` + bucket + `"}}}}}`)
	b.awaitRecoverable("the bucket is right again")
}

// away takes the server of the repository away, and looks that the log kept for it stays bounded.
func (b *backed) away(hold time.Duration) {
	b.store.scale(0)
	begun := time.Now()
	b.awaitReason("RepositoryAway")
	time.Sleep(max(0, hold-time.Since(begun)))
	b.checkSegments()
	b.store.scale(1)
	b.awaitRecoverable("the repository is back")
}

func (b *backed) killShipping() {
	b.killAgent()
	time.Sleep(2 * time.Second)
}

// killDuringBase kills the agent that makes a base backup of a few hundred MiB, while it does.
func (b *backed) killDuringBase() {
	b.fill()
	b.patch(`{"spec":{"backup":{"maxRate":"8Mi"}}}`) // It shall be seen before it is done.
	const token = "killed"
	b.askBase(token)
	maker := b.awaitMaker()
	found, err := processes.Find(b.c.space, maker)
	if err != nil {
		b.t.Fatal(err)
	}
	b.signal(syscall.SIGKILL, found.Agent)
	b.t.Logf("the agent of %s was killed during the base backup", maker)
	b.awaitBase(token)
	b.patch(`{"spec":{"backup":{"maxRate":null}}}`)
}

// fill writes a few hundred MiB that hardly compress, once.
func (b *backed) fill() {
	b.t.Helper()
	err := b.exec(b.t.Context(), `create table if not exists bulk (content text)`)
	for leap := 0; err == nil && leap < 12; leap++ {
		err = b.exec(b.t.Context(), `insert into bulk select string_agg(md5(random()::text), '') from generate_series(1, 800)
			cross join generate_series(1, 600) as row where (select count(*) from bulk) <= `+strconv.Itoa(600*leap)+`
			group by row`)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// awaitMaker waits until a base backup runs, and returns who makes it.
func (b *backed) awaitMaker() (maker string) {
	b.t.Helper()
	b.c.until("the base backup runs", 3*time.Minute, func(ctx context.Context) (bool, string) {
		database, err := b.get(ctx)
		if err != nil || database.Status.Backup == nil {
			return false, fmt.Sprint(err)
		}
		maker, _, _ = strings.Cut(database.Status.Backup.Running, ":")
		return maker != "", fmt.Sprintf("%+v", database.Status.Backup)
	})
	return maker
}

// copying is the process that takes the base backup of an instance, 0 if none does.
func (b *backed) copying(instance string) int {
	b.t.Helper()
	found, err := processes.Find(b.c.space, instance)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, pid := range found.Others {
		if name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err == nil &&
			strings.TrimSpace(string(name)) == "pg_basebackup" {
			return pid
		}
	}
	return 0
}

// loseDuringBase takes the power of the primary's node while a replica makes a base backup, so slowly that it lasts
// until long after the failover. The store stays. In the end the backup is there, and is restored on trial.
func (b *backed) loseDuringBase() {
	b.leaveNodeOfStore()
	b.fill()
	b.patch(`{"spec":{"backup":{"maxRate":"3Mi"}}}`)
	const token = "across a failover"
	term := b.term
	b.askBase(token)
	maker := b.awaitMaker()
	if maker == b.before {
		b.t.Fatalf("the primary %s makes the base backup, and there are replicas", maker)
	}
	var before int
	b.c.until("pg_basebackup runs", 30*time.Second, func(context.Context) (bool, string) {
		before = b.copying(maker)
		return before != 0, "it does not"
	})
	lost := b.before
	undo := b.stopNode()
	b.awaitTerm(term)
	during := b.copying(maker)
	b.awaitSteady("writes are accepted while the node is off")
	after := b.copying(maker)
	database, err := b.get(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Logf("%s was lost while %s made a base backup: pg_basebackup was process %d, %d when the lease was taken, and %d "+
		"when writes were accepted; the primary is %s", lost, maker, before, during, after, database.Status.Primary)
	if during != before {
		b.t.Errorf("the base backup did not last until the failover: this shows nothing")
	}
	undo()
	b.patch(`{"spec":{"backup":{"maxRate":null}}}`)
	b.awaitBase(token)
	b.awaitWell()
	b.tryRestore(token)
}

// nodeOff takes the power of the primary's node while it ships. That of the store stays on.
func (b *backed) nodeOff() {
	b.leaveNodeOfStore()
	term := b.term
	undo := b.stopNode()
	b.awaitTerm(term)
	b.awaitSteady("writes are accepted while the node is off")
	undo()
}

// leaveNodeOfStore has the primary on another node than the store, and the traffic on the way to it.
func (b *backed) leaveNodeOfStore() {
	b.t.Helper()
	for b.node == b.store.node() {
		b.askSwitchover()
		b.awaitTerm(b.term)
		b.awaitWell()
	}
	b.steer()
}
