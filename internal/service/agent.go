package service

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
	"net/url"
	"strconv"
	"sync"
	"time"

	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

const (
	// Patience is how long a pass waits for an answer: that of one resource must not wait for a lost node of another.
	Patience = 2 * time.Second
	// longest is more than any answer of an agent has.
	longest = 1 << 20
)

// Agent is where the agent of a pod is reached, and as whom.
type Agent struct {
	// Address is that of the pod, Host the name that its certificate must have.
	Address, Host string
	Material      pki.Material
}

// Answer is what an agent says to a call, whatever it says.
type Answer struct {
	Status int
	Body   []byte
}

// Get asks the agent for what is at a path.
func (a Agent) Get(ctx context.Context, path string) (Answer, error) {
	return a.call(ctx, http.MethodGet, path, nil)
}

// Post sends the agent a request.
func (a Agent) Post(ctx context.Context, path string, request any) (Answer, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return Answer{}, err
	}
	return a.call(ctx, http.MethodPost, path, body)
}

// call goes over mutual TLS. Each call has a connection of its own: a pooled one would outlive the certificates that it
// was opened with. A redirect is an answer and is not followed: whatever listens in the pod must not choose what the
// operator, which reaches every namespace, calls next.
func (a Agent) call(ctx context.Context, method, path string, body []byte) (Answer, error) {
	config := pki.ClientConfig(&tls.Config{ServerName: a.Host, MinVersion: tls.VersionTLS13},
		func() (pki.Material, error) { return a.Material, nil })
	caller := &http.Client{
		Transport:     &http.Transport{TLSClientConfig: config, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer caller.CloseIdleConnections()
	address := "https://" + net.JoinHostPort(a.Address, strconv.Itoa(wire.PortAgent)) + path
	request, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := caller.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, longest))
	if err != nil {
		return Answer{}, fmt.Errorf("read the answer: %w", err)
	}
	return Answer{Status: response.StatusCode, Body: answer}, nil
}

// Brief is the cause of a failed call without addresses and ports: those differ from call to call, and what a user sees
// must not change as long as the trouble is the same.
func Brief(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer within " + Patience.String()
	}
	if call, ok := errors.AsType[*net.OpError](err); ok {
		return call.Err.Error()
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		return request.Err.Error()
	}
	return err.Error()
}

// AskReport gets the report of an agent.
func AskReport[Report any](ctx context.Context, agent Agent, decode func([]byte) (Report, error)) (Report, error) {
	var none Report
	answer, err := agent.Get(ctx, wire.PathReport)
	switch {
	case err != nil:
		return none, err
	case answer.Status != http.StatusOK:
		return none, fmt.Errorf("the agent answers %d", answer.Status)
	}
	return decode(answer.Body)
}

// ForEach asks the agents of all instances at once: one that is lost must not hold up the others.
func ForEach[Instance any](instances []Instance, ask func(*Instance)) {
	var asked sync.WaitGroup
	for i := range instances {
		asked.Go(func() { ask(&instances[i]) })
	}
	asked.Wait()
}
