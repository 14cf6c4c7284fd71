package render_test

import (
	"regexp"
	"strings"
	"testing"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/scenario"
)

type input struct {
	Settings    wire.Settings   `json:"settings"`
	Instance    string          `json:"instance"`
	User        string          `json:"user"`
	Runtime     string          `json:"runtime"`
	Refused     []string        `json:"refused,omitempty"`
	Certificate string          `json:"certificate"`
	Listen      string          `json:"listen,omitempty"`
	Port        uint16          `json:"port,omitempty"`
	Open        bool            `json:"open,omitempty"`
	Quorum      *tenure.Setting `json:"quorum,omitempty"`

	Kept   []wire.Parameter `json:"kept,omitempty"`
	Raised []postgres.Floor `json:"raised,omitempty"`
	Full   bool             `json:"full,omitempty"`
}

func TestFiles(t *testing.T) {
	scenario.Run(t, "testdata/*.txtar", func(in scenario.Files) (out scenario.Files) {
		var given input
		in.YAML("input.yaml", &given)
		files, _ := render.Files(render.Input{
			Settings: given.Settings, Instance: given.Instance, User: given.User, Runtime: given.Runtime,
			Refused: given.Refused, Certificate: given.Certificate, Listen: given.Listen, Port: given.Port, Open: given.Open,
			Quorum: given.Quorum, Kept: given.Kept, Raised: given.Raised, Full: given.Full,
			Libraries: []string{"pg_stat_statements"},
		})
		for index, file := range files {
			if file.Name != render.Names()[index] {
				t.Errorf("file %d is %s, announced as %s", index, file.Name, render.Names()[index])
			}
			out.SetText(file.Name, file.Text)
		}
		return out
	})
}

// What users may not set because Meridian sets it, is set: package admit promises that by these names.
func TestWhatIsPromisedIsSet(t *testing.T) {
	files, _ := render.Files(render.Input{Settings: wire.Settings{Major: 17}, Instance: "cities-1", Runtime: "/run"})
	for name, value := range map[string]string{
		"listen_addresses": "*", "port": "5432", "unix_socket_directories": "/run", "unix_socket_permissions": "0700",
		"ssl": "on", "ssl_cert_file": "/run/tls/tls.crt", "ssl_key_file": "/run/tls/tls.key",
		"ssl_ca_file": "/run/tls/ca.crt", "ssl_min_protocol_version": "TLSv1.2",
		"cluster_name": "cities-1", "hot_standby": "on", "wal_level": "replica", "wal_log_hints": "on",
		"full_page_writes": "on", "fsync": "on", "data_sync_retry": "off", "restart_after_crash": "off",
		"log_destination": "stderr", "logging_collector": "off", "log_line_prefix": render.LogPrefix,
		"password_encryption": "scram-sha-256", "allow_alter_system": "off",
	} {
		_, managed, _ := strings.Cut(files[2].Text, "# Managed by Meridian.\n")
		if !strings.Contains("\n"+managed, "\n"+name+" = '"+value+"'\n") {
			t.Errorf("%s is not set to %s", name, value)
		}
	}
}

// A library is loaded at the start if an extension needs it and the image has it, and never because settings name it.
func TestPreload(t *testing.T) {
	const line = "\nshared_preload_libraries = 'pg_stat_statements'\n"
	wanted := []string{"pg_stat_statements", "postgis"}
	for name, test := range map[string]struct {
		extensions, libraries []string
		want                  bool
	}{
		"wanted and there": {wanted, wanted[:1], true},
		"not wanted":       {wanted[1:], wanted[:1], false},
		"not there":        {wanted, nil, false},
	} {
		settings := wire.Settings{Major: 17, Extensions: test.extensions, Parameters: []wire.Parameter{
			{Name: "shared_preload_libraries", Value: "evil"},
		}}
		files, _ := render.Files(render.Input{Settings: settings, Libraries: test.libraries})
		if got := strings.Contains(files[2].Text, line); got != test.want || strings.Contains(files[2].Text, "evil") {
			t.Errorf("%s:\n%s", name, files[2].Text)
		}
	}
}

func TestMarkFollowsEverything(t *testing.T) {
	base := render.Input{Settings: wire.Settings{Major: 17}, User: "postgres", Runtime: "/run", Certificate: "c1"}
	marks := map[string]string{}
	for name, change := range map[string]func(*render.Input){
		"nothing":     func(*render.Input) {},
		"certificate": func(in *render.Input) { in.Certificate = "c2" },
		"user":        func(in *render.Input) { in.User = "other" },
		"instance":    func(in *render.Input) { in.Instance = "other-1" },
		"runtime":     func(in *render.Input) { in.Runtime = "/other" },
		"parameters": func(in *render.Input) {
			in.Settings.Parameters = []wire.Parameter{{Name: "work_mem", Value: "1MB"}}
		},
		"extensions": func(in *render.Input) { in.Settings.Extensions = []string{"postgis"} },
		"gate":       func(in *render.Input) { in.Open = true },
		"quorum":     func(in *render.Input) { in.Quorum = &tenure.Setting{} },
		"listen":     func(in *render.Input) { in.Listen = "127.0.0.1" },
		"port":       func(in *render.Input) { in.Port = 5433 },
	} {
		in := base
		change(&in)
		files, mark := render.Files(in)
		for other, same := range marks {
			if same == mark {
				t.Errorf("a change of %s has the same mark as %s", name, other)
			}
		}
		marks[name] = mark
		if !strings.Contains(files[2].Text, render.MarkParameter+" = '"+mark+"'") {
			t.Errorf("%s: the mark is not in the file", name)
		}
	}
}

func TestStandbyNames(t *testing.T) {
	one, two := wire.Member{Name: "cities-1", Incarnation: "a"}, wire.Member{Name: "cities-2", Incarnation: "b"}
	for want, quorum := range map[string]*tenure.Setting{
		`ANY 1 ("meridian-nobody")`: nil,
		"":                          {},
		`ANY 2 ("cities-1/a", "cities-1/a@7", "cities-2/b", "cities-2/b@7")`: {K: 2, Names: []wire.Member{two, one}},
	} {
		if got := render.StandbyNames(quorum, 7); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// A slot has a name of its own for each member, and one that PostgreSQL takes.
func TestSlot(t *testing.T) {
	seen := map[string]wire.Member{}
	long := strings.Repeat("x", 70)
	for _, member := range []wire.Member{
		{Name: "cities-1", Incarnation: "8c0e5d9e-5e7b-4f1c-9d53-0b7a4f7b6c11"},
		{Name: "cities-1", Incarnation: "8c0e5d9e-5e7b-4f1c-9d53-0b7a4f7b6c12"},
		{Name: "cities_1", Incarnation: "8c0e5d9e-5e7b-4f1c-9d53-0b7a4f7b6c11"},
		{Name: long + "1", Incarnation: long}, {Name: long + "2", Incarnation: long}, {Name: "Ä.b", Incarnation: "C"},
	} {
		slot := render.Slot(member)
		if !regexp.MustCompile(`^[a-z0-9_]{1,63}$`).MatchString(slot) || !render.OurSlot(slot) {
			t.Errorf("%s: %q", member, slot)
		}
		if other, taken := seen[slot]; taken {
			t.Errorf("%s and %s share %s", member, other, slot)
		}
		seen[slot] = member
	}
}

func TestUpstream(t *testing.T) {
	text := render.Upstream(render.Follow{
		Self: wire.Member{Name: "cities-2", Incarnation: "i2"}, Slot: "meridian_x", Host: "cities-1-0.cities-pods",
		Address: "10.0.0.1", Port: 5432, Runtime: "/run", Key: "upstream-1",
	})
	for _, want := range []string{
		"application_name=cities-2/i2", "host=cities-1-0.cities-pods", "hostaddr=10.0.0.1", "sslmode=verify-full",
		"sslkey=/run/upstream-1/tls.key", "user=meridian_replication", "primary_slot_name = 'meridian_x'",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
	// B2: a copy without a place goes by a name that nobody waits for, and that is no longer.
	joining := render.Upstream(render.Follow{Self: wire.Member{Name: "cities-2", Incarnation: "i2"}, Host: "h", Port: 1})
	if !strings.Contains(joining, "application_name=cities-2+i2 ") {
		t.Error(joining)
	}
	// B3: the name of a member tells for which timeline it was judged.
	judged := render.Upstream(render.Follow{
		Self: wire.Member{Name: "cities-2", Incarnation: "i2"}, Slot: "meridian_x", Host: "h", Port: 1, Timeline: 7,
	})
	if !strings.Contains(judged, "application_name=cities-2/i2@7 ") {
		t.Error(judged)
	}
	for name, want := range map[string]struct {
		joins    bool
		timeline int
	}{"cities-2/i2": {}, "cities-2+i2": {joins: true}, "cities-2/i2@7": {timeline: 7}} {
		member, joins, timeline := render.Streamer(name)
		if member != (wire.Member{Name: "cities-2", Incarnation: "i2"}) || joins != want.joins || timeline != want.timeline {
			t.Errorf("%s is %v, joining %t, of timeline %d", name, member, joins, timeline)
		}
	}
	// PostgreSQL would cut a longer one.
	long := wire.Member{Name: strings.Repeat("x", 52), Incarnation: "0123456789"}
	if name := render.MemberName(long, 7); name != long.String() {
		t.Error(name)
	}
	if !strings.Contains(render.Alone(), "primary_conninfo = ''\n") {
		t.Error(render.Alone())
	}
}
