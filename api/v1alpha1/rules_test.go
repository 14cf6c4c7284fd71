package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// admission is an object that arrives, and what the API server says.
type admission struct {
	old     string // what is stored, if it is an update
	new     string
	refusal string // a part of the only refusal; empty if it is taken
}

const (
	small     = "spec: {storage: {size: 1Gi}}"
	smallSpec = "spec: {storage: {size: 1Gi}, %s}"
)

func spec(fields string) string { return fmt.Sprintf(smallSpec, fields) }

func TestGeoDatabaseRules(t *testing.T) {
	runAdmissions(t, "geodatabases", map[string]admission{
		"shortest useful":     {new: small},
		"no storage":          {new: "spec: {}", refusal: "spec.storage: Required value"},
		"a name with a dot":   {new: "metadata: {name: a.b}\n" + small, refusal: "metadata.name: must be at most 40"},
		"a name with a digit": {new: "metadata: {name: 1a}\n" + small, refusal: "metadata.name: must be at most 40"},
		"name of 40 letters":  {new: "metadata: {name: " + strings.Repeat("a", 40) + "}\n" + small},
		"name of 41 letters": {
			new:     "metadata: {name: " + strings.Repeat("a", 41) + "}\n" + small,
			refusal: "metadata.name",
		},
		"no instance":        {new: spec("instances: 0"), refusal: "spec.instances"},
		"too many instances": {new: spec("instances: 17"), refusal: "spec.instances"},
		"unknown version":    {new: spec(`version: "9"`), refusal: "spec.version: Unsupported value"},
		"16 without image":   {new: spec(`version: "16"`), refusal: "spec.image: required for this version"},
		"16 with image":      {new: spec(`version: "16", image: "example/postgis:16"`)},
		"image with a blank": {new: spec(`image: "a b"`), refusal: "spec.image: must not contain blanks"},
		"version changed": {
			old: small, new: spec(`version: "15"`),
			refusal: "spec.version: the major version cannot",
		},
		"version written down": {old: small, new: spec(`version: "17"`)},
		"unknown profile":      {new: spec("profile: fast"), refusal: "spec.profile: Unsupported value"},
		"unknown durability":   {new: spec("durability: Maybe"), refusal: "spec.durability: Unsupported value"},
		"strict and alone":     {new: spec("durability: Strict, instances: 1"), refusal: "spec.durability: Strict needs"},
		"strict scaled to one": {
			old: spec("durability: Strict"), new: spec("durability: Strict, instances: 1"),
			refusal: "spec.instances",
		},
		"strict with two":       {new: spec("durability: Strict, instances: 2")},
		"lease too short":       {new: spec("leaseDuration: 1s"), refusal: "spec.leaseDuration: must be between"},
		"lease in days":         {new: spec("leaseDuration: 1d"), refusal: "spec.leaseDuration"},
		"lease of half minutes": {new: spec("leaseDuration: 1m30s")},
		"read lag too long":     {new: spec("maxReadLag: 25h"), refusal: "spec.maxReadLag: must be between"},
		"negative failover lag": {new: spec("maxFailoverLag: -1"), refusal: "spec.maxFailoverLag: must not be negative"},
		"no cpu":                {new: spec("resources: {cpu: 0}"), refusal: "spec.resources.cpu: must be more than 0"},
		"little memory": {
			new:     spec("resources: {memory: 64Mi}"),
			refusal: "spec.resources.memory: must be at least",
		},
		"paused":               {old: small, new: spec("paused: true")},
		"hibernated":           {old: small, new: spec("hibernated: true")},
		"restart":              {old: spec("restart: a"), new: spec(`restart: "2026-11-15T23:50:00Z"`)},
		"restart of two lines": {new: spec(`restart: "a\nb"`), refusal: "spec.restart: must be one line"},
		"an issuer":            {old: small, new: spec("certificates: {issuer: {secret: {name: company-ca}}}")},
		"an issuer taken away": {
			old: spec("certificates: {issuer: {secret: {name: company-ca}}}"), new: spec("certificates: {}"),
		},
		"an issuer without a Secret": {
			new: spec("certificates: {issuer: {}}"), refusal: "spec.certificates.issuer.secret: Required value",
		},
		"an issuer by a bad name": {
			new: spec("certificates: {issuer: {secret: {name: A_b}}}"), refusal: "spec.certificates.issuer.secret.name",
		},
		"switchover":              {old: spec("switchover: a"), new: spec(`switchover: "2026-11-15T23:50:00Z"`)},
		"switchover of two lines": {new: spec(`switchover: "a\nb"`), refusal: "spec.switchover: must be one line"},
		"rotate": {
			old: spec("rotate: {password: a}"), new: spec("rotate: {password: b, certificates: c, overlap: 10s}"),
		},
		"password of two lines": {
			new: spec(`rotate: {password: "a\nb"}`), refusal: "spec.rotate.password: must be one line",
		},
		"certificates of two lines": {
			new: spec(`rotate: {certificates: "a\nb"}`), refusal: "spec.rotate.certificates: must be one line",
		},
		"overlap of a moment": {
			new: spec("rotate: {overlap: 9s}"), refusal: "spec.rotate.overlap: must be between 10s and 240h",
		},
		"overlap of a month": {
			new: spec("rotate: {overlap: 720h}"), refusal: "spec.rotate.overlap: must be between 10s and 240h",
		},
		"no network policy": {new: spec("network: {policy: None}")},
		"unknown network":   {new: spec("network: {policy: Strict}"), refusal: "spec.network.policy: Unsupported value"},
		"clients": {
			new: spec("network: {clients: [{pods: {matchLabels: {app: web}}}, {cidr: 10.0.0.0/8}, {namespaces: {}}]}"),
		},
		"clients of no policy": {
			new:     spec("network: {policy: None, clients: [{cidr: 10.0.0.0/8}]}"),
			refusal: "spec.network.clients: has no effect",
		},
		"calls of no policy": {
			new:     spec("network: {policy: None, egress: Needed}"),
			refusal: "spec.network.egress: Needed has no effect",
		},
		"client of nothing": {new: spec("network: {clients: [{}]}"), refusal: "spec.network.clients: each needs either"},
		"client of both": {
			new:     spec("network: {clients: [{pods: {}, cidr: 10.0.0.0/8}]}"),
			refusal: "each needs either",
		},
		"client of no range": {
			new:     spec("network: {clients: [{cidr: 10.0.0.1}]}"),
			refusal: "must be a range of addresses",
		},
	})
}

func TestMaintenanceRules(t *testing.T) {
	window := func(text string) string { return spec("maintenance: {window: \"" + text + "\"}") }
	const refusal = "spec.maintenance.window: must be days and times"
	runAdmissions(t, "geodatabases", map[string]admission{
		"one day":       {new: window("Sun 02:00-04:00")},
		"days":          {new: window("Mon-Fri 22:00-02:00")},
		"some days":     {new: window("Sat,Sun 01:30-06:00")},
		"every day":     {new: window("daily 03:00-04:00")},
		"with a zone":   {new: spec("maintenance: {window: Sun 02:00-04:00, timeZone: Europe/Berlin}")},
		"taken back":    {old: window("Sun 02:00-04:00"), new: spec("")},
		"no days":       {new: window("02:00-04:00"), refusal: refusal},
		"no end":        {new: window("Sun 02:00"), refusal: refusal},
		"words":         {new: window("every night"), refusal: refusal},
		"a second line": {new: window("Sun 02:00-04:00\\n"), refusal: refusal},
		"without":       {new: spec("maintenance: {timeZone: UTC}"), refusal: "spec.maintenance.window"},
		"odd zone": {
			new: spec("maintenance: {window: Sun 02:00-04:00, timeZone: \"../etc\"}"), refusal: "spec.maintenance.timeZone",
		},
	})
}

func TestStorageRules(t *testing.T) {
	storage := func(fields string) string { return "spec: {storage: {" + fields + "}}" }
	runAdmissions(t, "geodatabases", map[string]admission{
		"grows":               {old: storage("size: 1Gi"), new: storage("size: 2Gi")},
		"same in other words": {old: storage("size: 1Gi"), new: storage("size: 1024Mi")},
		"bytes as a number":   {new: storage("size: 1073741824")},
		"shrinks": {
			old: storage("size: 2Gi"), new: storage("size: 1Gi"),
			refusal: "spec.storage.size: a volume cannot shrink",
		},
		"zero":            {new: storage("size: 0"), refusal: "spec.storage.size: must be between"},
		"negative":        {new: storage("size: -1Gi"), refusal: "spec.storage.size: must be between"},
		"huge":            {new: storage("size: 65Ti"), refusal: "spec.storage.size: must be between"},
		"beyond counting": {new: storage("size: 1e400"), refusal: "spec.storage.size"},
		"no quantity":     {new: storage("size: much"), refusal: "spec.storage.size"},
		"log grows":       {old: storage("size: 1Gi, walSize: 1Gi"), new: storage("size: 1Gi, walSize: 2Gi")},
		"log shrinks": {
			old: storage("size: 1Gi, walSize: 2Gi"), new: storage("size: 1Gi, walSize: 1Gi"),
			refusal: "spec.storage.walSize: a volume cannot shrink",
		},
		"log too small": {new: storage("size: 1Gi, walSize: 1Mi"), refusal: "spec.storage.walSize: must be between"},
		"log added": {
			old: storage("size: 1Gi"), new: storage("size: 1Gi, walSize: 1Gi"),
			refusal: "spec.storage.walSize: a volume for",
		},
		"log removed": {
			old: storage("size: 1Gi, walSize: 1Gi"), new: storage("size: 1Gi"),
			refusal: "spec.storage.walSize: a volume for",
		},
		"grows by itself":           {new: storage("size: 1Gi, autoGrow: {limit: 4Gi}")},
		"grows by itself when full": {new: storage("size: 1Gi, autoGrow: {limit: 1Gi, atPercent: 90}")},
		"limit raised": {
			old: storage("size: 1Gi, autoGrow: {limit: 4Gi}"), new: storage("size: 1Gi, autoGrow: {limit: 8Gi}"),
		},
		"limit lowered": {
			old: storage("size: 1Gi, autoGrow: {limit: 4Gi}"), new: storage("size: 1Gi, autoGrow: {limit: 2Gi}"),
		},
		"limit below the size": {
			new: storage("size: 2Gi, autoGrow: {limit: 1Gi}"), refusal: "spec.storage.autoGrow.limit: must be at least",
		},
		"size raised beyond the limit": {
			old: storage("size: 1Gi, autoGrow: {limit: 4Gi}"), new: storage("size: 5Gi, autoGrow: {limit: 4Gi}"),
			refusal: "spec.storage.autoGrow.limit: must be at least",
		},
		"limit missing": {new: storage("size: 1Gi, autoGrow: {}"), refusal: "spec.storage.autoGrow.limit"},
		"limit huge": {
			new: storage("size: 1Gi, autoGrow: {limit: 65Ti}"), refusal: "spec.storage.autoGrow.limit: must be between",
		},
		"too early": {
			new: storage("size: 1Gi, autoGrow: {limit: 4Gi, atPercent: 20}"), refusal: "spec.storage.autoGrow.atPercent",
		},
		"between steps": {
			new: storage("size: 1Gi, autoGrow: {limit: 4Gi, atPercent: 82}"), refusal: "spec.storage.autoGrow.atPercent",
		},
		"class kept": {old: storage("size: 1Gi, class: fast"), new: storage("size: 2Gi, class: fast")},
		"class changed": {
			old: storage("size: 1Gi, class: fast"), new: storage("size: 1Gi, class: slow"),
			refusal: "spec.storage.class: cannot be changed",
		},
		"class added": {
			old: storage("size: 1Gi"), new: storage("size: 1Gi, class: fast"),
			refusal: "spec.storage.class: cannot be",
		},
		"class removed": {
			old: storage("size: 1Gi, class: fast"), new: storage("size: 1Gi"),
			refusal: "spec.storage.class: cannot be",
		},
		"access mode":      {old: storage("size: 1Gi"), new: storage("size: 1Gi, accessMode: ReadWriteOnce")},
		"access mode back": {old: storage("size: 1Gi, accessMode: ReadWriteOnce"), new: storage("size: 1Gi")},
		"access mode of many": {
			new:     storage("size: 1Gi, accessMode: ReadWriteMany"),
			refusal: "spec.storage.accessMode: Unsupported value",
		},
		"reclaim changed": {old: storage("size: 1Gi"), new: storage("size: 1Gi, reclaim: Delete")},
		"reclaim unknown": {
			new:     storage("size: 1Gi, reclaim: Recycle"),
			refusal: "spec.storage.reclaim: Unsupported value",
		},
		"a field too many": {new: storage("size: 1Gi, colour: red")}, // pruned; kubectl warns about it
	})
}

func TestIdentifierRules(t *testing.T) {
	const owner, database = "spec.bootstrap.owner: must be", "spec.bootstrap.database: must be"
	runAdmissions(t, "geodatabases", map[string]admission{
		"plain":      {new: spec("bootstrap: {database: geo, owner: joe}")},
		"63 letters": {new: spec("bootstrap: {database: " + strings.Repeat("a", 63) + "}")},
		"64 letters": {
			new:     spec("bootstrap: {database: " + strings.Repeat("a", 64) + "}"),
			refusal: "spec.bootstrap.database",
		},
		"quote":           {new: spec(`bootstrap: {database: "a\"b"}`), refusal: database},
		"zero byte":       {new: spec(`bootstrap: {owner: "a\0b"}`), refusal: owner},
		"newline":         {new: spec(`bootstrap: {owner: "a\n"}`), refusal: owner},
		"capital":         {new: spec("bootstrap: {owner: Joe}"), refusal: owner},
		"reserved prefix": {new: spec("bootstrap: {owner: pg_x}"), refusal: owner},
		"our own prefix":  {new: spec("bootstrap: {owner: meridian_agent}"), refusal: owner},
		"superuser":       {new: spec("bootstrap: {owner: postgres}"), refusal: owner},
		"template":        {new: spec("bootstrap: {database: template1}"), refusal: database},
		"empty":           {new: spec(`bootstrap: {database: ""}`), refusal: "spec.bootstrap.database"},
		"database changed": {
			old: small, new: spec("bootstrap: {database: geo}"),
			refusal: "spec.bootstrap.database: cannot be changed",
		},
		"owner changed": {
			old: small, new: spec("bootstrap: {owner: joe}"),
			refusal: "spec.bootstrap.owner: cannot be changed",
		},
		"default written":  {old: small, new: spec("bootstrap: {database: app, owner: app}")},
		"extension":        {new: spec("extensions: [postgis, uuid-ossp]")},
		"extension quoted": {new: spec(`extensions: ["a\"b"]`), refusal: "spec.extensions[0]"},
		"extension twice":  {new: spec("extensions: [postgis, postgis]"), refusal: "spec.extensions[1]: Duplicate value"},
	})
}

func TestParameterRules(t *testing.T) {
	parameter := func(name, value string) string { return spec(fmt.Sprintf("parameters: {%q: %q}", name, value)) }
	const managed = "spec.parameters: has a name that Meridian manages"
	cases := map[string]admission{
		"plain":              {new: parameter("work_mem", "64MB")},
		"of an extension":    {new: parameter("auto_explain.log_min_duration", "1s")},
		"like a managed one": {new: parameter("ports", "1")},
		"capital":            {new: parameter("Work_Mem", "64MB"), refusal: "spec.parameters: a name must be"},
		"blank":              {new: parameter("work mem", "64MB"), refusal: "spec.parameters: a name must be"},
		"two dots":           {new: parameter("a.b.c", "1"), refusal: "spec.parameters: a name must be"},
		"newline in a value": {
			new:     parameter("work_mem", "1MB\nport = 1"),
			refusal: "spec.parameters: a value must be one line",
		},
		"zero byte": {
			new:     spec(`parameters: {work_mem: "1\0"}`),
			refusal: "spec.parameters: a value must be one line",
		},
		"1024 characters": {new: parameter("search_path", strings.Repeat("a", 1024))},
		"1025 characters": {
			new:     parameter("search_path", strings.Repeat("a", 1025)),
			refusal: "spec.parameters.search_path: Too long",
		},
		"a number, no string": {new: spec("parameters: {work_mem: 64}"), refusal: "spec.parameters.work_mem"},
	}
	for _, name := range []string{
		"include", "archive_command", "restore_command", "recovery_target_time", "primary_conninfo", "port", "ssl",
		"ssl_ca_file", "synchronous_standby_names", "shared_preload_libraries", "fsync", "full_page_writes", "hba_file",
		"listen_addresses", "data_directory", "wal_level", "allow_alter_system",
	} {
		cases["managed "+name] = admission{new: parameter(name, "x"), refusal: managed}
	}
	runAdmissions(t, "geodatabases", cases)
}

func TestPodTemplateRules(t *testing.T) {
	runAdmissions(t, "geodatabases", map[string]admission{
		"label": {new: spec(`podTemplate: {metadata: {labels: {team: geo}}}`)},
		"our label": {
			new:     spec(`podTemplate: {metadata: {labels: {meridian.dev/role: primary}}}`),
			refusal: "spec.podTemplate.metadata.labels: names that end in meridian.dev",
		},
		"our annotation": {
			new:     spec(`podTemplate: {metadata: {annotations: {x.meridian.dev/y: z}}}`),
			refusal: "spec.podTemplate.metadata.annotations: names that end in meridian.dev",
		},
		"a label of a namesake": {new: spec(`podTemplate: {metadata: {labels: {notmeridian.dev/x: z}}}`)},
		"spec is no object":     {new: spec(`podTemplate: {spec: fast}`), refusal: "spec.podTemplate.spec"},
	})
}

func TestGeoCacheRules(t *testing.T) {
	cache := func(fields string) string { return "spec: {databaseRef: {name: cities}, " + fields + "}" }
	plain := cache("memory: 256Mi")
	runAdmissions(t, "geocaches", map[string]admission{
		"shortest useful": {new: "spec: {databaseRef: {name: cities}}"},
		"no database":     {new: "spec: {}", refusal: "spec.databaseRef: Required value"},
		"no name":         {new: `spec: {databaseRef: {name: ""}}`, refusal: "spec.databaseRef.name"},
		"database changed": {
			old: plain, new: "spec: {databaseRef: {name: roads}}",
			refusal: "spec.databaseRef: cannot be changed",
		},
		"memory grows":      {old: plain, new: cache("memory: 1Gi")},
		"memory shrinks":    {old: plain, new: cache("memory: 64Mi")},
		"little memory":     {new: cache("memory: 1Mi"), refusal: "spec.memory: must be between"},
		"too much memory":   {new: cache("memory: 2Ti"), refusal: "spec.memory: must be between"},
		"policy changed":    {old: plain, new: cache("evictionPolicy: noeviction")},
		"scripts refused":   {old: plain, new: cache("scripting: Refused")},
		"unknown scripting": {new: cache("scripting: Off"), refusal: "spec.scripting: Unsupported value"},
		"another password":  {old: plain, new: cache("rotate: {password: a}")},
		"a wish of two lines": {
			new: cache(`rotate: {password: "a\nb"}`), refusal: "spec.rotate.password: must be one line",
		},
		"overlap": {old: plain, new: cache("rotate: {overlap: 10s}")},
		"a short overlap": {
			new: cache("rotate: {overlap: 9s}"), refusal: "spec.rotate.overlap: must be between 10s and 240h",
		},
		"an issuer": {old: plain, new: cache("certificates: {issuer: {secret: {name: company-ca}}}")},
		"an issuer taken away": {
			old: cache("certificates: {issuer: {secret: {name: company-ca}}}"), new: cache("certificates: {}"),
		},
		"an issuer without a Secret": {
			new: cache("certificates: {issuer: {}}"), refusal: "spec.certificates.issuer.secret: Required value",
		},
		"unknown policy":    {new: cache("evictionPolicy: random"), refusal: "spec.evictionPolicy: Unsupported value"},
		"engine changed":    {old: plain, new: cache("engine: valkey"), refusal: "spec.engine: cannot be changed"},
		"unknown engine":    {new: cache("engine: memcached"), refusal: "spec.engine: Unsupported value"},
		"no replica":        {new: cache("replicas: 0"), refusal: "spec.replicas"},
		"a name with a dot": {new: "metadata: {name: a.b}\n" + plain, refusal: "metadata.name: must be at most 40"},
		"name of the database": {
			new: "metadata: {name: cities}\n" + plain, refusal: "metadata.name: is that of the database",
		},
		"name of an address of the database": {
			new: "metadata: {name: cities-ro}\n" + plain, refusal: "metadata.name: is that of the database",
		},
		"name of an instance of the database": {
			new: "metadata: {name: cities-12}\n" + plain, refusal: "metadata.name: is that of the database",
		},
		"named after the database": {new: "metadata: {name: cities-cache}\n" + plain},
		"parameter":                {new: cache(`parameters: {hz: "10"}`)},
		"parameter renames": {
			new:     cache(`parameters: {rename-command: "x y"}`),
			refusal: "spec.parameters[rename-command]: is not allowed; remove it. Allowed are active-defrag-cycle-max,",
		},
		"parameter persists": {
			new:     cache(`parameters: {save: "60 1"}`),
			refusal: "spec.parameters[save]: is not allowed",
		},
		"parameter has field": {
			new:     cache(`parameters: {maxmemory: "1gb"}`),
			refusal: "spec.parameters: maxmemory and",
		},
		"parameter in capitals": {
			new:     cache(`parameters: {SAVE: "x"}`),
			refusal: "spec.parameters[SAVE]: is not allowed",
		},
		"parameter of two lines": {
			new:     cache(`parameters: {hz: "10\nsave 1 1"}`),
			refusal: "spec.parameters: a value must be",
		},
		"image with a blank": {new: cache(`image: "a b"`), refusal: "spec.image: must not contain blanks"},
	})
}

func TestDefaults(t *testing.T) {
	tests := map[string]struct {
		plural, manifest string
		want             map[string]any
	}{
		"database": {"geodatabases", small, map[string]any{
			"instances": int64(3), "version": "17", "profile": "general", "extensions": []any{"postgis"},
			"storage":       map[string]any{"size": "1Gi", "reclaim": "Retain"},
			"resources":     map[string]any{"cpu": "500m", "memory": "1Gi"},
			"bootstrap":     map[string]any{"database": "app", "owner": "app"},
			"leaseDuration": "10s", "maxReadLag": "10s", "maxFailoverLag": "16Mi",
			"network": map[string]any{"policy": "Managed", "egress": "Open"},
		}},
		"cache": {"geocaches", "spec: {databaseRef: {name: cities}}", map[string]any{
			"databaseRef": map[string]any{"name": "cities"}, "replicas": int64(2), "memory": "256Mi",
			"evictionPolicy": "allkeys-lru", "engine": "redis", "scripting": "Allowed",
			"network": map[string]any{"egress": "Open"},
		}},
		"a template is kept as it is": {"geodatabases", spec("podTemplate: {spec: {nodeSelector: {disk: ssd}}}"),
			map[string]any{"podTemplate": map[string]any{"spec": map[string]any{"nodeSelector": map[string]any{"disk": "ssd"}}}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			object, refusals := newJudge(t, test.plural).admit(t, "", test.manifest)
			if len(refusals) > 0 {
				t.Fatalf("refused: %v", refusals)
			}
			got := object["spec"].(map[string]any)
			if len(test.want) == 1 {
				got = map[string]any{"podTemplate": got["podTemplate"]}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("spec differs (-want +got):\n%s", diff)
			}
		})
	}
}

func runAdmissions(t *testing.T, plural string, cases map[string]admission) {
	t.Helper()
	judge := newJudge(t, plural)
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			_, refusals := judge.admit(t, test.old, test.new)
			switch {
			case test.refusal == "" && len(refusals) > 0:
				t.Errorf("refused: %q", refusals)
			case test.refusal != "" && len(refusals) == 0:
				t.Errorf("taken, want a refusal with %q", test.refusal)
			case test.refusal != "" && !strings.Contains(strings.Join(refusals, "\n"), test.refusal):
				t.Errorf("refused without %q: %q", test.refusal, refusals)
			}
		})
	}
}

func TestBackupRules(t *testing.T) {
	const key = "encryption: {key: {name: k}}"
	const s3 = "s3: {bucket: geo, credentials: {name: c}}"
	at := func(place string) string { return spec("backup: {repository: {" + place + "}}") }
	with := func(fields string) string {
		return spec("backup: {repository: {" + s3 + ", " + key + "}, " + fields + "}")
	}
	s3With := func(fields string) string {
		return at("s3: {bucket: geo, credentials: {name: c}, " + fields + "}, " + key)
	}
	const one = "repository: must have exactly one of"
	const sealed = "encryption: needs a key"
	runAdmissions(t, "geodatabases", map[string]admission{
		"a bucket":             {new: at(s3 + ", " + key)},
		"a bucket of Google":   {new: at("gcs: {bucket: geo, credentials: {name: c}}, " + key)},
		"a container of Azure": {new: at("azure: {account: geo1, container: geo, credentials: {name: c}}, " + key)},
		"a claim":              {new: at("claim: {name: backups}, " + key)},
		"no place":             {new: at(key), refusal: one},
		"two places":           {new: at(s3 + ", claim: {name: backups}, " + key), refusal: one},
		"no word of keys":      {new: at(s3), refusal: "spec.backup.repository.encryption: Required"},
		"no key":               {new: at(s3 + ", encryption: {}"), refusal: sealed},
		"open, said aloud":     {new: at(s3 + ", encryption: {mode: None}")},
		"open with a key":      {new: at(s3 + ", encryption: {mode: None, key: {name: k}}"), refusal: sealed},
		"another mode":         {new: at(s3 + ", encryption: {mode: Maybe}"), refusal: "Unsupported value"},
		"no credentials":       {new: at("s3: {bucket: geo}, " + key), refusal: "s3.credentials: Required"},
		"a bucket of capitals": {
			new:     at("s3: {bucket: GEO, credentials: {name: c}}, " + key),
			refusal: "s3.bucket: must be",
		},
		"an endpoint":         {new: s3With(`endpoint: "http://s3.geo.svc:7070", region: eu, prefix: a/b`)},
		"an endpoint of ftp":  {new: s3With(`endpoint: "ftp://s3"`), refusal: "s3.endpoint: must be"},
		"an endpoint's path":  {new: s3With(`endpoint: "https://s3/x"`), refusal: "s3.endpoint: must be"},
		"a way out":           {new: s3With(`prefix: a/../b`), refusal: "prefix: must be folders"},
		"an absolute prefix":  {new: s3With(`prefix: /a`), refusal: "prefix: must be folders"},
		"another bucket":      {old: at(s3 + ", " + key), new: at("s3: {bucket: geo2, credentials: {name: c}}, " + key)},
		"no backups any more": {old: at(s3 + ", " + key), new: small},
		"every night":         {new: with("schedule: daily 02:00")},
		"weekly":              {new: with("schedule: weekly sun 02:00, verify: weekly, now: a")},
		"some days":           {new: with(`schedule: "Wed,Sun 03:30", verify: Mon-Fri 22:00`)},
		"hourly, unverified":  {new: with(`schedule: hourly, verify: Never`)},
		"throttled":           {new: with("maxRate: 50Mi")},
		"at no rate":          {new: with("maxRate: 0"), refusal: "spec.backup.maxRate: must be between"},
		"beyond every disk":   {new: with("maxRate: 2Gi"), refusal: "spec.backup.maxRate: must be between"},
		"a cron":              {new: with(`schedule: "0 2 * * *"`), refusal: "spec.backup.schedule: must be"},
		"some time":           {new: with(`schedule: nightly`), refusal: "spec.backup.schedule: must be"},
		"verified some time":  {new: with(`verify: often`), refusal: "spec.backup.verify: must be"},
		"kept":                {new: with("retention: {window: 8w, atLeast: 1}")},
		"kept for no time":    {new: with("retention: {window: 0d}"), refusal: "spec.backup.retention.window: must be"},
		"kept for months":     {new: with("retention: {window: 2m}"), refusal: "spec.backup.retention.window: must be"},
		"none kept":           {new: with("retention: {atLeast: 0}"), refusal: "spec.backup.retention.atLeast"},
		"verified, two lines": {new: with(`verifyNow: "a\nb"`), refusal: "spec.backup.verifyNow: must be one line"},
		"now, in two lines":   {new: with(`now: "a\nb"`), refusal: "spec.backup.now: must be one line"},
	})
}

func TestRestoreRules(t *testing.T) {
	const from = "repository: {claim: {name: r}, encryption: {mode: None}}, source: {name: cities}"
	restore := func(fields string) string { return spec("bootstrap: {restore: {" + from + fields + "}}") }
	runAdmissions(t, "geodatabases", map[string]admission{
		"the latest": {new: restore("")},
		"a time":     {new: restore(`, target: {time: "2026-11-18T10:15:00Z"}`)},
		"a place":    {new: restore(`, target: {lsn: 0/3000148}`)},
		"both": {
			new:     restore(`, target: {time: "2026-11-18T10:15:00Z", lsn: 0/1}`),
			refusal: "must have time or lsn",
		},
		"yesterday":   {new: restore(`, target: {time: yesterday}`), refusal: "target.time"},
		"a word":      {new: restore(`, target: {lsn: latest}`), refusal: "target.lsn: must be a place in the log"},
		"kept":        {old: restore(""), new: restore("")},
		"added later": {old: small, new: restore(""), refusal: "spec.bootstrap.restore: cannot be added"},
		"taken away":  {old: restore(""), new: small, refusal: "spec.bootstrap.restore: cannot be added"},
		"changed": {
			old: restore(""), new: restore(", target: {lsn: 0/1}"),
			refusal: "spec.bootstrap.restore: cannot be",
		},
		"a clone": {new: spec("bootstrap: {clone: {name: cities}}")},
		"a late clone": {
			old: small, new: spec("bootstrap: {clone: {name: cities}}"),
			refusal: "spec.bootstrap.clone: cannot be",
		},
		"restore, clone": {
			new:     spec("bootstrap: {clone: {name: cities}, restore: {" + from + "}}"),
			refusal: "restore or clone, and not",
		},
		"a clone renamed": {
			old: spec("bootstrap: {clone: {name: cities}}"), new: spec("bootstrap: {clone: {name: towns}}"),
			refusal: "spec.bootstrap.clone: cannot be",
		},
	})
}
