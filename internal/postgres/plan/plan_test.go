package plan_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/invariant"
	"meridian.dev/meridian/internal/postgres/plan"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/postgres/status"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/scenario"
)

// fileState says in one word what hashes would say in many: whether files on disk and in the server are those of the
// wanted settings and certificate (current), of the recorded ones (old), or not there (none).
type fileState struct {
	OnDisk string `json:"onDisk"`
	Loaded string `json:"loaded"`
	// Started is what the last server was started with.
	Started string `json:"started,omitempty"`
	// Refused are parameters that were refused of the wanted settings.
	Refused []string `json:"refused,omitempty"`
	// Open says that these files let applications in.
	Open bool `json:"open,omitempty"`
	// Raised are the floors of a replica that these files have.
	Raised []postgres.Floor `json:"raised,omitempty"`
	// Upstream is what the file of that name says: right, right and unlent if the key that it names is not there,
	// nobody, or nothing because it is not there.
	Upstream string `json:"upstream,omitempty"`
}

// usual is the standing of an instance that is alone, for scenarios about other things: it begins where nothing is, and
// leads where something is. Its gate is open.
func (f *fileState) usual(s *postgres.Snapshot) {
	if s.Standing.Role != "" || s.Standing.Serial > 0 {
		return
	}
	s.Standing = tenure.Standing{Serial: 1, Role: tenure.RoleBegin, Term: 1, Incarnation: "i1"}
	f.Upstream = cmp.Or(f.Upstream, "nobody")
	record := s.Volume.Record
	mounted := s.Settings.Mounted
	if !record.Whole() && (mounted == nil || !mounted.Initialised) && s.Data.Presence != postgres.DataPresent {
		return
	}
	identity := s.Data.SystemIdentifier
	if record.Whole() {
		identity = record.SystemIdentifier
	}
	s.Standing = tenure.Standing{
		Serial: 2, Role: tenure.RoleLead, Term: 1, Timeline: 1, Initialised: identity != "", SystemIdentifier: identity,
	}
	if record.Whole() {
		s.Standing.Members = []wire.Member{{Name: s.Instance, Incarnation: record.Incarnation}}
	}
	if start := s.LeadingStart(); start != "" {
		s.Standing.OpenStart, f.Open = start, true
		s.Server.Open, s.Server.Replication.Roles = true, true
	}
}

func (f fileState) apply(snapshot *postgres.Snapshot) error {
	current := render.Input{Instance: snapshot.Instance, User: snapshot.Programs.User, Runtime: snapshot.Runtime}
	if role := snapshot.Standing.Role; role == tenure.RoleLead || role == tenure.RoleYield {
		current.Quorum, current.Timeline = &snapshot.Standing.Setting, snapshot.Standing.Timeline
	}
	current.Open, current.Raised = f.Open, f.Raised
	old := current
	current.Certificate, old.Certificate = snapshot.Certificate.Mounted, snapshot.Certificate.Installed
	if record := snapshot.Volume.Record; record != nil && record.Settings != nil {
		current.Settings, old.Settings = *record.Settings, *record.Settings
	}
	if snapshot.Settings.Mounted != nil {
		current.Settings = *snapshot.Settings.Mounted
	}
	if len(f.Refused) > 0 {
		current.Refused, current.Kept = f.Refused, snapshot.Volume.Record.Kept
		snapshot.Volume.Record.Refused = &postgres.Refused{Settings: current.Settings.Hash(), Names: f.Refused}
	}
	inputs := map[string]render.Input{"current": current, "old": old}
	if input, known := inputs[f.OnDisk]; known {
		contents, _ := render.Files(input)
		for _, content := range contents {
			snapshot.Files = append(snapshot.Files, postgres.File{
				Name: content.Name, Hash: render.Hash(content.Text), Ours: true,
			})
		}
	} else if f.OnDisk != "none" {
		return fmt.Errorf("onDisk: %q", f.OnDisk)
	}
	f.addUpstream(snapshot)
	if input, known := inputs[f.Loaded]; known {
		_, snapshot.Server.Loaded = render.Files(input)
		snapshot.Server.Proven = snapshot.Server.Loaded
	} else if f.Loaded != "none" {
		return fmt.Errorf("loaded: %q", f.Loaded)
	}
	if f.Started != "" {
		_, snapshot.Process.Mark = render.Files(inputs[f.Started])
	}
	return nil
}

func (f fileState) addUpstream(s *postgres.Snapshot) {
	text := render.Alone()
	if strings.HasPrefix(f.Upstream, "right") {
		member := wire.Member{Name: s.Instance, Incarnation: s.Volume.Record.Incarnation}
		follow := render.Follow{
			Self: member, Host: render.Host(s.Database, s.Standing.Upstream.Name), Address: s.Standing.UpstreamAddress,
			Port: wire.PortPostgres, Runtime: s.Runtime, Key: render.KeyName(s.Standing, s.Certificate.Installed),
		}
		if slices.Contains(s.Standing.Members, member) && !s.Data.Short {
			follow.Slot = render.Slot(member)
		}
		text = render.Upstream(follow)
		if f.Upstream == "right" {
			s.Certificate.Lent = []string{follow.Key}
		}
	}
	if f.Upstream != "" && f.OnDisk != "none" {
		s.Files = append(s.Files, postgres.File{Name: render.UpstreamFile, Hash: render.Hash(text), Ours: true})
	}
}

func TestDecide(t *testing.T) {
	scenario.Run(t, "testdata/*.txtar", func(in scenario.Files) (out scenario.Files) {
		var snapshot postgres.Snapshot
		in.YAML("snapshot.yaml", &snapshot)
		var files fileState
		in.YAML("files.yaml", &files)
		files.usual(&snapshot)
		if err := files.apply(&snapshot); err != nil {
			in.Fail(err)
		}
		decided := plan.Decide(snapshot)
		if violations := invariant.Check(snapshot, decided); len(violations) > 0 {
			in.Fail(fmt.Errorf("the plan breaks %v", violations))
		}
		out.SetText("plan.txt", decided.String())
		out.SetYAML("report.yaml", status.Report(snapshot, decided, postgres.Outcome{}))
		return out
	})
}
