package act

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

// patience is how long the agent of a holder may take to accept a request.
const patience = 3 * time.Second

// RefusedError is the word of an agent that it will not carry a request out.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return "the agent refuses: " + e.Why }

// noteRequest writes down that a requested switchover begins.
func (p *pass) noteRequest(
	ctx context.Context, action database.Action, note database.NoteRequest,
) (database.Result, error) {
	return p.changeDatabase(ctx, action, true, func(after *v1alpha1.GeoDatabase) {
		// A request of texts, a number and a time can always be written.
		text, _ := json.Marshal(database.Request{
			ID: note.Request, Target: note.Target, Since: p.Now().UTC().Truncate(time.Second), Term: note.Term,
		})
		annotate(after, database.AnnotationRequest, string(text))
	})
}

// endRequest takes a request away, and writes down which text of the spec is done with.
func (p *pass) endRequest(
	ctx context.Context, action database.Action, end database.EndRequest,
) (database.Result, error) {
	return p.changeDatabase(ctx, action, true, func(after *v1alpha1.GeoDatabase) {
		annotate(after, database.AnnotationRequest, "")
		if end.Token != "" {
			annotate(after, database.AnnotationSwitched, end.Token)
			return
		}
		annotate(after, database.AnnotationSwitchover, "")
	})
}

// switchOver asks the agent of the holder to hand over. Asking twice for the same request is asking once.
func (p *pass) switchOver(
	ctx context.Context, action database.Action, ask database.SwitchOver,
) (database.Result, error) {
	var pod corev1.Pod
	if err := p.live(ctx, database.PodName(action.Name), &pod); err != nil {
		return database.Result{}, err
	}
	if string(pod.UID) != action.UID || pod.Status.PodIP == "" {
		return database.Result{}, moved(action, "it is another pod")
	}
	material, err := p.material(ctx)
	if err != nil {
		return database.Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request := wire.Switchover{ID: ask.Request}
	if ask.Target != database.AnyInstance {
		request.Target = ask.Target
	}
	host := render.AgentHost(p.design.Identity, strings.TrimSuffix(pod.Name, "-0"))
	agent := service.Agent{Address: pod.Status.PodIP, Host: host, Material: material}
	err = p.Tell(ctx, agent, request)
	var refused *RefusedError
	if !errors.As(err, &refused) {
		return database.Result{Done: err == nil}, err
	}
	// What follows from a no is for the plan to say, in the next pass.
	if p.Refused != nil {
		p.Refused(client.ObjectKeyFromObject(p.object), ask.Request, refused.Why, p.Now())
	}
	return database.Result{Refused: refused.Why}, nil
}

// material is what the operator presents to agents.
func (p *pass) material(ctx context.Context) (pki.Material, error) {
	var authority corev1.Secret
	if err := p.Secret(ctx, database.AuthorityName(p.design.Name), &authority); err != nil {
		return pki.Material{}, err
	}
	state, err := render.Material(&authority, nil)
	if err != nil {
		return pki.Material{}, fmt.Errorf("read the stored authorities: %w", err)
	}
	return state.Material(render.OperatorProfile)
}

// TellAgent asks an agent for another primary.
func TellAgent(ctx context.Context, agent service.Agent, request wire.Switchover) error {
	answer, err := agent.Post(ctx, wire.PathSwitchover, request)
	if err != nil {
		return err
	}
	return judge(answer.Status, strings.TrimSpace(string(answer.Body)))
}

// judge tells a yes from a no and from trouble that may pass.
func judge(status int, answer string) error {
	switch {
	case status >= 200 && status < 300:
		return nil
	case status >= 400 && status < 500:
		var reply struct{ Why string }
		if json.Unmarshal([]byte(answer), &reply) == nil && reply.Why != "" {
			answer = reply.Why
		}
		return &RefusedError{Why: answer}
	default:
		return fmt.Errorf("the agent answers %d: %s", status, answer)
	}
}
