package observe

import (
	"context"
	"fmt"
	"time"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
)

// readReports asks the agent of every pod that has an address, all at once: one that is lost must not hold up the
// others.
func (p *pass) readReports(ctx context.Context) error {
	service.ForEach(p.facts.Instances, func(instance *database.Instance) {
		if instance.Pod != nil {
			instance.Report = p.report(ctx, instance.Name, instance.Pod.Address)
		}
	})
	return nil
}

func (p *pass) report(ctx context.Context, instance, address string) database.Report {
	switch {
	case address == "":
		return database.Report{Problem: "its pod has no address yet"}
	case p.material == nil && !p.Outside:
		return database.Report{Problem: "there is no certificate to call it with yet"}
	}
	ctx, cancel := context.WithTimeout(ctx, service.Patience)
	defer cancel()
	agent := service.Agent{Address: address, Host: render.AgentHost(p.facts.Identity, instance)}
	if p.material != nil {
		agent.Material = *p.material
	}
	report, err := p.Ask(ctx, agent)
	switch {
	case err != nil:
		return database.Report{Problem: service.Brief(err)}
	case report.DatabaseUID != "" && report.DatabaseUID != p.facts.DataUID() || report.Instance != instance:
		return database.Report{Problem: fmt.Sprintf("%s answers for %s of another database", address, report.Instance)}
	}
	var parameters []database.Parameter
	for _, one := range report.Parameters {
		parameters = append(parameters, database.Parameter{
			Name: one.Name, State: string(one.State), Current: one.Current, Wanted: one.Wanted,
		})
	}
	var libraries []database.Library
	for _, library := range report.Libraries {
		libraries = append(libraries, database.Library(library))
	}
	return database.Report{
		Full: report.Volume.Full, VolumeSize: report.Volume.Size, VolumeFree: report.Volume.Free,
		LogSize: report.Volume.LogSize, LogFree: report.Volume.LogFree, Libraries: libraries,
		Restart: report.Restart, Parameters: parameters,
		Reachable: true, State: string(report.State), Role: string(report.Role),
		SystemIdentifier: report.SystemIdentifier, ServerVersion: report.ServerVersion,
		SettingsHash: report.SettingsHash, PendingRestart: report.PendingRestart,
		Incarnation: report.Incarnation, Term: report.Term, Holder: report.Holder, Serving: report.Serving,
		Streams: report.Streams, LagBytes: report.LagBytes,
		Lag:         time.Duration(report.LagMilliseconds) * time.Millisecond,
		Certificate: report.Certificate, Rotation: report.Rotation,
		Reason: string(report.Reason), Message: report.Message,
		Backup: report.Backup, RestoreProblem: report.RestoreProblem, RestoreOutside: report.RestoreOutside,
	}
}

// AskAgent gets the report of an agent.
func AskAgent(ctx context.Context, agent service.Agent) (wire.Report, error) {
	return service.AskReport(ctx, agent, wire.DecodeReport)
}
