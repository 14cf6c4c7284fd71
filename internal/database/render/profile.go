package render

import (
	"maps"
	"strconv"

	"meridian.dev/meridian/api/v1alpha1"
)

const (
	megabyte = 1 << 20
	// defaultMemory is the default of spec.resources.memory, for objects that were stored without it.
	defaultMemory = 1 << 30
)

// profile returns the parameters of a tuning preset. They follow from the memory of an instance and the size of its
// volume alone, so that all instances of a database have the same.
func profile(spec v1alpha1.GeoDatabaseSpec) map[string]string {
	memory, log := Memory(spec), logRoom(spec.Storage)
	set := map[string]string{
		"effective_cache_size":         megabytes(memory*6/10, 64, 1<<30),
		"jit":                          "off",
		"maintenance_work_mem":         megabytes(memory/16, 16, 2048),
		"max_connections":              "100",
		"max_slot_wal_keep_size":       megabytes(log/2, 64, 65536),
		"max_wal_size":                 megabytes(log/4, 64, 4096),
		"random_page_cost":             "1.1",
		"shared_buffers":               megabytes(memory/4, 32, 1<<30),
		"wal_keep_size":                megabytes(log/8, 32, 256),
		"work_mem":                     megabytes(memory/128, 2, 256),
		"autovacuum_max_workers":       "3",
		"checkpoint_completion_target": "0.9",
	}
	maps.Copy(set, presets(spec.Profile, memory, log))
	return set
}

// logRoom is what the write-ahead log may take: a volume of its own, or two fifths of the one that it shares with the
// data. A slot is only cut at the end of a checkpoint, so the log of an absent replica comes to max_slot_wal_keep_size
// and max_wal_size together: three quarters of this. Beyond it the replica is copied anew; the primary must not stop
// for it.
func logRoom(storage v1alpha1.Storage) int64 {
	if storage.WALSize != nil {
		return storage.WALSize.Value()
	}
	return storage.Size.Value() / 5 * 2
}

// presets is where a profile differs from `general`.
func presets(name v1alpha1.Profile, memory, log int64) map[string]string {
	switch name {
	case v1alpha1.ProfileTiles:
		// Many short reads: more sessions, little memory for each, no parallel workers to fight over.
		return map[string]string{
			"max_connections":                 "200",
			"max_parallel_workers_per_gather": "0",
			"work_mem":                        megabytes(memory/256, 2, 64),
		}
	case v1alpha1.ProfileAnalysis:
		// Few long queries: much memory for each, and every core.
		return map[string]string{
			"jit":                             "on",
			"max_connections":                 "40",
			"max_parallel_workers_per_gather": "4",
			"work_mem":                        megabytes(memory/32, 4, 1024),
		}
	case v1alpha1.ProfileBulkload:
		// Loading: fewer checkpoints and fast index builds. Nothing here makes a commit worth less.
		return map[string]string{
			"checkpoint_timeout":   "30min",
			"maintenance_work_mem": megabytes(memory/8, 32, 4096),
			"max_connections":      "40",
			"max_wal_size":         megabytes(log/2, 128, 32768),
			// Together still three quarters of the room.
			"max_slot_wal_keep_size": megabytes(log/4, 64, 65536),
		}
	default:
		return nil
	}
}

// Memory is what the container of an instance is to have by the spec, in bytes.
func Memory(spec v1alpha1.GeoDatabaseSpec) int64 {
	if spec.Resources.Memory == nil {
		return defaultMemory
	}
	return spec.Resources.Memory.Value()
}

// megabytes writes an amount as PostgreSQL does, within limits that are given in megabytes.
func megabytes(bytes, least, most int64) string {
	return strconv.FormatInt(min(max(bytes/megabyte, least), most), 10) + "MB"
}
