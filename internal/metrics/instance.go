package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"meridian.dev/meridian/internal/wire"
)

// Instance are the figures in the report of an agent beside PostgreSQL.
func Instance(source func() (wire.Report, bool)) prometheus.Collector {
	return &collector[wire.Report]{
		source: source, figures: instanceFigures, more: instanceLabels,
		labelled: []*prometheus.Desc{instanceInfo, instanceProblem, parametersUnsettled},
	}
}

var (
	instanceInfo = prometheus.NewDesc("meridian_instance_info",
		"One line about the instance; the value is always 1.", []string{"version", "state", "role", "standing"}, nil)
	instanceProblem = prometheus.NewDesc("meridian_instance_problem",
		"1 while the instance is not as wished, for this reason. Each reason has a page in the runbook.",
		[]string{"reason"}, nil)
	parametersUnsettled = prometheus.NewDesc("meridian_postgres_parameters_unsettled",
		"Parameters that are not as the spec wants them, by why.", []string{"why"}, nil)
)

var instanceFigures = []figure[wire.Report]{
	gauge("meridian_postgres_up", "Whether PostgreSQL runs and accepts connections.",
		func(r wire.Report) float64 { return truth(r.State == wire.StateRunning) }),
	gauge("meridian_postgres_primary", "Whether the instance is a primary, by its own word.",
		func(r wire.Report) float64 { return truth(r.Role == wire.RolePrimary) }),
	gauge("meridian_instance_serving",
		"Whether applications are let in; of a primary also that the write address leads to it.",
		func(r wire.Report) float64 { return truth(r.Serving) }),
	gauge("meridian_instance_fenced", "Whether the instance has answered an election and waits for its outcome.",
		func(r wire.Report) float64 { return truth(r.Fenced) }),
	gauge("meridian_lease_term", "Number of the primary's lease as the instance last saw it.",
		func(r wire.Report) float64 { return float64(r.Term) }),
	gauge("meridian_lease_held", "Whether the instance holds the lease, as it last saw it.",
		func(r wire.Report) float64 { return truth(r.Holder != "" && r.Holder == r.Instance) }),
	gauge("meridian_postgres_timeline", "Timeline of PostgreSQL; it grows with each promotion.",
		func(r wire.Report) float64 { return float64(r.Timeline) }),
	only(replica, gauge("meridian_postgres_replication_streaming", "Whether a replica streams from the primary.",
		func(r wire.Report) float64 { return truth(r.Streams) })),
	only(replica, gauge("meridian_postgres_replication_lag_seconds", "How old the data of a replica is at most.",
		func(r wire.Report) float64 { return float64(r.LagMilliseconds) / 1000 })),
	only(replica, gauge("meridian_postgres_replication_lag_bytes", "How much WAL a replica lacks.",
		func(r wire.Report) float64 { return float64(r.LagBytes) })),
	gauge("meridian_postgres_pending_restart", "Number of parameters that wait for a restart.",
		func(r wire.Report) float64 { return float64(len(r.PendingRestart)) }),
	gauge("meridian_postgres_libraries_changed",
		"Libraries, such as GEOS or a collation, whose version differs from that which indexes were built with.",
		func(r wire.Report) float64 { return float64(len(r.Libraries)) }),
	counter("meridian_postgres_cancelled_waits_total",
		"Commits whose wait for replicas was cancelled: they are on the primary and may be on no other copy.",
		func(r wire.Report) float64 { return float64(r.CancelledWaits) }),
	only(hasVolume, gauge("meridian_volume_size_bytes", "Size of the volume of the data.",
		func(r wire.Report) float64 { return float64(r.Volume.Size) })),
	only(hasVolume, gauge("meridian_volume_used_bytes", "What is in use of the volume of the data.",
		func(r wire.Report) float64 { return float64(r.Volume.Size - r.Volume.Free) })),
	only(hasLogVolume, gauge("meridian_log_volume_size_bytes", "Size of the volume of the write-ahead log, if it has one.",
		func(r wire.Report) float64 { return float64(r.Volume.LogSize) })),
	only(hasLogVolume, gauge("meridian_log_volume_used_bytes", "What is in use of that volume.",
		func(r wire.Report) float64 { return float64(r.Volume.LogSize - r.Volume.LogFree) })),
	only(cloning, gauge("meridian_clone_done_bytes", "How much of the primary's data was copied here, an estimate.",
		func(r wire.Report) float64 { return float64(r.Clone.Done) })),
	only(cloning, gauge("meridian_clone_total_bytes", "How much there is to copy, an estimate.",
		func(r wire.Report) float64 { return float64(r.Clone.Total) })),
	only(cloning, gauge("meridian_clone_failures", "Attempts to copy that failed in a row.",
		func(r wire.Report) float64 { return float64(r.Clone.Failures) })),
}

func replica(r wire.Report) bool      { return r.Role == wire.RoleReplica }
func hasVolume(r wire.Report) bool    { return r.Volume.Size > 0 }
func hasLogVolume(r wire.Report) bool { return r.Volume.LogSize > 0 }
func cloning(r wire.Report) bool      { return r.Clone != nil }

func instanceLabels(report wire.Report, out chan<- prometheus.Metric) {
	set := func(desc *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	set(instanceInfo, 1, report.ServerVersion, string(report.State), string(report.Role), report.Standing)
	if report.Reason != "" {
		set(instanceProblem, 1, string(report.Reason))
	}
	counts := map[wire.Condition]float64{}
	for _, parameter := range report.Parameters {
		counts[parameter.State]++
	}
	for why, count := range counts {
		set(parametersUnsettled, count, string(why))
	}
}

// Cache are the figures in the report of an agent beside Redis or Valkey.
func Cache(source func() (wire.CacheReport, bool)) prometheus.Collector {
	return &collector[wire.CacheReport]{
		source: source, figures: cacheFigures, labelled: []*prometheus.Desc{instanceInfo, instanceProblem},
		more: func(report wire.CacheReport, out chan<- prometheus.Metric) {
			out <- prometheus.MustNewConstMetric(instanceInfo, prometheus.GaugeValue, 1, report.ServerVersion,
				string(report.State), string(report.Role), report.Standing)
			if report.Reason != "" {
				out <- prometheus.MustNewConstMetric(instanceProblem, prometheus.GaugeValue, 1, string(report.Reason))
			}
		},
	}
}

var cacheFigures = []figure[wire.CacheReport]{
	gauge("meridian_cache_up", "Whether the server of the cache runs and answers.",
		func(r wire.CacheReport) float64 { return truth(r.State == wire.StateRunning) }),
	gauge("meridian_cache_primary", "Whether the instance takes writes.",
		func(r wire.CacheReport) float64 { return truth(r.Role == wire.RolePrimary) }),
	gauge("meridian_instance_serving",
		"Whether applications are let in; of a primary also that the write address leads to it.",
		func(r wire.CacheReport) float64 { return truth(r.Serving) }),
	gauge("meridian_lease_term", "Number of the primary's lease as the instance last saw it.",
		func(r wire.CacheReport) float64 { return float64(r.Term) }),
	gauge("meridian_cache_memory_allowed_bytes", "How much data the server may keep.",
		func(r wire.CacheReport) float64 { return float64(r.Memory.Allowed) }),
	gauge("meridian_cache_memory_used_bytes", "How much it keeps.",
		func(r wire.CacheReport) float64 { return float64(r.Memory.Used) }),
	gauge("meridian_cache_memory_resident_bytes", "What the process of the server takes for it.",
		func(r wire.CacheReport) float64 { return float64(r.Memory.Resident) }),
	gauge("meridian_cache_memory_limit_bytes", "Limit of the container, 0 while unknown.",
		func(r wire.CacheReport) float64 { return float64(r.Memory.Limit) }),
	gauge("meridian_cache_clients", "Clients that are connected.",
		func(r wire.CacheReport) float64 { return float64(r.Use.Clients) }),
	counter("meridian_cache_hits_total", "Reads that found their key, since the start of the server.",
		func(r wire.CacheReport) float64 { return float64(r.Use.Hits) }),
	counter("meridian_cache_misses_total", "Reads that did not.",
		func(r wire.CacheReport) float64 { return float64(r.Use.Misses) }),
	counter("meridian_cache_evicted_total", "Keys that had to go because the memory was full.",
		func(r wire.CacheReport) float64 { return float64(r.Use.Evicted) }),
	counter("meridian_cache_replication_offset_bytes", "How far the stream of writes has come at the instance.",
		func(r wire.CacheReport) float64 { return float64(r.Offset) }),
}
