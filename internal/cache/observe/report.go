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
	"time"

	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/render"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/pki"
)

const (
	// patience is how long an agent may take. A pass of one cache must not wait for a lost node of another.
	patience = 2 * time.Second
	// longest is more than any report has.
	longest = 1 << 20
)

// readReports asks the agent of every pod.
func (p *pass) readReports(ctx context.Context) error {
	for i := range p.facts.Instances {
		if instance := &p.facts.Instances[i]; instance.Pod != nil {
			instance.Report = p.report(ctx, instance.Name)
		}
	}
	return nil
}

func (p *pass) report(ctx context.Context, instance string) cache.Report {
	address := p.addresses[instance]
	switch {
	case address == "":
		return cache.Report{Problem: "its pod has no address yet"}
	case p.material == nil:
		return cache.Report{Problem: "there is no certificate to call it with yet"}
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	report, err := p.Ask(ctx, Agent{Address: address, Host: render.AgentHost(p.facts.Identity), Material: *p.material})
	switch {
	case err != nil:
		return cache.Report{Problem: brief(err)}
	case report.CacheUID != "" && report.CacheUID != p.facts.UID || report.Instance != instance:
		return cache.Report{Problem: fmt.Sprintf("%s answers for %s of another cache", address, report.Instance)}
	}
	return cache.Report{
		Reachable: true, State: string(report.State), Role: string(report.Role), ServerVersion: report.ServerVersion,
		SettingsHash: report.SettingsHash, Allowed: report.Memory.Allowed, Resident: report.Memory.Resident,
		PendingRestart: report.PendingRestart, Reason: string(report.Reason), Message: report.Message,
	}
}

// brief is the cause of a failed call without addresses and ports: those differ from call to call, and what a user sees
// must not change as long as the trouble is the same.
func brief(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer within " + patience.String()
	}
	if call, ok := errors.AsType[*net.OpError](err); ok {
		return call.Err.Error()
	}
	if request, ok := errors.AsType[*url.Error](err); ok {
		return request.Err.Error()
	}
	return err.Error()
}

// AskAgent gets the report of an agent over mutual TLS. Each call has a connection of its own: a pooled one would
// outlive the certificates that it was opened with.
func AskAgent(ctx context.Context, agent Agent) (wire.CacheReport, error) {
	config := pki.ClientConfig(&tls.Config{ServerName: agent.Host, MinVersion: tls.VersionTLS13},
		func() (pki.Material, error) { return agent.Material, nil })
	caller := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	defer caller.CloseIdleConnections()
	address := "https://" + net.JoinHostPort(agent.Address, strconv.Itoa(wire.PortAgent)) + wire.PathReport
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return wire.CacheReport{}, err
	}
	response, err := caller.Do(request)
	if err != nil {
		return wire.CacheReport{}, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return wire.CacheReport{}, fmt.Errorf("the agent answers %s", response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, longest))
	if err != nil {
		return wire.CacheReport{}, fmt.Errorf("read the report: %w", err)
	}
	return wire.DecodeCacheReport(body)
}
