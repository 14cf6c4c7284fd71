package loop

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"meridian.dev/meridian/kit/expect"
)

// Reconcile runs one pass. It implements reconcile.Reconciler.
func (l *Loop[O, S, P, R]) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	end, err := l.pass(ctx, request)
	return l.finish(ctx, end, err)
}

// ending is how a pass ended, for the result and the metrics.
type ending struct {
	name    string
	recheck time.Duration
}

func (l *Loop[O, S, P, R]) pass(ctx context.Context, request reconcile.Request) (ending, error) {
	limited, cancel := context.WithTimeout(ctx, l.config.Timeout)
	defer cancel()

	// 1. Find out how to read, and read the object that way.
	object, reading, reader, err := l.open(limited, request)
	switch {
	case apierrors.IsNotFound(err):
		return l.gone(limited, request)
	case err != nil:
		return ending{}, err
	case reading.Answer == expect.Wait:
		return ending{name: "waited", recheck: reading.Recheck}, nil
	}
	pass := Pass[S, P, R]{Reading: reading}

	// 2. Observe. What was read live is from now on the least that the cache has to show.
	if err := l.stage(limited, "observe", func() (err error) {
		pass.Snapshot, err = l.stages.Observe(limited, reader, object.DeepCopyObject().(O))
		return err
	}); err != nil {
		return ending{}, err
	}
	if witness, ok := reader.(*expect.Witness); ok {
		l.config.Tracker.Confirm(expect.OwnerOf(object), witness.Saw()...)
	}

	// 3. Decide, and check the decision against the invariants.
	if err := l.stage(limited, "decide", func() error {
		pass.Plan = l.stages.Decide(pass.Snapshot)
		if l.stages.Check != nil {
			pass.Violations = l.stages.Check(pass.Snapshot, pass.Plan)
		}
		return nil
	}); err != nil {
		return ending{}, err
	}

	// 4. Act, unless the plan is refused or outdated. A failure is reported like any other outcome.
	if len(pass.Violations) > 0 {
		pass.Err = &RefusedError{Violations: pass.Violations}
	} else {
		pass.Err = l.act(limited, object, &pass)
	}
	pass.Class = Classify(pass.Err)

	// 5. Report.
	reportErr := l.stage(ctx, "report", func() error { return l.report(ctx, object, pass) })
	return ending{name: "done", recheck: l.recheck(pass.Plan)}, errors.Join(pass.Err, reportErr)
}

// open asks whether the caches can be trusted, and reads the object after that: one that was read before could be older
// than the answer.
func (l *Loop[O, S, P, R]) open(
	ctx context.Context, request reconcile.Request,
) (object O, verdict expect.Verdict, reader client.Reader, err error) {
	object, err = l.get(ctx, l.config.Client, request)
	if err != nil || l.config.Tracker == nil {
		return object, verdict, l.config.Client, err
	}
	uid := object.GetUID()
	verdict = l.config.Tracker.Check(expect.OwnerOf(object))
	switch verdict.Answer {
	case expect.Wait:
		return object, verdict, nil, nil
	case expect.ReadLive:
		reader = expect.NewWitness(l.config.Live, l.config.Client.Scheme())
	default:
		reader = l.config.Client
	}
	object, err = l.get(ctx, reader, request)
	if err == nil && object.GetUID() != uid && verdict.Answer == expect.ReadCache {
		err = apierrors.NewConflict(schema.GroupResource{}, request.Name, errors.New("the object was replaced"))
	}
	return object, verdict, reader, err
}

func (l *Loop[O, S, P, R]) get(ctx context.Context, reader client.Reader, request reconcile.Request) (O, error) {
	object := reflect.New(reflect.TypeFor[O]().Elem()).Interface().(O)
	if err := reader.Get(ctx, request.NamespacedName, object); err != nil {
		return object, fmt.Errorf("get the object: %w", err)
	}
	return object, nil
}

func (l *Loop[O, S, P, R]) gone(ctx context.Context, request reconcile.Request) (ending, error) {
	if l.config.Tracker != nil {
		l.config.Tracker.Forget(request.NamespacedName)
	}
	if l.stages.Gone != nil {
		if err := l.stages.Gone(ctx, request.NamespacedName); err != nil {
			return ending{}, err
		}
	}
	return ending{name: "gone"}, nil
}

func (l *Loop[O, S, P, R]) act(ctx context.Context, object O, pass *Pass[S, P, R]) error {
	if l.stages.Writes != nil && l.stages.Writes(pass.Plan) {
		if err := l.stage(ctx, "confirm", func() error { return l.confirm(ctx, object) }); err != nil {
			return err
		}
	}
	ledger := l.ledger(object)
	err := l.stage(ctx, "act", func() (err error) {
		pass.Outcome, err = l.stages.Act(ctx, ledger, object.DeepCopyObject().(O), pass.Plan)
		return err
	})
	if panicked := (*PanicError)(nil); errors.As(err, &panicked) {
		ledger.Doubt("a pass broke off while it was writing")
	}
	return err
}

// confirm asks, after everything was observed, whether this process still leads, and whether the object still asks for
// what the plan was made from. Another process that acts has either begun before that, and then this one gives up; or
// it begins afterwards, and then the versions that this one names are not there any more where the other has written.
func (l *Loop[O, S, P, R]) confirm(ctx context.Context, object O) error {
	if l.config.Leads != nil {
		if err := l.config.Leads(ctx); err != nil {
			return err
		}
	}
	now, err := l.get(ctx, l.config.Live, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)})
	switch {
	case apierrors.IsNotFound(err):
		return outdated(object, "it is gone")
	case err != nil:
		return err
	case now.GetUID() != object.GetUID():
		return outdated(object, "it was replaced")
	case now.GetGeneration() != object.GetGeneration():
		return outdated(object, "its specification was changed")
	case now.GetDeletionTimestamp().IsZero() != object.GetDeletionTimestamp().IsZero():
		return outdated(object, "it is being deleted")
	}
	return nil
}

func outdated(object client.Object, why string) error {
	return apierrors.NewConflict(schema.GroupResource{}, object.GetName(), errors.New(why+" since the plan was made"))
}

// report writes the status if it changed, over the version that was read. Events are sent in any case: what was done is
// worth telling even if the status cannot be written.
func (l *Loop[O, S, P, R]) report(ctx context.Context, before O, pass Pass[S, P, R]) error {
	after := before.DeepCopyObject().(O)
	for _, event := range l.stages.Report(after, pass) {
		l.config.Metrics.event(l.config.Name, event.Action, event.Reason)
		if l.config.Events != nil {
			l.config.Events.Eventf(before, nil, event.kind(), event.Reason, event.Action, "%s", event.Note)
		}
	}
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	ledger := l.ledger(before)
	if err := l.config.Client.Status().Patch(ctx, after, patch); err != nil {
		if expect.Undecided(err) {
			ledger.Doubt("the status may or may not have been written")
		}
		return fmt.Errorf("write the status: %w", err)
	}
	ledger.Wrote(after)
	return nil
}

func (l *Loop[O, S, P, R]) ledger(object O) expect.Ledger {
	if l.config.Tracker == nil {
		return expect.Ledger{}
	}
	return l.config.Tracker.Of(expect.OwnerOf(object))
}

// recheck is the earliest recheck of the plan's holds, zero if there is none.
func (l *Loop[O, S, P, R]) recheck(plan P) time.Duration {
	var earliest time.Duration
	if l.stages.Holds == nil {
		return 0
	}
	for _, hold := range l.stages.Holds(plan) {
		l.config.Metrics.hold(l.config.Name, hold.Name)
		if hold.Recheck > 0 && (earliest == 0 || hold.Recheck < earliest) {
			earliest = hold.Recheck
		}
	}
	return earliest
}

// stage runs one stage, measures it, and turns a panic into an error.
func (l *Loop[O, S, P, R]) stage(ctx context.Context, name string, run func() error) (err error) {
	logr.FromContextOrDiscard(ctx).V(1).Info("Entering stage", "stage", name)
	start := l.config.Now()
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack()}
		}
		l.config.Metrics.observe(l.config.Name, name, l.config.Now().Sub(start))
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}()
	return run()
}

// finish turns the end of a pass into what the workqueue understands.
func (l *Loop[O, S, P, R]) finish(ctx context.Context, end ending, err error) (reconcile.Result, error) {
	class := Classify(err)
	if class != OK {
		end.name = nameOf(class, err)
	}
	log := logr.FromContextOrDiscard(ctx)
	log.V(1).Info("Leaving pass", "end", end.name, "recheck", end.recheck)
	l.config.Metrics.count(l.config.Name, end.name)
	switch {
	case class == OK:
		return reconcile.Result{RequeueAfter: end.recheck}, nil
	case class == Conflict:
		return reconcile.Result{RequeueAfter: l.config.ConflictDelay}, nil
	case class == Terminal && end.recheck > 0:
		// The workqueue would drop the recheck of an unrelated hold together with the terminal error.
		log.Error(err, "Holding in spite of a terminal error")
		return reconcile.Result{RequeueAfter: end.recheck}, nil
	case class == Terminal:
		return reconcile.Result{}, reconcile.TerminalError(err)
	default:
		return reconcile.Result{}, err
	}
}
