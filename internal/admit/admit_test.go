package admit_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/admit"
)

// verdict is an object that arrives, and what is said about it.
type verdict struct {
	old, spec string // YAML of the spec; storage is filled in
	facts     admit.Facts
	refusals  []string // a part of each problem, in order; none if the object is taken
}

func database(t *testing.T, spec string) *v1alpha1.GeoDatabase {
	t.Helper()
	result := &v1alpha1.GeoDatabase{ObjectMeta: metav1.ObjectMeta{Name: "cities"}, Spec: v1alpha1.GeoDatabaseSpec{
		Version: "17", Instances: 3, Extensions: []string{"postgis"},
		Storage:   v1alpha1.Storage{Size: resource.MustParse("1Gi")},
		Resources: v1alpha1.Resources{Memory: new(resource.MustParse("1Gi"))},
	}}
	if err := yaml.UnmarshalStrict([]byte(spec), &result.Spec); err != nil {
		t.Fatalf("parse %q: %v", spec, err)
	}
	return result
}

func runDatabases(t *testing.T, cases map[string]verdict) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			var old *v1alpha1.GeoDatabase
			if test.old != "" {
				old = database(t, test.old)
			}
			check(t, admit.Database(database(t, test.spec), old, test.facts), test.refusals)
		})
	}
}

func check(t *testing.T, problems []admit.Problem, refusals []string) {
	t.Helper()
	if len(problems) != len(refusals) {
		t.Fatalf("got %d problems, want %d:\n%s", len(problems), len(refusals), admit.Message(problems))
	}
	for i, problem := range problems {
		if !strings.Contains(problem.String(), refusals[i]) {
			t.Errorf("problem %d is %q, want it to contain %q", i, problem, refusals[i])
		}
	}
}

func TestParameters(t *testing.T) {
	const field = "spec.parameters."
	runDatabases(t, map[string]verdict{
		"none":              {spec: `{}`},
		"plain":             {spec: `parameters: {work_mem: 64MB, max_connections: "200", jit: "off"}`},
		"capitals":          {spec: `parameters: {timezone: Europe/Berlin, datestyle: "ISO, DMY"}`},
		"of a known module": {spec: `parameters: {auto_explain.log_min_duration: 1s}`},
		"of an application": {spec: `parameters: {myapp.tenant: seven}`},
		"double quotes":     {spec: `parameters: {search_path: '"$user", public'}`},
		"unit of another kind": {
			spec:     `parameters: {work_mem: 10s}`,
			refusals: []string{field + `work_mem: has the unit "s"; it must be one of B, kB, MB, GB or TB`},
		},
		"unit with wrong capitals": {
			spec:     `parameters: {work_mem: 64mb}`,
			refusals: []string{`has the unit "mb"; it must be one of B, kB, MB, GB or TB, written with these capitals`},
		},
		"unit without need": {
			spec: `parameters: {max_connections: 100MB}`, refusals: []string{field + `max_connections: takes no unit`},
		},
		"too small": {
			spec:     `parameters: {work_mem: 1kB}`,
			refusals: []string{field + `work_mem: "1kB" is outside of the range from 64 to 2147483647, counted in kB`},
		},
		"not a number": {spec: `parameters: {work_mem: much}`, refusals: []string{`work_mem: "much" is not a number`}},
		"not a choice": {
			spec:     `parameters: {wal_compression: zip}`,
			refusals: []string{field + `wal_compression: "zip" is not one of pglz, lz4, zstd, on, off`},
		},
		"neither on nor off": {
			spec: `parameters: {jit: maybe}`, refusals: []string{`jit: "maybe" is neither on nor off`},
		},
		"unknown": {
			spec: `parameters: {no_such_thing: "1"}`, refusals: []string{`PostgreSQL 17 has no such parameter`},
		},
		"misspelt": {spec: `parameters: {work_men: 1MB}`, refusals: []string{`do you mean work_mem?`}},
		"of another version": {
			spec:     `{version: "15", parameters: {io_combine_limit: 16kB}}`,
			refusals: []string{`PostgreSQL 15 has no such parameter`},
		},
		"of this version": {spec: `parameters: {io_combine_limit: 16kB}`},
		"unknown of a known module": {
			spec: `parameters: {auto_explain.log: "on"}`, refusals: []string{`auto_explain has no`},
		},
		"a version without catalogue": {spec: `{version: "18", image: a/b:18, parameters: {io_method: worker}}`},
		"sizes without catalogue": {
			spec: `{version: "18", image: a/b:18, parameters: {max_wal_size: 4GB, max_stack_depth: 4MB, notify_buffers: "16"}}`,
		},
		"a malformed size": {
			spec: `parameters: {max_wal_size: big}`, refusals: []string{field + "max_wal_size"},
		},
		"managed without catalogue": {
			spec:     `{version: "18", image: a/b:18, parameters: {io_method: worker, fsync: "off"}}`,
			refusals: []string{field + `fsync: is managed`},
		},
		"fixed at build time": {
			spec: `parameters: {block_size: "8192"}`, refusals: []string{`block_size: is fixed when`},
		},
		"newline": {
			spec:     `parameters: {search_path: "a\nport = 1"}`,
			refusals: []string{field + `search_path: a value must be one line`},
		},
		"zero byte": {
			spec: `parameters: {application_name: "a\0b"}`, refusals: []string{`a value must be one line`},
		},
		"single quote": {
			spec:     `parameters: {application_name: "it's"}`,
			refusals: []string{`must not contain '\''; write the bare`},
		},
		"backslash": {spec: `parameters: {application_name: 'a\n'}`, refusals: []string{`must not contain '\\'`}},
		"quoted": {
			spec:     `parameters: {application_name: "'x'"}`,
			refusals: []string{`must not contain`},
		},
		"time zone": {
			spec:     `parameters: {timezone: Mars/Phobos}`,
			refusals: []string{`timezone: "Mars/Phobos" is not a time zone`},
		},
		"date style": {spec: `parameters: {datestyle: "ISO, XYZ"}`, refusals: []string{`is not a date style`}},
		"locale": {
			spec: `parameters: {lc_messages: de_DE.UTF-8}`, refusals: []string{`has no locale "de_DE.UTF-8"`},
		},
		"locale, own image": {spec: `{image: a/b, parameters: {lc_messages: de_DE.UTF-8}}`},
		"weaker commits": {
			spec: `parameters: {synchronous_commit: "off"}`, refusals: []string{`use spec.durability`},
		},
		"stronger commits": {spec: `parameters: {synchronous_commit: remote_apply}`},
		"weak passwords": {
			spec: `parameters: {password_encryption: md5}`, refusals: []string{`must be scram-sha-256`},
		},
		"huge pages": {
			spec: `parameters: {huge_pages: "on"}`, refusals: []string{`huge_pages: on keeps the server`},
		},
		"huge pages, try": {spec: `parameters: {huge_pages: try}`},
		"a silent server": {
			spec: `parameters: {log_min_messages: FATAL}`, refusals: []string{`log_min_messages: hides by which words`},
		},
		"a quiet server": {spec: `parameters: {log_min_messages: log}`},
		"all reserved": {
			spec:     `parameters: {max_connections: "5", superuser_reserved_connections: "4", reserved_connections: "1"}`,
			refusals: []string{field + `max_connections: the 5 connections are all reserved`},
		},
		"too many processes": {
			spec:     `parameters: {max_worker_processes: "262143"}`,
			refusals: []string{field + `max_connections: the sum of max_connections, autovacuum_max_workers`},
		},
		"few senders": {
			spec: `parameters: {max_wal_senders: "4"}`, refusals: []string{`must be at least 5 for 3 instances`},
		},
		"few slots": {
			spec: `parameters: {max_replication_slots: "4"}`, refusals: []string{`must be at least 5 for 3`},
		},
		"enough senders": {spec: `parameters: {max_wal_senders: "5", max_replication_slots: "5"}`},
		"deep stack": {
			spec: `parameters: {max_stack_depth: 8MB}`, refusals: []string{`must be at most 7680kB`},
		},
		"uneven buffers": {
			spec: `parameters: {notify_buffers: "17"}`, refusals: []string{`must be a multiple of 16 pages`},
		},
		"small log": {
			spec: `parameters: {min_wal_size: 16MB}`, refusals: []string{`must be at least 32MB`},
		},
		"log of some size": {
			spec: `parameters: {min_wal_size: 32MB, max_wal_size: 1GB, max_stack_depth: 4MB}`,
		},
		"zone with a rule":          {spec: `parameters: {timezone: CET-1CEST}`},
		"WAL in half of the volume": {spec: `{storage: {size: 10Gi}, parameters: {wal_keep_size: 5GB}}`},
		"WAL in half of its own volume": {
			spec: `{storage: {size: 10Gi, walSize: 2Gi}, parameters: {wal_keep_size: 1GB}}`,
		},
		"WAL beyond the volume": {
			spec: `{storage: {size: 10Gi}, parameters: {wal_keep_size: 100GB}}`,
			refusals: []string{
				`spec.parameters.wal_keep_size: 100GB is more than half of spec.storage.size, 10Gi, and would fill the volume; ` +
					`use at most 5120MB, or raise spec.storage.size`,
			},
		},
		"WAL beyond its own volume": {
			spec:     `{storage: {size: 10Gi, walSize: 2Gi}, parameters: {wal_keep_size: 2GB}}`,
			refusals: []string{`use at most 1024MB, or raise spec.storage.walSize`},
		},
		"buffers in memory": {spec: `parameters: {shared_buffers: 512MB}`},
		"buffers beyond memory": {
			spec: `parameters: {shared_buffers: 1GB}`, refusals: []string{`use at most 768Mi, or raise`},
		},
		"several at once": {
			spec:     `parameters: {work_mem: x, port: "1", jit: x}`,
			refusals: []string{field + "jit", field + "port", field + "work_mem"},
		},
	})
}

func TestManagedParameters(t *testing.T) {
	for _, name := range []string{
		"listen_addresses", "port", "data_directory", "hba_file", "ident_file", "config_file", "primary_slot_name",
		"synchronous_standby_names", "primary_conninfo", "restore_command", "archive_command", "archive_library",
		"archive_mode", "archive_cleanup_command", "archive_timeout", "recovery_target", "recovery_min_apply_delay",
		"shared_preload_libraries", "session_preload_libraries", "local_preload_libraries", "ssl", "ssl_ca_file",
		"unix_socket_directories", "log_destination", "logging_collector", "include", "include_dir",
		"include_if_exists",
		"cluster_name", "wal_level", "full_page_writes", "fsync", "wal_log_hints", "jit_provider",
		"dynamic_library_path",
		"output_plugin_libraries", "allow_alter_system", "data_sync_retry", "zero_damaged_pages", "restart_after_crash",
		"ignore_checksum_failure", "log_line_prefix", "hot_standby", "synchronized_standby_slots", "meridian.mark",
	} {
		t.Run(name, func(t *testing.T) {
			problems := admit.Database(database(t, "parameters: {"+name+`: "on"}`), nil, admit.Facts{})
			check(t, problems, []string{"spec.parameters." + name + ": is managed by Meridian; remove it: "})
		})
	}
}

func TestExtensions(t *testing.T) {
	runDatabases(t, map[string]verdict{
		"known": {spec: `extensions: [postgis, pgrouting, uuid-ossp]`},
		"unknown": {
			spec:     `extensions: [postgis, timescaledb]`,
			refusals: []string{`spec.extensions[1]: Meridian's image of PostgreSQL 17 has no extension "timescaledb"`},
		},
		"misspelt":           {spec: `extensions: [postgi]`, refusals: []string{`do you mean postgis?`}},
		"of another version": {spec: `extensions: [adminpack]`, refusals: []string{`no extension "adminpack"`}},
		"of this version":    {spec: `{version: "15", extensions: [adminpack]}`},
		"of another image":   {spec: `{image: a/b:1, extensions: [timescaledb]}`},
	})
}

func TestStorage(t *testing.T) {
	classes := []admit.StorageClass{{Name: "slow"}, {Name: "fast", Default: true, Expandable: true}}
	claim := func(class, size string) []admit.Claim {
		return []admit.Claim{{Name: "cities-1", Class: class, Size: resource.MustParse(size)}}
	}
	runDatabases(t, map[string]verdict{
		"nothing is known": {spec: `storage: {size: 1Gi, class: nowhere}`},
		"default class":    {spec: `storage: {size: 1Gi}`, facts: admit.Facts{Classes: classes}},
		"known class":      {spec: `storage: {size: 1Gi, class: slow}`, facts: admit.Facts{Classes: classes}},
		"unknown class": {
			spec: `storage: {size: 1Gi, class: nowhere}`, facts: admit.Facts{Classes: classes},
			refusals: []string{`spec.storage.class: there is no storage class "nowhere"; choose one of fast, slow`},
		},
		"no default": {
			spec: `storage: {size: 1Gi}`, facts: admit.Facts{Classes: classes[:1]},
			refusals: []string{`spec.storage.class: the cluster has no default storage class; choose one of slow`},
		},
		"no class at all": {
			spec: `storage: {size: 1Gi}`, facts: admit.Facts{Classes: []admit.StorageClass{}},
			refusals: []string{`ask the administrator`},
		},
		"a class that is gone, with claims": {
			spec:  `storage: {size: 1Gi, class: gone}`,
			facts: admit.Facts{Classes: classes, Claims: claim("gone", "1Gi")},
		},
		"grows": {
			old: `{}`, spec: `storage: {size: 2Gi}`,
			facts: admit.Facts{Classes: classes, Claims: claim("fast", "1Gi")},
		},
		"grows, no claims": {old: `{}`, spec: `storage: {size: 2Gi}`, facts: admit.Facts{Classes: classes}},
		"cannot grow": {
			spec:     `storage: {size: 2Gi, class: slow}`,
			facts:    admit.Facts{Classes: classes, Claims: claim("slow", "1Gi")},
			refusals: []string{`spec.storage.size: the storage class slow does not allow volumes to grow; keep 1Gi`},
		},
		"cannot grow, no claims": {
			old: `storage: {size: 1Gi, class: slow}`, spec: `storage: {size: 2Gi, class: slow}`,
			facts:    admit.Facts{Classes: classes},
			refusals: []string{`spec.storage.size: the storage class slow does not allow volumes to grow; keep 1Gi`},
		},
		"smaller than a kept claim": {
			spec: `storage: {size: 1Gi}`, facts: admit.Facts{Classes: classes, Claims: claim("fast", "5Gi")},
			refusals: []string{`spec.storage.size: the claim cities-1 has 5Gi already, and a volume cannot shrink`},
		},
		"log smaller than a kept claim": {
			spec: `storage: {size: 1Gi, walSize: 1Gi}`,
			facts: admit.Facts{Claims: []admit.Claim{
				{Name: "cities-1-wal", Size: resource.MustParse("2Gi"), WAL: true},
				{Name: "cities-1", Size: resource.MustParse("1Gi")},
			}},
			refusals: []string{`spec.storage.walSize: the claim cities-1-wal has 2Gi already`},
		},
	})
}

func TestAutoGrow(t *testing.T) {
	classes := []admit.StorageClass{{Name: "slow"}, {Name: "fast", Default: true, Expandable: true}}
	claim := func(class, size string) []admit.Claim {
		return []admit.Claim{{Name: "cities-1", Class: class, Size: resource.MustParse(size)}}
	}
	const grows = `storage: {size: 1Gi, autoGrow: {limit: 9Gi}`
	refused := []string{"spec.storage.autoGrow: the storage class slow does not allow volumes to grow"}
	runDatabases(t, map[string]verdict{
		"of a class that can": {spec: grows + `}`, facts: admit.Facts{Classes: classes}},
		"of a class that cannot": {
			spec: grows + `, class: slow}`, facts: admit.Facts{Classes: classes}, refusals: refused,
		},
		"of claims that cannot": {
			spec: grows + `}`, facts: admit.Facts{Classes: classes, Claims: claim("slow", "1Gi")}, refusals: refused,
		},
		"has grown by itself": {spec: grows + `}`, facts: admit.Facts{Classes: classes, Claims: claim("fast", "5Gi")}},
	})
}

func TestMaintenanceWindow(t *testing.T) {
	runDatabases(t, map[string]verdict{
		"as it should be": {spec: `maintenance: {window: "Sun 02:00-04:00", timeZone: Europe/Berlin}`},
		"an unknown zone": {
			spec:     `maintenance: {window: "Sun 02:00-04:00", timeZone: Europe/Atlantis}`,
			refusals: []string{`spec.maintenance.timeZone: there is no time zone "Europe/Atlantis"`},
		},
		"the zone of the machine": {
			spec:     `maintenance: {window: "Sun 02:00-04:00", timeZone: Local}`,
			refusals: []string{`spec.maintenance.timeZone: there is no time zone "Local"`},
		},
		"an unknown day": {
			spec:     `maintenance: {window: "Son 02:00-04:00", timeZone: UTC}`,
			refusals: []string{`spec.maintenance.window: "Son 02:00-04:00": there is no day`},
		},
	})
}

// TestOnlyTheChangeIsJudged: an object that is stored with a problem can be repaired step by step.
func TestOnlyTheChangeIsJudged(t *testing.T) {
	runDatabases(t, map[string]verdict{
		"untouched problem": {old: `parameters: {work_mem: x}`, spec: `{instances: 5, parameters: {work_mem: x}}`},
		"another problem": {
			old: `parameters: {work_mem: x}`, spec: `parameters: {work_mem: x, jit: x}`,
			refusals: []string{"spec.parameters.jit"},
		},
		"the same field, worse": {
			old: `parameters: {work_mem: x}`, spec: `parameters: {work_mem: z}`, refusals: []string{`work_mem: "z"`},
		},
	})
}

func TestImage(t *testing.T) {
	taken := []string{
		"postgis", "a/b:17", "registry.example:5000/a/b_c:x", "localhost/meridian/postgis:17",
		"a@sha256:" + strings.Repeat("0", 64),
	}
	refused := []string{"A/B", "a:", ":a", "a b", "a@sha256:12", "http://a/b", "a//b:", "-",
		strings.Repeat("a", 500) + "!"}
	for _, image := range taken {
		check(t, admit.Database(database(t, `image: "`+image+`"`), nil, admit.Facts{}), nil)
	}
	for _, image := range refused {
		want := []string{"spec.image: \"" + image + "\" is not the name of an image"}
		check(t, admit.Database(database(t, `image: "`+image+`"`), nil, admit.Facts{}), want)
	}
}

func TestCache(t *testing.T) {
	cases := map[string]verdict{
		"plain": {spec: `{databaseRef: {name: cities}, parameters: {hz: "10"}}`},
		"of another namespace": {
			spec:     `{databaseRef: {name: other/cities}}`,
			refusals: []string{`spec.databaseRef.name: "other/cities" is not the name of a GeoDatabase; write the bare name`},
		},
		"setting that is managed": {
			spec:     `{databaseRef: {name: cities}, engine: valkey, parameters: {import-mode: "yes"}}`,
			refusals: []string{`spec.parameters[import-mode]: is not allowed; correct or remove it. Allowed are active-defrag`},
		},
		"setting that bounds who comes in, the agent too": {
			spec:     `{databaseRef: {name: cities}, engine: redis, parameters: {maxclients: "10"}}`,
			refusals: []string{`spec.parameters[maxclients]: is not allowed; correct or remove it. Allowed are`},
		},
		"setting misspelt": {
			spec:     `{databaseRef: {name: cities}, engine: redis, parameters: {maxmemory-sample: "10"}}`,
			refusals: []string{`spec.parameters[maxmemory-sample]: is not allowed, do you mean maxmemory-samples?`},
		},
		"setting of another image": {
			spec:     `{databaseRef: {name: cities}, engine: redis, image: a/b, parameters: {availability-zone: a}}`,
			refusals: []string{`spec.parameters[availability-zone]: is not allowed`},
		},
		"by its address": {spec: `{databaseRef: {name: cities.other}}`, refusals: []string{`spec.databaseRef.name`}},
		"quote": {
			spec:     `{databaseRef: {name: cities}, parameters: {hz: "\"10"}}`,
			refusals: []string{`spec.parameters[hz]: a value must not contain '"'`},
		},
		"image":     {spec: `{databaseRef: {name: cities}, image: "A:"}`, refusals: []string{`spec.image`}},
		"untouched": {old: `{databaseRef: {name: a.b}}`, spec: `{databaseRef: {name: a.b}, replicas: 4}`},
		"host network": {
			spec:     `{databaseRef: {name: cities}, podTemplate: {spec: {hostNetwork: true}}}`,
			refusals: []string{`spec.podTemplate.spec.hostNetwork`},
		},
		"our port": {
			spec: `{databaseRef: {name: cities},
				podTemplate: {spec: {containers: [{name: cache, ports: [{containerPort: 6379}]}]}}}`,
			refusals: []string{`spec.podTemplate.spec.containers[0].ports[0].containerPort: 6379 is described by Meridian`},
		},
	}
	parse := func(t *testing.T, spec string) *v1alpha1.GeoCache {
		result := &v1alpha1.GeoCache{}
		if err := yaml.UnmarshalStrict([]byte(spec), &result.Spec); err != nil {
			t.Fatalf("parse %q: %v", spec, err)
		}
		return result
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			var old *v1alpha1.GeoCache
			if test.old != "" {
				old = parse(t, test.old)
			}
			check(t, admit.Cache(parse(t, test.spec), old, admit.Facts{}), test.refusals)
		})
	}
}

func TestBackups(t *testing.T) {
	const place = "repository: {claim: {name: r}, encryption: {mode: None}}"
	const past = "bootstrap: {restore: {" + place + ", source: {name: towns}, target: {time: 2026-11-18T10:15:00Z}}}"
	runDatabases(t, map[string]verdict{
		"as it should be": {
			spec: "backup: {" + place + ", schedule: Mon-Fri 22:00, timeZone: Europe/Berlin, verify: daily}",
		},
		"without a word": {spec: "backup: {" + place + "}"},
		"verified never": {spec: "backup: {" + place + ", verify: Never}"},
		"kept for years": {spec: "backup: {" + place + ", retention: {window: 520w, atLeast: 1}}"},
		"an unknown day": {
			spec:     "backup: {" + place + ", schedule: Son 02:00}",
			refusals: []string{`spec.backup.schedule: "Son 02:00"`},
		},
		"an unknown hour": {
			spec:     "backup: {" + place + ", schedule: daily 25:00}",
			refusals: []string{"spec.backup.schedule"},
		},
		"verified at noon": {
			spec:     "backup: {" + place + ", verify: daily 29:00}",
			refusals: []string{"spec.backup.verify"},
		},
		"of no zone": {
			spec:     "backup: {" + place + ", timeZone: Europe/Atlantis}",
			refusals: []string{`spec.backup.timeZone: there is no time zone "Europe/Atlantis"`},
		},
		"kept for ever": {
			spec:     "backup: {" + place + ", retention: {window: 9999w}}",
			refusals: []string{"spec.backup.retention.window: 9999w is more than ten years"},
		},
		"kept for a word": {
			spec:     "backup: {" + place + ", retention: {window: long}}",
			refusals: []string{`spec.backup.retention.window: "long" is no number`},
		},
		"a clone of itself": {
			spec:     "bootstrap: {clone: {name: cities}}",
			refusals: []string{"spec.bootstrap.clone.name: is the"},
		},
		"a restore to the future": {
			spec:  past,
			facts: admit.Facts{Now: time.Date(2026, 11, 18, 10, 10, 0, 0, time.UTC)},
			refusals: []string{
				"spec.bootstrap.restore.target.time: 2026-11-18T10:15:00Z lies in the future; write a time that has been",
			},
		},
		"a restore to a clock that is a little ahead": {
			spec:  past,
			facts: admit.Facts{Now: time.Date(2026, 11, 18, 10, 14, 30, 0, time.UTC)},
		},
		"a restore that was taken once": {
			spec: past,
		},
		"a clone of another": {spec: "bootstrap: {clone: {name: towns}}"},
	})
}
