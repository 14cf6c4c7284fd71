package observe

import (
	"context"
	"fmt"

	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/cache/render"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
)

// readReports asks the agent of every pod, all at once: one that is lost must not hold up the others.
func (p *pass) readReports(ctx context.Context) error {
	service.ForEach(p.facts.Instances, func(instance *cache.Instance) {
		if instance.Pod != nil {
			instance.Report = p.report(ctx, instance.Name, instance.Pod.Address)
		}
	})
	return nil
}

func (p *pass) report(ctx context.Context, instance, address string) cache.Report {
	switch {
	case address == "":
		return cache.Report{Problem: "its pod has no address yet"}
	case p.material == nil:
		return cache.Report{Problem: "there is no certificate to call it with yet"}
	}
	ctx, cancel := context.WithTimeout(ctx, service.Patience)
	defer cancel()
	agent := service.Agent{Address: address, Host: render.AgentHost(p.facts.Identity), Material: *p.material}
	report, err := p.Ask(ctx, agent)
	switch {
	case err != nil:
		return cache.Report{Problem: service.Brief(err)}
	case report.CacheUID != "" && report.CacheUID != p.facts.UID || report.Instance != instance:
		return cache.Report{Problem: fmt.Sprintf("%s answers for %s of another cache", address, report.Instance)}
	}
	return cache.Report{
		Reachable: true, State: string(report.State), Role: string(report.Role), ServerVersion: report.ServerVersion,
		Term: report.Term, SettingsHash: report.SettingsHash,
		Allowed: report.Memory.Allowed, Resident: report.Memory.Resident,
		Serving: report.Serving, Streams: report.Streams, Flushed: report.Flushed,
		ReplicationPassword: report.ReplicationPassword, Rotation: report.Rotation, Certificate: report.Certificate,
		Used:    report.Memory.Used,
		Clients: report.Use.Clients, Hits: report.Use.Hits, Misses: report.Use.Misses, Evicted: report.Use.Evicted,
		PendingRestart: report.PendingRestart, Reason: string(report.Reason), Message: report.Message,
	}
}

// AskAgent gets the report of an agent.
func AskAgent(ctx context.Context, agent service.Agent) (wire.CacheReport, error) {
	return service.AskReport(ctx, agent, wire.DecodeCacheReport)
}
