// Package act carries out plans: one table of verbs, every write conditional on the state that it was decided
// on. It decides nothing. When the world has moved, the write is refused as a conflict and the next pass plans anew.
//
// Actions are independent: one that fails does not keep the others back. What cannot be undone is preceded by a live
// read of everything that the decision rested on.
//
// Start reading at Actor.Act.
package act

import (
	"context"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/apply"
	"meridian.dev/meridian/kit/expect"
)

// Actor writes for passes.
type Actor struct {
	// Client writes; Live reads from the API server.
	Client client.Client
	Live   client.Reader
	Author apply.Author
	// Random is crypto/rand.Reader outside of tests.
	Random io.Reader
	Now    func() time.Time
	// Refused takes note of what the agent of a holder has refused; it may be nil.
	Refused func(key client.ObjectKey, id, why string, at time.Time)
	// Begin says why no roll may begin for a database now, and counts it as begun if it may; it may be nil.
	Begin func(key client.ObjectKey) string
	// Try says why no restore on trial may begin for a database now, and counts it as begun if it may; it may be nil.
	Try func(key client.ObjectKey) string
	// Tell hands a request for another primary to the agent of the holder.
	Tell func(ctx context.Context, agent service.Agent, request wire.Switchover) error
}

// pass is one plan under way.
type pass struct {
	Actor
	service.Writer[database.Step]
	object *v1alpha1.GeoDatabase
	design database.Design
	ledger expect.Ledger
}

// Act carries out a plan. It returns what became of each action, and the errors of those that failed.
func (a Actor) Act(
	ctx context.Context, ledger expect.Ledger, object *v1alpha1.GeoDatabase, plan database.Plan,
) (database.Outcome, error) {
	p := &pass{
		Actor: a, Writer: service.NewWriter[database.Step](a.Client, a.Live, a.Author, ledger, object),
		object: object, design: plan.Design, ledger: ledger,
	}
	return p.CarryOut(ctx, plan.Actions, p.do)
}

// do carries one action out.
//
//nolint:gocyclo // One case for each verb, and nothing else.
func (p *pass) do(ctx context.Context, action database.Action) (database.Result, error) {
	switch do := action.Do.(type) {
	case database.Create:
		return p.createChild(ctx, action)
	case database.Update:
		return p.updateChild(ctx, action)
	case database.Remove, database.RemoveCertificate:
		return p.removeChild(ctx, action)
	case database.Grow:
		return p.growClaim(ctx, action)
	case database.StoreRecord:
		return p.storeRecord(ctx, action)
	case database.AdoptClaim:
		return p.adoptClaim(ctx, action, do)
	case database.NoteParting:
		return p.noteParting(ctx, action, do)
	case database.UnlabelClaim:
		return p.unlabelClaim(ctx, action)
	case database.CreateBinding:
		return p.createBinding(ctx)
	case database.StoreCertificates:
		return p.storeCertificates(ctx, action, do)
	case database.BindCaches:
		return p.bindCaches(ctx, action)
	case database.BeginLogin:
		return p.beginLogin(ctx, action, do)
	case database.MoveLogin:
		return p.moveLogin(ctx, action, do)
	case database.PublishBundle:
		return p.publishBundle(ctx, action)
	case database.StoreAccess, database.WantBase, database.BeginTrial, database.NoteTrial, database.EndTrial:
		return p.doForBackups(ctx, action)
	case database.Guard, database.Release:
		return p.setFinalizer(ctx, database.Does[database.Guard](action))
	case database.CreateLease:
		return p.createLease(ctx, action, do)
	case database.AdoptLease:
		return p.adoptLease(ctx, action, do)
	case database.FreeLease:
		return p.freeLease(ctx, action)
	case database.SetInstances:
		return p.setInstances(ctx, action, do)
	case database.BeginRoll, database.EndRoll, database.RestartServer:
		return p.doInSettings(ctx, action)
	case database.ResizePod:
		return p.resizePod(ctx, action, do)
	case database.LabelPod:
		return p.labelPod(ctx, action)
	case database.TellPod:
		return p.tellPod(ctx, action, do)
	case database.NoteRequest:
		return p.noteRequest(ctx, action, do)
	case database.EndRequest:
		return p.endRequest(ctx, action, do)
	case database.SwitchOver:
		return p.switchOver(ctx, action, do)
	case database.DeleteClaim:
		return p.deleteClaim(ctx, action)
	case database.DeletePod:
		return p.deletePod(ctx, action)
	case database.ReplacePod:
		return p.replacePod(ctx, action, do)
	case database.RemovePod:
		return p.removePod(ctx, action)
	case database.DeleteSet:
		return p.deleteSet(ctx, action)
	}
	return database.Result{}, fmt.Errorf("the verb %q is unknown", action.Verb())
}

// doInSettings carries out what restarts servers by a word in the settings.
func (p *pass) doInSettings(ctx context.Context, action database.Action) (database.Result, error) {
	if restart, restarts := action.Do.(database.RestartServer); restarts {
		return p.restartServer(ctx, action, restart)
	}
	return p.markRoll(ctx, action)
}

// doForBackups carries out what keeps backups.
func (p *pass) doForBackups(ctx context.Context, action database.Action) (database.Result, error) {
	switch do := action.Do.(type) {
	case database.WantBase:
		return p.wantBase(ctx, action, do)
	case database.BeginTrial:
		return p.beginTrial(ctx, action, do)
	case database.NoteTrial:
		return p.noteTrial(ctx, action, do)
	case database.EndTrial:
		return p.endTrial(ctx, action)
	default:
		store, _ := action.Do.(database.StoreAccess)
		return p.storeAccess(ctx, action, store)
	}
}

func (p *pass) createChild(ctx context.Context, action database.Action) (database.Result, error) {
	child, err := render.Find(p.design, action.Kind, action.Name)
	if err != nil {
		return database.Result{}, err
	}
	if _, claim := child.(*corev1.PersistentVolumeClaim); claim {
		if err := p.requireGuard(ctx, action); err != nil {
			return database.Result{}, err
		}
	}
	return p.Write(ctx, child, nil)
}

func (p *pass) updateChild(ctx context.Context, action database.Action) (database.Result, error) {
	child, err := render.Find(p.design, action.Kind, action.Name)
	if err != nil {
		return database.Result{}, err
	}
	return p.Update(ctx, action, child)
}

// moved is the error of a decision that the world has overtaken.
func moved(action database.Action, why string) error { return service.Moved(action, why) }
