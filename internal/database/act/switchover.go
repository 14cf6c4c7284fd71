package act

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

// patience is how long the agent of a holder may take to accept a request.
const patience = 3 * time.Second

// RefusedError is the word of an agent that it will not carry a request out.
type RefusedError struct{ Why string }

func (e *RefusedError) Error() string { return "the agent refuses: " + e.Why }

// writeRequest writes down that a requested switchover begins, or takes the request away.
func (p *pass) writeRequest(ctx context.Context, action database.Action) (database.Result, error) {
	return p.changeDatabase(ctx, action, true, func(after *v1alpha1.GeoDatabase) {
		if action.Verb == database.EndRequest {
			annotate(after, database.AnnotationSwitchover, "")
			annotate(after, database.AnnotationRequest, "")
			return
		}
		// A request of texts, a number and a time can always be written.
		text, _ := json.Marshal(database.Request{
			ID: action.Request, Target: action.Target, Since: p.Now().UTC().Truncate(time.Second), Term: action.Term,
		})
		annotate(after, database.AnnotationRequest, string(text))
	})
}

// switchOver asks the agent of the holder to hand over. Asking twice for the same request is asking once. When the
// agent says no for good, a user's request is taken away: asking on would not be what the user saw.
func (p *pass) switchOver(ctx context.Context, action database.Action) (database.Result, error) {
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
	request := wire.Switchover{ID: action.Request}
	if action.Target != database.AnyInstance {
		request.Target = action.Target
	}
	agent := Agent{Address: pod.Status.PodIP, Host: render.AgentHost(p.design.Identity), Material: material}
	err = p.Tell(ctx, agent, request)
	var refused *RefusedError
	if !errors.As(err, &refused) {
		return database.Result{Done: err == nil}, err
	}
	result := database.Result{}
	if strings.Contains(p.object.Annotations[database.AnnotationRequest], action.Request) {
		result, err = p.writeRequest(ctx, database.Action{Verb: database.EndRequest, Name: p.object.Name})
	} else {
		err = nil
	}
	result.Wrote, result.Refused = false, refused.Why
	return result, err
}

// material is what the operator presents to agents.
func (p *pass) material(ctx context.Context) (pki.Material, error) {
	var authority, leaf corev1.Secret
	if err := p.secret(ctx, database.AuthorityName(p.design.Name), &authority); err != nil {
		return pki.Material{}, err
	}
	if err := p.secret(ctx, database.LeafName(p.design.Name), &leaf); err != nil {
		return pki.Material{}, err
	}
	state, err := render.Material(&authority, &leaf)
	if err != nil {
		return pki.Material{}, fmt.Errorf("read the stored authorities: %w", err)
	}
	return state.Material(render.OperatorProfile)
}

// TellAgent posts a request for another primary over mutual TLS.
func TellAgent(ctx context.Context, agent Agent, request wire.Switchover) error {
	config := pki.ClientConfig(&tls.Config{ServerName: agent.Host, MinVersion: tls.VersionTLS13},
		func() (pki.Material, error) { return agent.Material, nil })
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	address := "https://" + net.JoinHostPort(agent.Address, strconv.Itoa(wire.PortAgent)) + wire.PathSwitchover
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	post.Header.Set("Content-Type", "application/json")
	response, err := (&http.Client{Transport: transport}).Do(post)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // Nothing was written, so nothing is lost.
	answer, _ := io.ReadAll(io.LimitReader(response.Body, 4096))
	return judge(response.StatusCode, strings.TrimSpace(string(answer)))
}

// judge tells a yes from a no and from trouble that may pass.
func judge(status int, answer string) error {
	switch {
	case status >= 200 && status < 300:
		return nil
	case status >= 400 && status < 500:
		return &RefusedError{Why: answer}
	default:
		return fmt.Errorf("the agent answers %d: %s", status, answer)
	}
}
