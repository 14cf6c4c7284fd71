package specs

import "maps"

// Database are words for the fields of a GeoDatabase, and Cache for those of a GeoCache.
func Database() map[string][]any {
	words := map[string][]any{
		"spec.instances": {int64(1), int64(2), int64(3), int64(3), int64(4), int64(5)},
		"spec.image":     {"example.com/postgis:17", "example.com/postgis@sha256:" + digest, "postgis:missing"},
		"spec.extensions[]": {
			"postgis", "postgis_raster", "postgis_topology", "postgis_tiger_geocoder", "fuzzystrmatch", "pg_stat_statements",
			"hstore", "pgcrypto", "address_standardizer", "no_such_thing",
		},
		"spec.leaseDuration":  {"10s", "5s", "15s", "1m", "1s", "1h"},
		"spec.maxReadLag":     {"10s", "1s", "1m", "0s", "24h"},
		"spec.maxFailoverLag": {"16Mi", "0", "1Gi", "1Ki"},
		"spec.restart":        {"now", "2", "3"},
		"spec.switchover":     {"now", "2", "3"},
		"spec.maintenance.window": {
			"Sun 02:00-04:00", "02:00-03:00", "Mon-Fri 22:00-23:00", "daily 02:00-03:00", "Sun 04:00-02:00", "25:00-26:00",
		},
		"spec.maintenance.timeZone": {"UTC", "Europe/Berlin", "Mars/Olympus"},
		"spec.parameters{}": {map[string]any{
			"work_mem": "64MB", "max_connections": "150", "shared_buffers": "256MB", "jit": "off", "timezone": "Europe/Berlin",
			"max_wal_senders": "4", "wal_keep_size": "512MB", "wal_level": "minimal", "fsync": "off", "log_statement": "ddl",
			"statement_timeout": "1min", "random_page_cost": "1.1", "max_worker_processes": "64", "no_such_thing": "1",
			"huge_pages": "on", "wal_compression": "zip", "myapp.tenant": "seven", "hot_standby": "off",
		}},
		"spec.resources.cpu":           {"500m", "1", "2", "100m", "0", "-1", "1m"},
		"spec.resources.memory":        {"1Gi", "2Gi", "1536Mi", "512Mi", "1Mi", "4Gi"},
		"spec.rotate.certificates":     {"1", "2"},
		"spec.rotate.password":         {"1", "2"},
		"spec.rotate.overlap":          {"1h", "10m", "0s"},
		"spec.storage.size":            {"1Gi", "2Gi", "3Gi", "512Mi", "1025Mi"},
		"spec.storage.walSize":         {"1Gi", "2Gi", "512Mi"},
		"spec.storage.class":           {"disk", "fixed", "nowhere"},
		"spec.storage.autoGrow.limit":  {"4Gi", "1Gi", "512Mi", "2Gi"},
		"spec.storage.adopt":           {"00000000-0000-4000-8000-000000000000", "cities"},
		"spec.bootstrap.database":      {"app", "maps", "postgres"},
		"spec.bootstrap.owner":         {"app", "maps", "postgres"},
		"spec.backup.schedule":         {"daily 02:00", "weekly Sun 03:00", "hourly", "Never", "sometimes"},
		"spec.backup.verify":           {"weekly Sun 03:00", "Never", "weekly", "daily 03:00"},
		"spec.backup.retention.window": {"14d", "1d", "12h", "0d", "9999d"},
		"spec.backup.now":              {"1", "2"},
		"spec.backup.maxRate":          {"50Mi", "32Ki", "1Ki", "2Gi"},
		"spec.backup.timeZone":         {"UTC", "Europe/Berlin", "Mars/Olympus"},
		"spec.bootstrap.restore.target.time": {
			"2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z", "yesterday",
		},
		"spec.bootstrap.restore.target.lsn":       {"0/1", "16/B374D848", "G/1"},
		"spec.bootstrap.restore.source.name":      {"cities", "old"},
		"spec.bootstrap.restore.source.namespace": {"gis"},
		"spec.bootstrap.clone.name":               {"cities", "old"},
	}
	for _, repository := range []string{"spec.backup.repository", "spec.bootstrap.restore.repository"} {
		maps.Copy(words, map[string][]any{
			repository + ".s3.bucket":              {"backups", "Backups", "a..b"},
			repository + ".s3.endpoint":            {"https://s3.example.com", "http://s3.example.com:9000", "s3.example.com"},
			repository + ".s3.prefix":              {"maps", "a/b", "/a", "a/../b"},
			repository + ".s3.region":              {"us-east-1", "eu-central-1"},
			repository + ".s3.credentials.name":    {"backup", "cities-app"},
			repository + ".gcs.bucket":             {"backups"},
			repository + ".gcs.credentials.name":   {"backup"},
			repository + ".azure.account":          {"account1", "Account"},
			repository + ".azure.container":        {"backups"},
			repository + ".azure.credentials.name": {"backup"},
			repository + ".claim.name":             {"backups", "cities-1"},
			repository + ".encryption.key.name":    {"key"},
		})
	}
	return withPods(words)
}

// Cache are the words for a GeoCache.
func Cache() map[string][]any {
	return withPods(map[string][]any{
		"spec.databaseRef.name": {"cities", "maps"},
		"spec.replicas":         {int64(1), int64(2), int64(3)},
		"spec.image":            {"example.com/redis:8", "redis:missing"},
		"spec.memory":           {"256Mi", "512Mi", "128Mi", "64Mi", "1Gi", "1Mi", "0"},
		"spec.parameters{}": {map[string]any{
			"hz": "20", "maxmemory-samples": "10", "timeout": "60", "appendonly": "yes", "maxmemory": "1gb", "hz ": "1",
			"notify-keyspace-events": "KEA", "slowlog-max-len": "-1", "save": "60 1", "lfu-decay-time": "2",
		}},
		"spec.rotate.password": {"1", "2"},
		"spec.rotate.overlap":  {"1h", "10m", "0s"},
	})
}

const digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// withPods adds the words for the fields that both kinds have.
func withPods(words map[string][]any) map[string][]any {
	maps.Copy(words, map[string][]any{
		"spec.network.clients[].cidr":               {"10.0.0.0/8", "10.0.0.0", "0.0.0.0/0", "fd00::/8", "10.0.0.1/8"},
		"spec.network.clients[].pods.matchLabels{}": {map[string]any{"app": "web", "example.com/role": "x", "-": "x"}},
		"spec.network.clients[].namespaces.matchLabels{}": {
			map[string]any{"kubernetes.io/metadata.name": "web", "app": ""},
		},
		"spec.network.clients[].pods.matchExpressions[]": {
			map[string]any{"key": "app", "operator": "In", "values": []any{"web", "map"}},
			map[string]any{"key": "app", "operator": "In", "values": []any{}},
			map[string]any{"key": "app", "operator": "Exists"},
		},
		"spec.network.clients[].pods.matchExpressions[].operator":       {"In", "Exists", "DoesNotExist", "Near"},
		"spec.network.clients[].namespaces.matchExpressions[].operator": {"In", "Exists", "NotIn", "Near"},
		"spec.podTemplate.metadata.annotations{}": {
			map[string]any{"example.com/team": "maps", "meridian.dev/owner": "x", "kubectl.kubernetes.io/restartedAt": "now"},
		},
		"spec.podTemplate.metadata.labels{}": {
			map[string]any{"team": "maps", "meridian.dev/database": "other", "app.kubernetes.io/name": "other"},
		},
		"spec.podTemplate.spec": {
			map[string]any{"priorityClassName": "system-cluster-critical"},
			map[string]any{"nodeSelector": map[string]any{"disk": "fast"}},
			map[string]any{"hostNetwork": true},
			map[string]any{"tolerations": []any{map[string]any{"key": "db", "operator": "Exists"}}},
			map[string]any{"serviceAccountName": "default"},
			map[string]any{"terminationGracePeriodSeconds": int64(1)},
			map[string]any{"containers": []any{map[string]any{"name": "postgres", "image": "other"}}},
			map[string]any{"volumes": []any{map[string]any{"name": "host", "hostPath": map[string]any{"path": "/"}}}},
			map[string]any{"nodeSelector": "fast"}, map[string]any{"noSuchField": true}, map[string]any{"containers": "x"},
		},
	})
	return words
}
