package wire_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/internal/wire"
)

var update = flag.Bool("update", false, "write the golden files")

func settings() wire.Settings {
	return wire.Settings{
		Version: 1, DatabaseUID: "0c9d", Database: "cities", Major: 17,
		Application: wire.Application{Database: "app", Owner: "app"},
		Extensions:  []string{"postgis", "postgis_raster"},
		Parameters:  []wire.Parameter{{Name: "log_line_prefix", Value: "<%m> "}, {Name: "work_mem", Value: "64MB"}},
		LeaseUID:    "1e5e", Instances: []string{"cities-1", "cities-2"}, Durability: "Strict", LeaseMilliseconds: 10000,
		MaxReadLagMilliseconds: 10000, MaxFailoverLagBytes: 16 << 20,
		Initialised: true, SystemIdentifier: "7401234567890123456",
	}
}

func report() wire.Report {
	return wire.Report{
		Version: 1, DatabaseUID: "0c9d", Instance: "cities-1", Incarnation: "b2f1", State: wire.StateRunning,
		Role: wire.RolePrimary, SystemIdentifier: "7401234567890123456", Timeline: 1, LSN: "0/15D5A30",
		ServerVersion: "17.6", SettingsHash: "ab12", PendingRestart: []string{"shared_buffers"},
		Extensions: []wire.Extension{{Name: "postgis", Version: "3.5.2"}},
		Term:       3, Holder: "cities-1", Standing: "Lead", Serving: true, LagBytes: 5, LagMilliseconds: 7,
		Reason: wire.ReasonSettingsUnreadable, Message: "the settings cannot be read",
	}
}

// golden compares with the file of this version. Files of older versions stay, and their readers with them.
func golden(t *testing.T, name string, document []byte) {
	t.Helper()
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, document, "", "  "); err != nil {
		t.Fatalf("indent: %v", err)
	}
	pretty.WriteByte('\n')
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, pretty.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), pretty.String()); diff != "" {
		t.Errorf("%s differs (-want +got); a changed message is a new version:\n%s", name, diff)
	}
}

func TestSettingsGolden(t *testing.T) {
	document, err := settings().Encode()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "settings-v1.json", document)
	back, err := wire.DecodeSettings(document)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(settings(), back); diff != "" {
		t.Errorf("does not come back (-want +got):\n%s", diff)
	}
	// The hash is compared between programs of different releases, so it is frozen with the version.
	const frozen = "b634bc880a433b08dee52d160a1e93f86d272b1e73dba54b59a2539247b3ac2a"
	if got := settings().Hash(); got != frozen {
		t.Errorf("hash %s, want %s", got, frozen)
	}
}

func TestReportGolden(t *testing.T) {
	document, err := report().Encode()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "report-v1.json", document)
	back, err := wire.DecodeReport(document)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(report(), back); diff != "" {
		t.Errorf("does not come back (-want +got):\n%s", diff)
	}
}

func TestHash(t *testing.T) {
	shuffled := settings()
	shuffled.Parameters = []wire.Parameter{shuffled.Parameters[1], shuffled.Parameters[0]}
	if shuffled.Hash() != settings().Hash() {
		t.Error("the order of parameters changes the hash")
	}
	bare := wire.Settings{DatabaseUID: "u"}
	empty := wire.Settings{DatabaseUID: "u", Extensions: []string{}, Parameters: []wire.Parameter{}}
	if bare.Hash() != empty.Hash() {
		t.Error("an empty list and none have different hashes")
	}
	reordered := settings()
	reordered.Extensions = []string{"postgis_raster", "postgis"}
	if reordered.Hash() == settings().Hash() {
		t.Error("the order of extensions does not change the hash")
	}
}

func TestDecodeSettingsRefuses(t *testing.T) {
	document, err := settings().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ old, new, want string }{
		"a newer version":       {`"version":1`, `"version":2,"more":true`, "version: is 2"},
		"no version":            {`"version":1,`, ``, "version: is 0"},
		"an unknown field":      {`"major":17`, `"major":17,"minor":6`, `unknown field "minor"`},
		"a field twice":         {`"major":17`, `"major":17,"major":15`, `duplicate field "major"`},
		"other letters":         {`"major":17`, `"Major":17`, `unknown field "Major"`},
		"no database":           {`"databaseUID":"0c9d"`, `"databaseUID":""`, "databaseUID: is empty"},
		"a reserved role":       {`"owner":"app"`, `"owner":"postgres"`, "application.owner"},
		"a role of the agents":  {`"owner":"app"`, `"owner":"meridian_monitor"`, "application.owner"},
		"a reserved prefix":     {`"database":"app"`, `"database":"pg_app"`, "application.database"},
		"a name of 64 bytes":    {`"owner":"app"`, `"owner":"` + strings.Repeat("é", 32) + `"`, "more than 63 bytes"},
		"a NUL in a name":       {`"owner":"app"`, `"owner":"a\u0000b"`, "control characters"},
		"a quote in extensions": {`"postgis_raster"`, `"postgis\"; drop"`, "extensions[1]"},
		"an extension twice":    {`"postgis_raster"`, `"postgis"`, "twice"},
		"a second line":         {`64MB`, `64MB\ninclude 'x'`, "one line"},
		"parameters unsorted":   {`"log_line_prefix"`, `"zero"`, "out of order"},
		"a parameter twice":     {`"log_line_prefix"`, `"work_mem"`, "twice"},
		"not JSON":              {`{"version"`, `version`, "invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.Replace(string(document), test.old, test.new, 1)
			if changed == string(document) {
				t.Fatal("the case changes nothing")
			}
			_, err := wire.DecodeSettings([]byte(changed))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one with %q", err, test.want)
			}
		})
	}
}

func TestDecodeReportRefuses(t *testing.T) {
	for name, change := range map[string]func(*wire.Report){
		"no instance":              func(r *wire.Report) { r.Instance = "" },
		"an unknown state":         func(r *wire.Report) { r.State = "asleep" },
		"an unknown role":          func(r *wire.Report) { r.Role = "boss" },
		"a failure without reason": func(r *wire.Report) { r.State, r.Reason = wire.StateFailed, "" },
	} {
		t.Run(name, func(t *testing.T) {
			bad := report()
			change(&bad)
			if _, err := bad.Encode(); err == nil {
				t.Error("encoded")
			}
			document, err := json.Marshal(bad)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := wire.DecodeReport(document); err == nil {
				t.Error("decoded")
			}
		})
	}
}

// What a newer agent tells is read without what is new in it.
func TestReportOfTheFuture(t *testing.T) {
	document, err := report().Encode()
	if err != nil {
		t.Fatal(err)
	}
	future := strings.Replace(string(document), `"version":1`, `"version":1,"mood":{"good":true}`, 1)
	back, err := wire.DecodeReport([]byte(future))
	if diff := cmp.Diff(report(), back); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := wire.DecodeReport([]byte(strings.Replace(future, `"version":1`, `"version":2`, 1))); err == nil {
		t.Error("a report of another version is read")
	}
}

// A wish for a new start is part of the settings, and one that cannot be meant is refused.
func TestRestarts(t *testing.T) {
	asked := settings()
	asked.Restarts = []wire.Restart{{Instance: "cities-2", Token: "b"}, {Instance: "cities-1", Token: "a", Stay: true}}
	document, err := asked.Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := wire.DecodeSettings(document)
	if err != nil {
		t.Fatal(err)
	}
	if back.RestartOf("cities-1") != "a" || back.RestartOf("cities-2") != "b" || back.RestartOf("cities-3") != "" ||
		!back.StaysIn("cities-1") || back.StaysIn("cities-2") {
		t.Errorf("%+v", back.Restarts)
	}
	if asked.Hash() == settings().Hash() {
		t.Error("a restart does not change the hash")
	}
	for name, restarts := range map[string][]wire.Restart{
		"no token":    {{Instance: "cities-1"}},
		"no instance": {{Token: "a"}},
		"a line":      {{Instance: "cities-1", Token: "a\nb"}},
		"twice":       {{Instance: "cities-1", Token: "a"}, {Instance: "cities-1", Token: "b"}},
	} {
		asked.Restarts = restarts
		if _, err := asked.Encode(); err == nil || !strings.Contains(err.Error(), "restarts[") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPublic shows what those without a certificate do not get to know.
func TestPublic(t *testing.T) {
	const hidden = "hunter2"
	report := wire.Report{
		Instance: "cities-1", State: wire.StateRunning, Role: wire.RolePrimary, Reason: wire.ReasonCopying,
		Message: hidden, Certificate: hidden, Clone: &wire.Progress{Done: 1, Problem: hidden},
		Parameters: []wire.ParameterState{{Name: "app.key", State: wire.ParameterRefused, Current: hidden, Wanted: hidden}},
		Libraries:  []wire.Library{{Name: "geos", Before: "1", Now: "2", Indexes: []string{hidden}, More: 1}},
	}
	document, err := report.Public().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"app.key"`, `"geos"`, `"more":2`, `"Copying"`} {
		if !strings.Contains(strings.ReplaceAll(string(document), " ", ""), want) {
			t.Errorf("no %s in %s", want, document)
		}
	}
	if strings.Contains(string(document), hidden) {
		t.Errorf("it says %s", document)
	}
	if report.Parameters[0].Wanted != hidden || report.Clone.Problem != hidden || report.Libraries[0].Indexes == nil {
		t.Error("the report itself was changed")
	}
}
