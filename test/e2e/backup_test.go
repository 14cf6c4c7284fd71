//go:build cluster

package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
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
	{name: "the bucket is wrong", do: (*backed).wrongBucket},
	{name: "the agent is killed during a base backup", do: (*backed).killDuringBase, moves: true},
	{name: "the node of the primary is off", do: (*backed).nodeOff, moves: true},
}

// TestBackup keeps a database in an S3 server in the cluster, does to both what happens to them, and reads the
// repository from outside: no write is lost or refused for it, and the log there has no gap.
func TestBackup(t *testing.T) {
	b := &backed{}
	var created time.Time
	b.failover = newFailover(t, func(database *v1alpha1.GeoDatabase) {
		b.store = newStore(connect(t), failoverSpace)
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
		table := b.c.kubectl("-n", failoverSpace, "get", "gdb", failoverName)
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
	b.c.kubectl("-n", failoverSpace, "annotate", "gdb", failoverName, "--overwrite",
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

// restoreOnTrial turns restores on trial on and asks for one: it is made beside the instances, finds the backup good,
// tells how long it took, and leaves nothing in the cluster.
func (b *backed) restoreOnTrial() {
	b.t.Helper()
	const token = "on trial"
	trial := client.ObjectKey{Namespace: failoverSpace, Name: failoverName + "-trial"}
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
	verified := b.store.catalogue(failoverName, b.uid).Verified
	if len(verified) != 1 || verified[0].Problem != "" {
		b.t.Errorf("the repository has %+v", verified)
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
	err := b.exec(b.t.Context(), `create table if not exists bulk (content text)`)
	for leap := 0; err == nil && leap < 12; leap++ {
		err = b.exec(b.t.Context(), `insert into bulk select string_agg(md5(random()::text), '') from generate_series(1, 800)
			cross join generate_series(1, 600) as row group by row`)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	const token = "killed"
	b.askBase(token)
	var maker string
	b.c.until("the base backup runs", 3*time.Minute, func(ctx context.Context) (bool, string) {
		database, err := b.get(ctx)
		if err != nil || database.Status.Backup == nil {
			return false, fmt.Sprint(err)
		}
		maker, _, _ = strings.Cut(database.Status.Backup.Running, ":")
		return maker != "", fmt.Sprintf("%+v", database.Status.Backup)
	})
	found, err := processes.Find(failoverSpace, maker)
	if err != nil {
		b.t.Fatal(err)
	}
	b.signal(syscall.SIGKILL, found.Agent)
	b.t.Logf("the agent of %s was killed during the base backup", maker)
	b.awaitBase(token)
}

// nodeOff takes the power of the primary's node while it ships. That of the store stays on.
func (b *backed) nodeOff() {
	for b.node == b.store.node() {
		b.askSwitchover()
		b.awaitTerm(b.term)
		b.awaitWell()
	}
	term := b.term
	b.steer()
	undo := b.stopNode()
	b.awaitTerm(term)
	b.awaitSteady("writes are accepted while the node is off")
	undo()
}
