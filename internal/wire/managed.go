package wire

import (
	"path"
	"strings"
)

// managedName is a pattern of names, and why a user may not set them.
type managedName struct{ pattern, why string }

// managedNames are the parameters that a user may not set, by pattern, and why. What the reasons have in common: the
// server would not start, another instance could not follow it, or an acknowledged write could be lost.
var managedNames = []managedName{
	{"include", "files of the server are written by Meridian; put each setting into spec.parameters"},
	{"include_*", "files of the server are written by Meridian; put each setting into spec.parameters"},
	{"config_file", fileWhy}, {"data_directory", fileWhy}, {"data_directory_mode", fileWhy}, {"hba_file", fileWhy},
	{"ident_file", fileWhy}, {"external_pid_file", fileWhy}, {"stats_temp_directory", fileWhy},
	{"krb_server_keyfile", fileWhy},

	{"listen_addresses", addressWhy}, {"port", addressWhy}, {"unix_socket_*", addressWhy},
	{"bonjour", addressWhy}, {"bonjour_name", addressWhy},
	{"ssl", tlsWhy}, {"ssl_*", tlsWhy},
	{"db_user_namespace", "it changes the names of roles; the roles that Meridian makes could not log in"},

	{"synchronous_standby_names",
		"who has to confirm a write follows from the members of the database; use spec.durability"},
	{"synchronized_standby_slots", replicationWhy}, {"sync_replication_slots", replicationWhy},
	{"primary_conninfo", replicationWhy}, {"primary_slot_name", replicationWhy}, {"hot_standby", replicationWhy},
	{"wal_receiver_create_temp_slot", replicationWhy}, {"promote_trigger_file", replicationWhy},
	{"cluster_name", "replicas are known to the primary by this name; Meridian sets it to the name of the instance"},
	{"recovery_*", "Meridian decides when and how an instance recovers"},
	{"restore_command", archiveWhy}, {"archive_*", archiveWhy},

	{"wal_level", "replicas and rewinding need at least replica, and Meridian sets what is needed"},
	{"wal_log_hints", "rewinding a former primary needs it; Meridian keeps it on"},
	{"full_page_writes", "without it a crash can leave torn pages, and the database is lost; it stays on"},
	{"fsync", "without it a crash of the node loses acknowledged writes and the database; it stays on, " +
		"and spec.profile bulkload makes loading fast"},
	{"data_sync_retry", "going on after a failed flush loses data without a word; it stays off"},
	{"zero_damaged_pages", damageWhy}, {"ignore_*", damageWhy}, {"allow_system_table_mods", damageWhy},
	{"allow_in_place_tablespaces", "a replica could not follow; volumes are described in spec.storage"},
	{"restart_after_crash", "the agent must see a crash and decide whether the instance may go on as primary"},
	{"remove_temp_files_after_crash", "it is for debugging and fills the volume"},
	{"event_source", "it exists on Windows only"},

	{"shared_preload_libraries", libraryWhy}, {"local_preload_libraries", libraryWhy},
	{"session_preload_libraries", libraryWhy}, {"dynamic_library_path", libraryWhy}, {"extension_destdir", libraryWhy},
	{"jit_provider", libraryWhy}, {"output_plugin_libraries", libraryWhy}, {"extension_control_path", libraryWhy},
	{"oauth_validator_libraries", libraryWhy},

	{"log_destination", logWhy}, {"logging_collector", logWhy}, {"log_directory", logWhy}, {"log_filename", logWhy},
	{"log_file_mode", logWhy}, {"log_rotation_*", logWhy}, {"log_truncate_on_rotation", logWhy},
	{"log_line_prefix", logWhy}, {"syslog_*", logWhy},

	{"meridian.*", "parameters with this prefix tell the agent which configuration a server has loaded"},
	{"allow_alter_system", "settings live in spec.parameters; a second place would contradict it"},
	{"default_transaction_read_only", "whether an instance takes writes follows from its role"},
	{"transaction_read_only", "it belongs to one transaction; set it there"},
	{"transaction_isolation", "it belongs to one transaction; use default_transaction_isolation"},
	{"transaction_deferrable", "it belongs to one transaction; use default_transaction_deferrable"},
}

const (
	fileWhy        = "it names a file or folder of the server, and Meridian chooses those"
	addressWhy     = "Services, probes and replicas rely on the address and the port that Meridian sets"
	tlsWhy         = "certificates are made and rotated by Meridian, and TLS is always on"
	replicationWhy = "how instances follow each other is decided by the agents, and changes with each failover"
	archiveWhy     = "commands would run in the pod; spec.backup ships the WAL to a repository"
	damageWhy      = "it hides damage or causes it; restore from a copy instead"
	libraryWhy     = "it loads code into the server; Meridian loads what spec.extensions needs"
	logWhy         = "the agent reads the log and passes it on as structured lines, so it chooses where it goes"
)

// ManagedParameter says why a parameter may not be set by a user, or nothing.
func ManagedParameter(name string) string {
	for _, entry := range managedNames {
		if match, err := path.Match(entry.pattern, strings.ToLower(name)); err == nil && match {
			return entry.why
		}
	}
	return ""
}
