package plan_test

import (
	"fmt"
	"testing"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/plan"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/postgres/status"
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
}

func (f fileState) apply(snapshot *postgres.Snapshot) error {
	current := render.Input{Instance: snapshot.Instance, User: snapshot.Programs.User, Runtime: snapshot.Runtime}
	old := current
	current.Certificate, old.Certificate = snapshot.Certificate.Mounted, snapshot.Certificate.Installed
	if record := snapshot.Volume.Record; record != nil && record.Settings != nil {
		current.Settings, old.Settings = *record.Settings, *record.Settings
	}
	if snapshot.Settings.Mounted != nil {
		current.Settings = *snapshot.Settings.Mounted
	}
	if len(f.Refused) > 0 {
		current.Refused = f.Refused
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
	if input, known := inputs[f.Loaded]; known {
		_, snapshot.Server.Loaded = render.Files(input)
	} else if f.Loaded != "none" {
		return fmt.Errorf("loaded: %q", f.Loaded)
	}
	if f.Started != "" {
		_, snapshot.Process.Mark = render.Files(inputs[f.Started])
	}
	return nil
}

func TestDecide(t *testing.T) {
	scenario.Run(t, "testdata/*.txtar", func(in scenario.Files) (out scenario.Files) {
		var snapshot postgres.Snapshot
		in.YAML("snapshot.yaml", &snapshot)
		var files fileState
		in.YAML("files.yaml", &files)
		if err := files.apply(&snapshot); err != nil {
			in.Fail(err)
		}
		decided := plan.Decide(snapshot)
		if violations := plan.Check(snapshot, decided); len(violations) > 0 {
			in.Fail(fmt.Errorf("the plan breaks %v", violations))
		}
		out.SetText("plan.txt", decided.String())
		out.SetYAML("report.yaml", status.Report(snapshot, decided, postgres.Outcome{}))
		return out
	})
}
