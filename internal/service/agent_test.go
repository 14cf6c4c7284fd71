package service_test

import (
	"crypto/rand"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

// agentAddress is of loopback, and of nobody else's test.
const agentAddress = "127.8.7.1"

// TestRedirectsAreNotFollowed has a pod answer the operator by sending it elsewhere, with every code that http knows.
func TestRedirectsAreNotFollowed(t *testing.T) {
	var reached atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer elsewhere.Close()
	material := certificates(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp",
		net.JoinHostPort(agentAddress, strconv.Itoa(wire.PortAgent)))
	if err != nil {
		t.Skipf("no pod can be played here: %v", err)
	}
	pod := &httptest.Server{Listener: listener, TLS: pki.ServerConfig(nil,
		func() (pki.Material, error) { return material, nil })}
	pod.Config = &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(
		func(out http.ResponseWriter, request *http.Request) {
			code, _ := strconv.Atoi(request.URL.Path[1:])
			http.Redirect(out, request, elsewhere.URL, code)
		})}
	pod.StartTLS()
	defer pod.Close()
	agent := service.Agent{Address: agentAddress, Host: "cities-rw.gis.svc", Material: material}
	for _, code := range []int{301, 302, 303, 307, 308} {
		path := "/" + strconv.Itoa(code)
		got, err := agent.Get(t.Context(), path)
		if err != nil || got.Status != code {
			t.Errorf("get: %d: %v", got.Status, err)
		}
		if got, err = agent.Post(t.Context(), path, "x"); err != nil || got.Status != code {
			t.Errorf("post: %d: %v", got.Status, err)
		}
	}
	if reached.Load() != 0 {
		t.Errorf("the operator has followed %d redirects of a pod", reached.Load())
	}
}

// certificates are one leaf for both sides.
func certificates(t *testing.T) pki.Material {
	t.Helper()
	policy := pki.Policy{
		Name: "test", AuthorityLifetime: 24 * time.Hour, LeafLifetime: time.Hour, Settle: time.Minute, Backdate: time.Minute,
		Leaves: []pki.Profile{{
			Name: "leaf", CommonName: "x", DNSNames: []string{"cities-rw.gis.svc"}, Usage: pki.Server | pki.Client,
		}},
	}
	state, err := pki.Decide(pki.State{}, time.Now(), policy).Apply(pki.State{}, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	material, err := state.Material("leaf")
	if err != nil {
		t.Fatal(err)
	}
	return material
}
