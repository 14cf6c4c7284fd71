package pki_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"meridian.dev/meridian/kit/pki"
)

// party holds the state that it has seen last.
type party struct{ state atomic.Pointer[pki.State] }

func holding(state pki.State) *party {
	p := &party{}
	p.state.Store(&state)
	return p
}

func (p *party) source(leaf string) pki.Source {
	return func() (pki.Material, error) { return p.state.Load().Material(leaf) }
}

// shake does one handshake and lets the server send a byte, so that both sides have
// finished with the certificate of the other.
func shake(t *testing.T, server, client *tls.Config) (serverErr, clientErr error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	done := make(chan error, 1)
	go func() {
		accepted, err := listener.Accept()
		if err == nil {
			_ = accepted.SetDeadline(time.Now().Add(10 * time.Second))
			_, err = tls.Server(accepted, server).Write([]byte("s"))
			_ = accepted.Close()
		}
		done <- err
	}()
	called, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = called.SetDeadline(time.Now().Add(10 * time.Second))
	_, clientErr = io.ReadFull(tls.Client(called, client), make([]byte, 1))
	_ = called.Close()
	return <-done, clientErr
}

func at(moment time.Time) *tls.Config {
	return &tls.Config{Time: func() time.Time { return moment }}
}

func mutual(moment time.Time) *tls.Config {
	config := at(moment)
	config.ClientAuth = tls.RequireAndVerifyClientCert
	return config
}

func named(moment time.Time, server string) *tls.Config {
	config := at(moment)
	config.ServerName = server
	return config
}

// TestRotationWithoutRestart keeps one configuration of each side through three
// lives of authorities. Both sides are behind by up to one change, in turns.
func TestRotationWithoutRestart(t *testing.T) {
	policy := week()
	state := begun(t)
	server, client := holding(state), holding(state)
	random := seededBy(42)
	var now time.Time
	clock := &tls.Config{Time: func() time.Time { return now }, ClientAuth: tls.RequireAndVerifyClientCert}
	serverConfig := pki.ServerConfig(clock, server.source("one"))
	calling := clock.Clone()
	calling.ServerName = "10.0.0.1"
	clientConfig := pki.ClientConfig(calling, client.source("three"))

	seen := map[string]bool{}
	for now = start; now.Before(start.Add(3 * policy.AuthorityLifetime)); now = now.Add(policy.Settle) {
		plan := pki.Decide(state, now, policy)
		state = apply(t, plan, state, random)
		behind := []*party{server, client}[now.Hour()%2]
		other := []*party{client, server}[now.Hour()%2]
		other.state.Store(&state)
		if serverErr, clientErr := shake(t, serverConfig, clientConfig); serverErr != nil || clientErr != nil {
			t.Fatalf("at %v: server %v, client %v", now, serverErr, clientErr)
		}
		behind.state.Store(&state)
		seen[state.Authorities[0].ID()] = true
	}
	if len(seen) < 3 {
		t.Errorf("only %d authorities were seen", len(seen))
	}
}

func TestHandshakesThatFail(t *testing.T) {
	state := begun(t)
	stranger := apply(t, pki.Decide(pki.State{}, start, week()), pki.State{}, seededBy(77))
	broken := func() (pki.Material, error) { return pki.Material{}, errors.New("not read yet") }
	blind := func() (pki.Material, error) {
		material, err := state.Material("one")
		material.Trust = nil
		return material, err
	}
	ours, theirs := holding(state).source, holding(stranger).source
	late := start.Add(29 * time.Hour)
	single := func(source pki.Source) *tls.Config { return pki.ServerConfig(at(start), source) }
	mutually := func(source pki.Source) *tls.Config { return pki.ServerConfig(mutual(start), source) }
	calling := func(moment time.Time, host string, source pki.Source) *tls.Config {
		return pki.ClientConfig(named(moment, host), source)
	}
	caller := func(source pki.Source) *tls.Config { return calling(start, "one.example", source) }
	for name, test := range map[string]struct {
		server, client *tls.Config
		want           string // Of the side that refuses.
	}{
		"all is well":           {mutually(ours("one")), caller(ours("three")), ""},
		"one side only":         {single(ours("two")), calling(start, "x.example", ours("three")), ""},
		"wrong name":            {single(ours("one")), calling(start, "other", ours("three")), "not other"},
		"wrong address":         {single(ours("one")), calling(start, "10.0.0.9", ours("three")), "not 10.0.0.9"},
		"no name":               {single(ours("one")), calling(start, "", ours("three")), "it is not said which server"},
		"server of a stranger":  {single(theirs("one")), caller(ours("three")), "unknown authority"},
		"client of a stranger":  {mutually(ours("one")), caller(mixed(stranger, state)), "unknown authority"},
		"server leaf has ended": {single(ours("one")), calling(late, "one.example", ours("three")), "expired"},
		"client leaf has ended": {pki.ServerConfig(mutual(late), ours("one")), caller(ours("three")), "expired"},
		"a client as server":    {single(ours("three")), calling(start, "three", ours("three")), "verify the server"},
		"a server as client":    {mutually(ours("one")), caller(ours("two")), "incompatible key usage"},
		"no server material":    {single(broken), caller(ours("three")), "not read yet"},
		"no mutual material":    {mutually(broken), caller(ours("three")), "not read yet"},
		"no client material":    {mutually(ours("one")), caller(broken), "not read yet"},
		"server trusts nothing": {mutually(blind), caller(ours("three")), "there is nothing to trust"},
		"client trusts nothing": {single(ours("one")), caller(blind), "there is nothing to trust"},
		"no client certificate": {mutually(ours("one")), bare(caller(ours("three"))), "client didn't provide a certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			serverErr, clientErr := shake(t, test.server, test.client)
			err := errors.Join(serverErr, clientErr)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("server %v, client %v, want %q", serverErr, clientErr, test.want)
			}
		})
	}
}

// mixed presents the leaf of one state and trusts the other.
func mixed(presents, trusts pki.State) pki.Source {
	return func() (pki.Material, error) {
		material, err := presents.Material("three")
		material.Trust = trusts.Trust()
		return material, err
	}
}

func bare(config *tls.Config) *tls.Config {
	config.GetClientCertificate = nil
	return config
}

func TestOldVersionsAreRefused(t *testing.T) {
	state := begun(t)
	server := pki.ServerConfig(at(start), holding(state).source("one"))
	client := pki.ClientConfig(named(start, "one.example"), holding(state).source("three"))
	client.MinVersion, client.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if serverErr, _ := shake(t, server, client); serverErr == nil {
		t.Error("TLS 1.2 was accepted")
	}
	base := at(start)
	base.MinVersion = tls.VersionTLS12
	server = pki.ServerConfig(base, holding(state).source("one"))
	if serverErr, clientErr := shake(t, server, client); serverErr != nil || clientErr != nil {
		t.Errorf("TLS 1.2 was wished and refused: %v, %v", serverErr, clientErr)
	}
}

// TestHTTP2 shows that the configuration does for a real server, over HTTP/2 also
// with client certificates, and that the base is left as it was.
func TestHTTP2(t *testing.T) {
	now := time.Now()
	policy := week()
	policy.Leaves[0].Addresses = []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	state := apply(t, pki.Decide(pki.State{}, now, policy), pki.State{}, seeded())
	base := &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, NextProtos: []string{"h2", "http/1.1"}}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.TLS.VerifiedChains[0][0].Subject.CommonName)
	}))
	server.EnableHTTP2 = true
	server.TLS = pki.ServerConfig(base, holding(state).source("one"))
	server.StartTLS()
	defer server.Close()
	transport := &http.Transport{ForceAttemptHTTP2: true,
		TLSClientConfig: pki.ClientConfig(&tls.Config{ServerName: "127.0.0.1"}, holding(state).source("three"))}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport}).Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || string(body) != "three" || response.ProtoMajor != 2 {
		t.Errorf("got %q over %s, %v", body, response.Proto, err)
	}
	if base.GetCertificate != nil || base.MinVersion != 0 {
		t.Error("the base was changed")
	}
}

func TestDecodeMaterial(t *testing.T) {
	state := begun(t)
	material, err := pki.DecodeMaterial(encodedLeaf(t, state, "one", "one", "bundle"))
	if err != nil {
		t.Fatal(err)
	}
	source := func() (pki.Material, error) { return material, nil }
	server := pki.ServerConfig(mutual(start), source)
	serverErr, clientErr := shake(t, server, pki.ClientConfig(named(start, "1.example"), source))
	if serverErr != nil || clientErr != nil {
		t.Errorf("server %v, client %v", serverErr, clientErr)
	}
	if _, err := pki.DecodeMaterial(encodedLeaf(t, state, "one", "one", "")); err == nil {
		t.Error("an empty bundle was taken")
	}
}
