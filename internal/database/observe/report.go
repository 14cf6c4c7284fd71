package observe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

const (
	// patience is how long an agent may take. A pass of one database must not wait for a lost node of another.
	patience = 2 * time.Second
	// longest is more than any report has.
	longest = 1 << 20
)

// readReports asks the agent of every pod that has an address, all at once: one that is lost must not hold up the
// others.
func (p *pass) readReports(ctx context.Context) error {
	var asked sync.WaitGroup
	for i := range p.facts.Instances {
		instance := &p.facts.Instances[i]
		if instance.Pod != nil {
			asked.Go(func() { instance.Report = p.report(ctx, instance.Name, instance.Pod.Address) })
		}
	}
	asked.Wait()
	return nil
}

func (p *pass) report(ctx context.Context, instance, address string) database.Report {
	switch {
	case address == "":
		return database.Report{Problem: "its pod has no address yet"}
	case p.material == nil:
		return database.Report{Problem: "there is no certificate to call it with yet"}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	report, err := p.Ask(ctx, Agent{Address: address, Host: render.AgentHost(p.facts.Identity), Material: *p.material})
	switch {
	case err != nil:
		return database.Report{Problem: brief(err)}
	case report.DatabaseUID != "" && report.DatabaseUID != p.facts.UID || report.Instance != instance:
		return database.Report{Problem: fmt.Sprintf("%s answers for %s of another database", address, report.Instance)}
	}
	return database.Report{
		Reachable: true, State: string(report.State), Role: string(report.Role),
		SystemIdentifier: report.SystemIdentifier, ServerVersion: report.ServerVersion,
		SettingsHash: report.SettingsHash, PendingRestart: report.PendingRestart,
		Incarnation: report.Incarnation, Term: report.Term, Holder: report.Holder, Serving: report.Serving,
		Streams: report.Streams, LagBytes: report.LagBytes,
		Lag:    time.Duration(report.LagMilliseconds) * time.Millisecond,
		Reason: string(report.Reason), Message: report.Message,
	}
}

// brief is the cause of a failed call without addresses and ports: those differ from call to call, and what a user sees
// must not change as long as the trouble is the same.
func brief(err error) string {
	var call *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer within " + patience.String()
	case errors.As(err, &call):
		return call.Err.Error()
	}
	var request *url.Error
	if errors.As(err, &request) {
		return request.Err.Error()
	}
	return err.Error()
}

// AskAgent gets the report of an agent over mutual TLS. Each call has a connection of its own: a pooled one would
// outlive the certificates that it was opened with.
func AskAgent(ctx context.Context, agent Agent) (wire.Report, error) {
	config := pki.ClientConfig(&tls.Config{ServerName: agent.Host, MinVersion: tls.VersionTLS13},
		func() (pki.Material, error) { return agent.Material, nil })
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	address := "https://" + net.JoinHostPort(agent.Address, strconv.Itoa(wire.PortAgent)) + wire.PathReport
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return wire.Report{}, err
	}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return wire.Report{}, err
	}
	defer response.Body.Close() //nolint:errcheck // Nothing was written, so nothing is lost.
	if response.StatusCode != http.StatusOK {
		return wire.Report{}, fmt.Errorf("the agent answers %s", response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, longest))
	if err != nil {
		return wire.Report{}, fmt.Errorf("read the report: %w", err)
	}
	return wire.DecodeReport(body)
}
