// Package render makes PostgreSQL's configuration files out of the settings. It is pure: the same input gives the same
// bytes, so a file on disk is right exactly when its hash is. Start reading at Files.
package render

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// Input is what the files depend on.
type Input struct {
	Settings wire.Settings
	// Instance is the name of the instance.
	Instance string
	// User is the operating system's name for the user that PostgreSQL and the agent run as.
	User string
	// Runtime is the folder of the socket and of the certificate's copy.
	Runtime string
	// Refused names parameters of the settings that are left out. Those in Kept have that value instead.
	Refused []string
	Kept    []wire.Parameter
	// Raised are what a replica must have at least, where the settings say less.
	Raised []postgres.Floor
	// Libraries are those that the image has and that can be loaded at the start.
	Libraries []string
	// Full says that the volume is: a primary takes no writes then, unless a session says otherwise.
	Full bool
	// Certificate identifies the installed certificate. It is part of the mark, so that a new one causes a reload.
	Certificate string
	// Listen and Port are where the server listens; empty and 0 for everywhere and the usual port.
	Listen string
	Port   uint16
	// Open lets applications in (G1).
	Open bool
	// Quorum is what a server that leads waits for; nil for one that does not lead.
	Quorum *tenure.Setting
	// Timeline is the one that it leads on.
	Timeline int
}

// Superuser is the role that the agent uses, over the local socket only.
const Superuser = "postgres"

// Names of parameters that exist only to tell, from inside, which configuration a server has loaded.
const (
	MarkParameter     = "meridian.mark"
	SettingsParameter = "meridian.settings"
	GateParameter     = "meridian.gate"
	RoomParameter     = "meridian.room"
	NamesParameter    = "meridian.names"
)

// NamesTimeline is the value of the parameter of the names in a server that counts members by names that tell its
// timeline. One of the version before does not have the parameter.
const NamesTimeline = "timeline"

// RoomFull is the value of the parameter of the room in a server that takes no writes.
const RoomFull = "full"

// GateOpen is the value of the gate's parameter in a server whose rules of access let applications in.
const GateOpen = "open"

// LogPrefix starts every entry of PostgreSQL's log; the separator is a character that names do not contain. The fields
// are time, process, SQL state, user, database and application.
const LogPrefix = `\037%n\037%p\037%e\037%u\037%d\037%a\037`

// RawLogPrefix is LogPrefix as PostgreSQL holds it. It is also given on the command line, so that the lines before the
// configuration is read have it as well.
func RawLogPrefix() string { return strings.ReplaceAll(LogPrefix, `\037`, "\x1f") }

// TLSFolder is where the copy of the certificate is, inside the runtime folder.
const TLSFolder = "tls"

const (
	mainFile     = "postgresql.conf"
	generated    = "meridian.conf"
	accessFile   = "pg_hba.conf"
	identityFile = "pg_ident.conf"
)

// Names returns the names of the files, in the order in which they are written: a file that another one refers to
// comes before it.
func Names() []string { return []string{identityFile, accessFile, generated, mainFile} }

// Header starts every file.
const Header = "# Written by the Meridian agent. Changes are overwritten: use the GeoDatabase.\n"

// Files returns the files and the mark that a server shows which has loaded them.
func Files(in Input) (files []postgres.Content, mark string) {
	owner := in.Settings.Application.Owner
	identity := Header + fmt.Sprintf("meridian %s %s\n", quoted(in.User), Superuser)
	identity += fmt.Sprintf("meridian %s %s\n", quoted(in.User), RoleMonitor)
	identity += fmt.Sprintf("meridian %s %s\n", quoted(in.User), RoleProbe)
	if owner != "" {
		identity += fmt.Sprintf("meridian %s %s\n", quoted(in.User), quoted(owner))
	}
	for _, role := range AgentRoles {
		identity += fmt.Sprintf("instance %s %s\n", quoted(CommonName), role)
	}
	access := Header + access(in)
	main := Header + "include '" + generated + "'\ninclude_if_exists '" + UpstreamFile + "'\n"
	settings := Header + parameters(in)
	mark = Hash(strings.Join([]string{identity, access, main, settings, in.Certificate}, "\x00"))
	settings += line(MarkParameter, mark)
	return []postgres.Content{
		{Name: identityFile, Text: identity},
		{Name: accessFile, Text: access},
		{Name: generated, Text: settings},
		{Name: mainFile, Text: main},
	}, mark
}

// CommonName is in the certificate of every instance of the database.
const CommonName = "meridian:instance"

// The roles by which agents reach each other's servers. None is a superuser, and each needs a certificate.
const (
	RoleReplication = "meridian_replication"
	RoleRewind      = "meridian_rewind"
	RoleMonitor     = "meridian_monitor"
)

// AgentRoles are all of them.
var AgentRoles = []string{RoleReplication, RoleRewind, RoleMonitor}

// RoleProbe is for what the agent does inside its own server that anybody may do: probing, and looking into the
// application's database. It is a member of nothing and owns nothing.
const RoleProbe = "meridian_probe"

// OwnRoles are those that Meridian makes for itself.
var OwnRoles = []string{RoleReplication, RoleRewind, RoleMonitor, RoleProbe}

// access lets in over the local socket the superuser, the roles that read figures and probe, and, if the gate is open,
// a person inside the pod as the owner of the application's database, and nobody else. Over the network there are
// agents with a certificate and applications with TLS and a password, if the gate is open, and nothing else.
//
//nolint:dupword // "all" is PostgreSQL's word for any database, any role and any address.
func access(in Input) string {
	person := ""
	if application := in.Settings.Application; in.Open && application.Owner != "" {
		person = fmt.Sprintf("local %s %s peer map=meridian\n", quoted(application.Database), quoted(application.Owner))
	}
	rules := `local all postgres peer map=meridian
local postgres ` + RoleMonitor + ` peer map=meridian
local all ` + RoleProbe + ` peer map=meridian
` + person + `local all all reject
local replication all reject
host all postgres all reject
host replication postgres all reject
hostssl replication ` + RoleReplication + ` all cert map=instance
hostssl postgres ` + RoleRewind + ` all cert map=instance
hostssl postgres ` + RoleMonitor + ` all cert map=instance
host all ` + strings.Join(OwnRoles, ",") + ` all reject
host replication all all reject
`
	if in.Open {
		rules += "hostssl all all all scram-sha-256\n"
	}
	return rules + "host all all all reject\n"
}

// parameters are defaults, then the user's, then what Meridian manages: in a file the last one wins.
func parameters(in Input) string {
	var text strings.Builder
	text.WriteString(defaultLines)
	text.WriteString("# From the GeoDatabase.\n")
	for _, parameter := range in.Settings.Parameters {
		// The operator refuses these. Who can write the settings without it must not get further than that.
		if wire.ManagedParameter(parameter.Name) != "" {
			text.WriteString("# Managed by Meridian, so left out: " + parameter.Name + "\n")
			continue
		}
		if slices.Contains(in.Refused, parameter.Name) {
			text.WriteString("# Refused by PostgreSQL, so left as it was: " + parameter.Name + "\n")
			for _, kept := range in.Kept {
				if kept.Name == parameter.Name {
					text.WriteString(line(kept.Name, kept.Value))
				}
			}
			continue
		}
		text.WriteString(line(parameter.Name, parameter.Value))
	}
	text.WriteString(demanded(in))
	text.WriteString("# Managed by Meridian.\n")
	for _, parameter := range placed(in) {
		text.WriteString(line(parameter.Name, parameter.Value))
	}
	text.WriteString(managedLines)
	if in.Settings.Major >= 17 {
		text.WriteString(line("allow_alter_system", "off"))
	}
	text.WriteString(line("synchronous_standby_names", StandbyNames(in.Quorum, in.Timeline)))
	text.WriteString(line(NamesParameter, NamesTimeline))
	gate := "closed"
	if in.Open {
		gate = GateOpen
	}
	text.WriteString(line(GateParameter, gate))
	text.WriteString(line(SettingsParameter, in.Settings.Hash()))
	return text.String()
}

// demanded are lines that are there only when something demands them.
func demanded(in Input) string {
	text := ""
	needed := slices.DeleteFunc(wire.Preloaded(in.Settings.Extensions), func(name string) bool {
		return !slices.Contains(in.Libraries, name)
	})
	if len(needed) > 0 {
		text += "# Extensions need these.\n" + line("shared_preload_libraries", strings.Join(needed, ","))
	}
	if len(in.Raised) > 0 {
		text += "# A replica has at least what its primary has.\n"
	}
	for _, floor := range in.Raised {
		text += line(floor.Name, fmt.Sprint(floor.Value))
	}
	if in.Full {
		text += "# The volume is full.\n" + line("default_transaction_read_only", "on") + line(RoomParameter, RoomFull)
	}
	return text
}

// defaults replace those that initdb takes from the machine that it happens to run on.
var defaults = []wire.Parameter{
	{Name: "timezone", Value: "UTC"},
	{Name: "log_timezone", Value: "UTC"},
	// No container has a limit of huge pages, so where a node has some, touching the first one ends the server.
	{Name: "huge_pages", Value: "off"},
	{Name: "max_connections", Value: "100"},
	// A reader on a replica is not interrupted by the primary's cleaning, and holds up replay only so long.
	{Name: "hot_standby_feedback", Value: "on"},
	{Name: "max_standby_streaming_delay", Value: "10s"},
	{Name: "max_wal_senders", Value: "16"},
	{Name: "max_replication_slots", Value: "16"},
	// A slot of an absent member must not fill the disk. The profile of a database has figures for its volumes.
	{Name: "max_slot_wal_keep_size", Value: "2GB"},
	{Name: "wal_keep_size", Value: "256MB"},
	// Whoever is not there any more is noticed, however the network went away.
	{Name: "wal_sender_timeout", Value: "5s"},
	{Name: "wal_receiver_timeout", Value: "5s"},
	{Name: "wal_receiver_status_interval", Value: "1s"},
	{Name: "wal_retrieve_retry_interval", Value: "100ms"},
	{Name: "tcp_keepalives_idle", Value: "5"},
	{Name: "tcp_keepalives_interval", Value: "2"},
	{Name: "tcp_keepalives_count", Value: "3"},
	{Name: "tcp_user_timeout", Value: "10s"},
}

// placed are those that depend on the instance and its runtime folder.
func placed(in Input) []wire.Parameter {
	runtime := in.Runtime
	return []wire.Parameter{
		{Name: "listen_addresses", Value: cmp.Or(in.Listen, "*")},
		{Name: "port", Value: fmt.Sprint(cmp.Or(in.Port, wire.PortPostgres))},
		{Name: "cluster_name", Value: in.Instance},
		{Name: "unix_socket_directories", Value: runtime},
		{Name: "ssl_cert_file", Value: path.Join(runtime, TLSFolder, wire.KeyCertificate)},
		{Name: "ssl_key_file", Value: path.Join(runtime, TLSFolder, wire.KeyPrivateKey)},
		{Name: "ssl_ca_file", Value: path.Join(runtime, TLSFolder, wire.KeyAuthority)},
	}
}

var managed = []wire.Parameter{
	{Name: "unix_socket_permissions", Value: "0700"},
	{Name: "ssl", Value: "on"},
	{Name: "ssl_min_protocol_version", Value: "TLSv1.2"},
	{Name: "password_encryption", Value: "scram-sha-256"},
	{Name: "wal_level", Value: "replica"},
	{Name: "wal_log_hints", Value: "on"},
	{Name: "hot_standby", Value: "on"},
	{Name: "fsync", Value: "on"},
	{Name: "full_page_writes", Value: "on"},
	{Name: "data_sync_retry", Value: "off"},
	// The agent sees the end of a server, looks at what it left and decides about the next.
	{Name: "restart_after_crash", Value: "off"},
	{Name: "log_destination", Value: "stderr"},
	{Name: "logging_collector", Value: "off"},
	{Name: "log_line_prefix", Value: LogPrefix},
	{Name: "archive_mode", Value: "off"},
	{Name: "recovery_target_timeline", Value: "latest"},
	{Name: "recovery_min_apply_delay", Value: "0"},
}

// The lines that never change are made once: the files are rendered in every pass.
var defaultLines, managedLines = lines(defaults), lines(managed)

func lines(parameters []wire.Parameter) string {
	var text strings.Builder
	for _, parameter := range parameters {
		text.WriteString(line(parameter.Name, parameter.Value))
	}
	return text.String()
}

// line keeps the escapes of LogPrefix, which the file format has for characters that cannot be printed.
func line(name, value string) string {
	if value == LogPrefix {
		return name + " = '" + value + "'\n"
	}
	return name + " = " + escaped(value) + "\n"
}

// escaped writes a value so that the file's own escapes cannot change it.
func escaped(value string) string { return "'" + escapes.Replace(value) + "'" }

// escapes is made once: it is used for every parameter in every pass.
var escapes = strings.NewReplacer(`\`, `\\`, `'`, `''`)

// quoted writes a name for pg_ident.conf.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// Hash identifies the text of a file.
func Hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
