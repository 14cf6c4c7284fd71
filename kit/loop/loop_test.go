package loop_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"meridian.dev/meridian/kit/expect"
	"meridian.dev/meridian/kit/loop"
	"meridian.dev/meridian/kit/rule"
)

var request = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "a", Name: "one"}}

var me = expect.Owner{NamespacedName: request.NamespacedName, UID: "uid-one"}

type (
	// snapshot is the number of pods that were seen.
	snapshot struct{ Wanted, Pods int }
	// plan is how many to create.
	plan struct{ Create int }
	// outcome is how many were created.
	outcome struct{ Created int }
)

type (
	stages = loop.Stages[*appsv1.Deployment, snapshot, plan, outcome]
	pass   = loop.Pass[snapshot, plan, outcome]
)

// world is an API server, a cache that lags behind it until it is synced, and the loop under test.
type world struct {
	t        *testing.T
	server   *api
	cache    shelf
	now      time.Time
	tracker  *expect.Tracker
	stages   stages
	config   loop.Config
	recorder *events.FakeRecorder
	registry *prometheus.Registry
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{
		t: t, server: &api{shelf: shelf{}}, now: time.Unix(1000, 0),
		registry: prometheus.NewRegistry(), recorder: events.NewFakeRecorder(10),
	}
	three := int32(3)
	w.server.store(&appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one", UID: "uid-one"},
		Spec:       appsv1.DeploymentSpec{Replicas: &three},
	})
	w.sync()
	metrics, err := loop.NewMetrics(w.registry)
	if err != nil {
		t.Fatal(err)
	}
	w.tracker = expect.New(w, scheme.Scheme, expect.Options{Now: w.clock})
	w.config = loop.Config{
		Name: "ship", Client: lagging{w.server, w}, Live: w.server.shelf, Tracker: w.tracker,
		Events: w.recorder, Metrics: metrics, Now: w.clock,
	}
	w.stages = stages{Observe: w.observe, Decide: decide, Act: w.act, Report: report}
	return w
}

func (w *world) clock() time.Time { w.now = w.now.Add(time.Millisecond); return w.now }

// sync lets the cache catch up.
func (w *world) sync() { w.cache = maps.Clone(w.server.shelf) }

// Look implements expect.View over the cache of the moment.
func (w *world) Look(kind schema.GroupVersionKind, key types.NamespacedName) expect.Sight {
	return w.cache.Look(kind, key)
}

// events returns what was told so far.
func (w *world) events() (told []string) {
	for len(w.recorder.Events) > 0 {
		told = append(told, <-w.recorder.Events)
	}
	return told
}

func (w *world) observe(ctx context.Context, reader client.Reader, object *appsv1.Deployment) (snapshot, error) {
	var pods corev1.PodList
	if err := reader.List(ctx, &pods, client.InNamespace(object.Namespace)); err != nil {
		return snapshot{}, err
	}
	return snapshot{Wanted: int(*object.Spec.Replicas), Pods: len(pods.Items)}, nil
}

func decide(s snapshot) plan { return plan{Create: max(0, s.Wanted-s.Pods)} }

// act creates pods under names that are new each time, so that nothing but the tracker prevents surplus.
func (w *world) act(
	ctx context.Context, ledger expect.Ledger, object *appsv1.Deployment, p plan,
) (done outcome, err error) {
	for range p.Create {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: object.Namespace, Name: fmt.Sprint("pod-", w.clock().UnixMilli()),
		}}
		if err := w.server.Create(ctx, pod); err != nil {
			return done, err
		}
		ledger.Wrote(pod)
		done.Created++
	}
	return done, nil
}

func report(object *appsv1.Deployment, p pass) []loop.Event {
	object.Status.Replicas = int32(p.Snapshot.Pods + p.Outcome.Created)
	var told []loop.Event
	if p.Outcome.Created > 0 {
		note := fmt.Sprintf("100%% of %d", p.Outcome.Created)
		told = append(told, loop.Event{Reason: "Created", Action: "Create", Note: note})
	}
	if p.Err != nil {
		told = append(told, loop.Event{Warning: true, Reason: "Failed", Action: "Act", Note: p.Class.String()})
	}
	return told
}

func (w *world) reconcile() (reconcile.Result, error) {
	w.t.Helper()
	made, err := loop.New(w.config, w.stages)
	if err != nil {
		w.t.Fatal(err)
	}
	return made.Reconcile(w.t.Context(), request)
}

func (w *world) pods() (count int) {
	for _, obj := range w.server.shelf {
		if _, ok := obj.(*corev1.Pod); ok {
			count++
		}
	}
	return count
}

func (w *world) ends(want string) {
	w.t.Helper()
	full := "# HELP loop_passes_total Passes by how they ended.\n# TYPE loop_passes_total counter\n" + want + "\n"
	if err := testutil.GatherAndCompare(w.registry, strings.NewReader(full), "loop_passes_total"); err != nil {
		w.t.Error(err)
	}
}

// TestInfiniteCreation is the accident that the gate prevents: passes that follow each other faster than the cache.
// The same loop without a tracker falls for it.
func TestInfiniteCreation(t *testing.T) {
	cases := map[string]struct {
		tracked bool
		want    int
	}{
		"with expectations":    {true, 3},
		"without expectations": {false, 15},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if !tc.tracked {
				w.config.Tracker = nil
				w.stages.Report = func(*appsv1.Deployment, pass) []loop.Event { return nil }
			}
			for range 5 {
				if _, err := w.reconcile(); err != nil {
					t.Fatal(err)
				}
			}
			if got := w.pods(); got != tc.want {
				t.Errorf("pods = %d, want %d", got, tc.want)
			}
			w.sync()
			if _, err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			if got := w.pods(); got != tc.want {
				t.Errorf("after the cache caught up: pods = %d, want %d", got, tc.want)
			}
		})
	}
}

func TestGate(t *testing.T) {
	w := newWorld(t)
	var readings []expect.Answer
	w.stages.Report = func(object *appsv1.Deployment, p pass) []loop.Event {
		readings = append(readings, p.Reading.Answer)
		return report(object, p)
	}
	// The cache knows nothing of a pod of an earlier life of the process: the first pass reads live.
	w.server.store(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "early", UID: "uid-early"}})
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if got := w.pods(); got != 3 {
		t.Errorf("pods = %d, want 3: the first pass trusted the cache", got)
	}
	result, err := w.reconcile()
	if err != nil || result.RequeueAfter <= 0 || result.RequeueAfter > time.Second {
		t.Errorf("a pass that waits for the cache: %+v, %v", result, err)
	}
	w.now = w.now.Add(time.Minute)
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	w.sync()
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	want := []expect.Answer{expect.ReadLive, expect.ReadLive, expect.ReadCache}
	if diff := cmp.Diff(want, readings); diff != "" {
		t.Errorf("how the passes read (-want +got):\n%s", diff)
	}
	w.ends(`loop_passes_total{end="done",loop="ship"} 3
loop_passes_total{end="waited",loop="ship"} 1`)
}

// TestCacheMayNotGoBackBehindALiveRead has three pods that only the live read saw. The next pass must not believe a
// cache that does not know them.
func TestCacheMayNotGoBackBehindALiveRead(t *testing.T) {
	w := newWorld(t)
	w.stages.Report = func(*appsv1.Deployment, pass) []loop.Event { return nil }
	for _, name := range []string{"early", "earlier", "earliest"} {
		w.server.store(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(name)}})
	}
	for range 3 {
		if _, err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.pods(); got != 3 {
		t.Errorf("pods = %d, want 3", got)
	}
	w.ends(`loop_passes_total{end="done",loop="ship"} 1
loop_passes_total{end="waited",loop="ship"} 2`)
}

// TestLiveReadThatFailsIsRepeated shows that a live read counts only when it was finished.
func TestLiveReadThatFailsIsRepeated(t *testing.T) {
	w := newWorld(t)
	w.stages.Observe = func(context.Context, client.Reader, *appsv1.Deployment) (snapshot, error) {
		return snapshot{}, errors.New("half way")
	}
	if _, err := w.reconcile(); err == nil {
		t.Fatal("no error")
	}
	if got := w.tracker.Check(me); got.Cause != expect.MemoryEmpty {
		t.Errorf("verdict = %+v, want another live read", got)
	}
}

func TestStatusIsWrittenOnceAndOnlyIfChanged(t *testing.T) {
	w := newWorld(t)
	for i, want := range []int{1, 1, 1} {
		if _, err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
		w.sync()
		if w.server.statusWrites != want {
			t.Errorf("after pass %d: %d status writes, want %d", i, w.server.statusWrites, want)
		}
	}
	if live := w.server.shelf["Deployment a/one"].(*appsv1.Deployment); live.Status.Replicas != 3 {
		t.Errorf("status = %+v", live.Status)
	}
	if diff := cmp.Diff([]string{"Normal Created 100% of 3"}, w.events()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// TestOwnStatusIsAwaited shows that a pass does not start from the status before the one it has written itself.
func TestOwnStatusIsAwaited(t *testing.T) {
	w := newWorld(t)
	w.stages.Decide = func(snapshot) plan { return plan{} }
	w.stages.Report = func(object *appsv1.Deployment, _ pass) []loop.Event {
		object.Status.ObservedGeneration++
		return nil
	}
	for _, want := range []int{1, 1} {
		if _, err := w.reconcile(); err != nil || w.server.statusWrites != want {
			t.Errorf("error = %v, %d status writes, want %d", err, w.server.statusWrites, want)
		}
	}
	w.sync()
	if _, err := w.reconcile(); err != nil || w.server.statusWrites != 2 {
		t.Errorf("error = %v, %d status writes after the cache caught up, want 2", err, w.server.statusWrites)
	}
}

// TestStatusConflict has somebody change the object during the pass: the status is not forced upon the new version.
func TestStatusConflict(t *testing.T) {
	w := newWorld(t)
	act := w.stages.Act
	w.stages.Act = func(ctx context.Context, l expect.Ledger, o *appsv1.Deployment, p plan) (outcome, error) {
		w.server.store(w.server.shelf["Deployment a/one"].DeepCopyObject().(client.Object))
		return act(ctx, l, o, p)
	}
	result, err := w.reconcile()
	if err != nil || result.RequeueAfter != loop.DefaultConflictDelay {
		t.Errorf("result = %+v, %v, want a quiet retry", result, err)
	}
	w.ends(`loop_passes_total{end="conflict",loop="ship"} 1`)
	if len(w.events()) != 1 {
		t.Errorf("events = %v, want what was done to be told", w.events())
	}
}

func TestStatusInDoubt(t *testing.T) {
	w := newWorld(t)
	w.server.failing = apierrors.NewTimeoutError("slow", 1)
	if _, err := w.reconcile(); err == nil || !strings.Contains(err.Error(), "report: write the status") {
		t.Errorf("error = %v", err)
	}
	if got := w.tracker.Check(me); got.Cause != expect.WriteInDoubt {
		t.Errorf("verdict = %+v, want doubt", got)
	}
	w.server.failing = apierrors.NewForbidden(schema.GroupResource{}, "one", errors.New("no"))
	w.sync()
	w.tracker.Confirm(me)
	if _, err := w.reconcile(); !apierrors.IsForbidden(err) {
		t.Errorf("error = %v", err)
	}
	if got := w.tracker.Check(me); got.Answer != expect.ReadCache {
		t.Errorf("verdict = %+v: a refusal is no doubt", got)
	}
}

type final struct{}

func (final) Error() string { return "no way" }

func (final) Terminal() bool { return true }

func TestResults(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{}, "x", errors.New("moved"))
	failing := func(err error) func(*world) {
		return func(w *world) {
			w.stages.Act = func(context.Context, expect.Ledger, *appsv1.Deployment, plan) (outcome, error) {
				return outcome{}, err
			}
		}
	}
	holding := func(holds ...loop.Hold) func(*world) {
		return func(w *world) { w.stages.Holds = func(plan) []loop.Hold { return holds } }
	}
	both := func(first, second func(*world)) func(*world) { return func(w *world) { first(w); second(w) } }
	hold := loop.Hold{Name: "Start", Recheck: 7 * time.Second}
	cases := map[string]struct {
		set    func(*world)
		after  time.Duration
		err    string
		end    string
		event  string
		isTerm bool
	}{
		"nothing to wait for": {set: func(*world) {}, end: "done", event: "Normal Created 100% of 3"},
		"the earliest hold": {
			set:   holding(loop.Hold{Name: "A", Recheck: time.Minute}, hold, loop.Hold{Name: "Event"}),
			after: 7 * time.Second, end: "done", event: "Normal Created 100% of 3",
		},
		"a hold without recheck": {
			set: holding(loop.Hold{Name: "Event"}), end: "done", event: "Normal Created 100% of 3",
		},
		"conflict": {
			set: failing(conflict), after: loop.DefaultConflictDelay, end: "conflict", event: "Warning Failed conflict",
		},
		"transient": {
			set: failing(errors.New("network")), err: "act: network", end: "transient", event: "Warning Failed transient",
		},
		"terminal": {
			set: failing(final{}), err: "terminal error: act: no way", isTerm: true, end: "terminal",
			event: "Warning Failed terminal",
		},
		"terminal beside a hold": {
			set: both(failing(final{}), holding(hold)), after: 7 * time.Second, end: "terminal",
			event: "Warning Failed terminal",
		},
		"terminal and transient": {
			set: failing(errors.Join(final{}, errors.New("network"))), err: "act: no way\nnetwork", end: "transient",
			event: "Warning Failed transient",
		},
		"refused": {
			set: func(w *world) {
				w.stages.Check = func(s snapshot, p plan) []rule.Violation {
					return []rule.Violation{{Rule: "R1", Detail: "too many"}, {Rule: "R2", Detail: fmt.Sprint(s.Pods, p.Create)}}
				}
			},
			err: "the plan is refused: R1: too many; R2: 0 3", end: "refused", event: "Warning Failed transient",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.set(w)
			result, err := w.reconcile()
			if result.RequeueAfter != tc.after {
				t.Errorf("requeue after %s, want %s", result.RequeueAfter, tc.after)
			}
			if got := fmt.Sprint(err); got != tc.err && (tc.err != "" || err != nil) {
				t.Errorf("error = %q, want %q", got, tc.err)
			}
			if errors.Is(err, reconcile.TerminalError(nil)) != tc.isTerm {
				t.Errorf("terminal: %v", err)
			}
			w.ends(fmt.Sprintf(`loop_passes_total{end=%q,loop="ship"} 1`, tc.end))
			if diff := cmp.Diff([]string{tc.event}, w.events()); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if tc.end == "refused" && w.pods() > 0 {
				t.Error("a refused plan was carried out")
			}
		})
	}
}

func TestPanics(t *testing.T) {
	cases := map[string]struct {
		set   func(*stages)
		cause expect.Cause
	}{
		"observe": {func(s *stages) {
			s.Observe = func(context.Context, client.Reader, *appsv1.Deployment) (snapshot, error) { panic("reef") }
		}, expect.MemoryEmpty},
		"decide": {func(s *stages) { s.Decide = func(snapshot) plan { panic("reef") } }, ""},
		"act": {func(s *stages) {
			s.Act = func(context.Context, expect.Ledger, *appsv1.Deployment, plan) (outcome, error) { panic("reef") }
		}, expect.WriteInDoubt},
		"report": {func(s *stages) {
			s.Report = func(*appsv1.Deployment, pass) []loop.Event { panic("reef") }
		}, expect.CacheBehind},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.set(&w.stages)
			_, err := w.reconcile()
			var found *loop.PanicError
			if !errors.As(err, &found) || found.Value != "reef" || !strings.HasPrefix(err.Error(), name+": panic: reef\n") ||
				!strings.Contains(string(found.Stack), "loop_test.go") {
				t.Errorf("error = %v", err)
			}
			w.ends(`loop_passes_total{end="panicked",loop="ship"} 1`)
			if got := w.tracker.Check(me).Cause; got != tc.cause {
				t.Errorf("the next pass has the cause %q, want %q", got, tc.cause)
			}
		})
	}
}

func TestTimeoutLeavesTimeForTheReport(t *testing.T) {
	w := newWorld(t)
	w.config.Timeout = time.Millisecond
	w.stages.Act = func(ctx context.Context, _ expect.Ledger, _ *appsv1.Deployment, _ plan) (outcome, error) {
		<-ctx.Done()
		return outcome{Created: 9}, ctx.Err()
	}
	_, err := w.reconcile()
	if !errors.Is(err, context.DeadlineExceeded) || w.server.statusWrites != 1 {
		t.Errorf("error = %v, %d status writes", err, w.server.statusWrites)
	}
}

func TestGone(t *testing.T) {
	cases := map[string]func(*world){
		"from the cache": func(w *world) {
			delete(w.cache, "Deployment a/one")
		},
		"from the server, seen by a live read": func(w *world) {
			w.tracker.Reset()
			delete(w.server.shelf, "Deployment a/one")
		},
	}
	for name, remove := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.tracker.Confirm(me)
			remove(w)
			var gone []string
			w.stages.Gone = func(_ context.Context, key types.NamespacedName) error {
				gone = append(gone, key.String())
				return nil
			}
			result, err := w.reconcile()
			if err != nil || !result.IsZero() || !slices.Equal(gone, []string{"a/one"}) {
				t.Errorf("result = %+v, %v, gone = %v", result, err, gone)
			}
			if got := w.tracker.Check(me); got.Cause != expect.MemoryEmpty {
				t.Errorf("the owner is remembered: %+v", got)
			}
		})
	}
}

// TestReplacedBetweenReads has the cache move to another object of the same name just when the tracker was asked
// about the one before.
func TestReplacedBetweenReads(t *testing.T) {
	w := newWorld(t)
	w.tracker.Confirm(me)
	w.config.Client = &replacing{lagging: lagging{w.server, w}}
	result, err := w.reconcile()
	if err != nil || result.RequeueAfter != loop.DefaultConflictDelay || w.pods() > 0 {
		t.Errorf("result = %+v, %v, pods = %d, want another pass", result, err, w.pods())
	}
}

// replacing returns another object from the second read on.
type replacing struct {
	lagging
	reads int
}

func (r *replacing) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	err := r.lagging.Get(ctx, key, obj, opts...)
	if r.reads++; r.reads > 1 {
		obj.SetUID("uid-two")
	}
	return err
}

func TestStagesCannotChangeTheObject(t *testing.T) {
	w := newWorld(t)
	vandal := func(o *appsv1.Deployment) { o.Status.Replicas = 99 }
	w.stages.Observe = func(_ context.Context, _ client.Reader, o *appsv1.Deployment) (snapshot, error) {
		vandal(o)
		return snapshot{}, nil
	}
	w.stages.Act = func(_ context.Context, _ expect.Ledger, o *appsv1.Deployment, _ plan) (outcome, error) {
		vandal(o)
		return outcome{}, nil
	}
	w.stages.Report = func(o *appsv1.Deployment, _ pass) []loop.Event {
		if o.Status.Replicas != 0 {
			t.Errorf("replicas = %d", o.Status.Replicas)
		}
		return nil
	}
	if _, err := w.reconcile(); err != nil || w.server.statusWrites > 0 {
		t.Errorf("error = %v, %d status writes", err, w.server.statusWrites)
	}
}

func TestLogsAtBorders(t *testing.T) {
	w := newWorld(t)
	var lines []string
	logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{Verbosity: 1})
	made, err := loop.New(w.config, w.stages)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := made.Reconcile(logr.NewContext(t.Context(), logger), request); err != nil {
		t.Fatal(err)
	}
	want := []string{
		`"level"=1 "msg"="Entering stage" "stage"="observe"`,
		`"level"=1 "msg"="Entering stage" "stage"="decide"`,
		`"level"=1 "msg"="Entering stage" "stage"="act"`,
		`"level"=1 "msg"="Entering stage" "stage"="report"`,
		`"level"=1 "msg"="Leaving pass" "end"="done" "recheck"="0s"`,
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("logs (-want +got):\n%s", diff)
	}
	if got := testutil.CollectAndCount(w.registry, "loop_stage_seconds"); got != 4 {
		t.Errorf("%d stages were measured, want 4", got)
	}
}

func TestNew(t *testing.T) {
	cases := map[string]struct {
		spoil func(*world)
		want  string
	}{
		"no client": {func(w *world) { w.config.Client = nil }, "needs a client"},
		"no live":   {func(w *world) { w.config.Live = nil }, "needs a live reader"},
		"which plans write": {func(w *world) {
			w.config.Leads = func(context.Context) error { return nil }
		}, "which plans write"},
		"nothing to confirm with": {func(w *world) {
			w.config.Live, w.config.Tracker = nil, nil
			w.stages.Writes = func(plan) bool { return true }
		}, "needs a live reader"},
		"a stage short": {func(w *world) { w.stages.Act = nil }, "needs the stages"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			tc.spoil(w)
			if _, err := loop.New(w.config, w.stages); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error = %v", err)
			}
		})
	}
	w := newWorld(t)
	if _, err := loop.NewMetrics(w.registry); err == nil {
		t.Error("metrics can be registered twice")
	}
	_, err := loop.New(w.config, loop.Stages[client.Object, int, int, int]{
		Observe: func(context.Context, client.Reader, client.Object) (int, error) { return 0, nil },
		Decide:  func(int) int { return 0 },
		Act:     func(context.Context, expect.Ledger, client.Object, int) (int, error) { return 0, nil },
		Report:  func(client.Object, loop.Pass[int, int, int]) []loop.Event { return nil },
	})
	if err == nil {
		t.Error("a loop over an interface was accepted")
	}
}

func TestClassify(t *testing.T) {
	resource := schema.GroupResource{Resource: "ships"}
	conflict := apierrors.NewConflict(resource, "x", errors.New("moved"))
	invalid := apierrors.NewInvalid(schema.GroupKind{}, "x", nil)
	cases := map[string]struct {
		err  error
		want loop.Class
	}{
		"nil":                       {nil, loop.OK},
		"plain":                     {errors.New("x"), loop.Transient},
		"conflict, wrapped":         {fmt.Errorf("a: %w", fmt.Errorf("b: %w", conflict)), loop.Conflict},
		"already exists":            {apierrors.NewAlreadyExists(resource, "x"), loop.Conflict},
		"invalid":                   {fmt.Errorf("a: %w", invalid), loop.Terminal},
		"bad request":               {apierrors.NewBadRequest("x"), loop.Terminal},
		"too large":                 {apierrors.NewRequestEntityTooLargeError("x"), loop.Terminal},
		"forbidden":                 {apierrors.NewForbidden(resource, "x", errors.New("quota")), loop.Transient},
		"not found":                 {apierrors.NewNotFound(resource, "x"), loop.Transient},
		"too many requests":         {apierrors.NewTooManyRequests("x", 1), loop.Transient},
		"internal":                  {apierrors.NewInternalError(errors.New("x")), loop.Transient},
		"deadline":                  {context.DeadlineExceeded, loop.Transient},
		"says so itself":            {fmt.Errorf("a: %w", final{}), loop.Terminal},
		"terminal of the framework": {fmt.Errorf("a: %w", reconcile.TerminalError(errors.New("x"))), loop.Terminal},
		"terminal around transient": {reconcile.TerminalError(errors.Join(errors.New("x"), conflict)), loop.Terminal},
		"terminal and conflict":     {errors.Join(final{}, conflict), loop.Conflict},
		"conflict and transient":    {fmt.Errorf("a: %w", errors.Join(conflict, errors.New("x"))), loop.Transient},
		"terminal twice":            {errors.Join(final{}, invalid), loop.Terminal},
		"refused":                   {&loop.RefusedError{}, loop.Transient},
		"panic":                     {&loop.PanicError{}, loop.Transient},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := loop.Classify(tc.err); got != tc.want {
				t.Errorf("Classify = %s, want %s", got, tc.want)
			}
		})
	}
}
