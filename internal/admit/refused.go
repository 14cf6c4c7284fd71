package admit

// RefusedNames are the names of spec.parameters that the schema refuses by itself, as regular expressions: those that
// endanger the data, so that they are refused also where nobody runs the webhook. The rule in the API is written out
// from them. Whatever else Meridian manages is refused by Parameters; see wire.ManagedParameter.
var RefusedNames = []string{
	"include", "include_dir", "include_if_exists", "archive_command", "archive_library", "archive_mode",
	"archive_cleanup_command", "restore_command", "recovery_.*", "primary_conninfo", "primary_slot_name",
	"promote_trigger_file", "synchronous_standby_names", "cluster_name", "listen_addresses", "port",
	"unix_socket_.*", "data_directory", "config_file", "hba_file", "ident_file", "external_pid_file", "ssl",
	"ssl_.*", "hot_standby", "wal_level", "wal_log_hints", "full_page_writes", "fsync",
	"shared_preload_libraries", "local_preload_libraries", "session_preload_libraries", "dynamic_library_path",
	"log_directory", "log_filename", "log_destination", "logging_collector", "allow_alter_system",
	"transaction_read_only", "default_transaction_read_only", "zero_damaged_pages", "ignore_.*",
}
