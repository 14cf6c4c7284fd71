package wire

// What the container of a cache needs beside its data: a fixed part for the agent and for an empty server with its
// connections, and a share of the data for buffers of clients and for holes between keys.
const (
	cacheFixed = 128 << 20
	cacheShare = 4 // One fourth of the data.
)

// CacheLimit is the memory that a container needs for a server that may keep this many bytes of data.
func CacheLimit(data int64) int64 { return data + data/cacheShare + cacheFixed }

// CacheCapacity is the reverse: how much data a server may keep in a container with this limit, never less than
// nothing. An agent does not let its server keep more, whatever the settings say: the container would be killed.
func CacheCapacity(limit int64) int64 {
	data := max(limit-cacheFixed, 0) * cacheShare / (cacheShare + 1)
	// Rounding of the share loses up to a byte on the way, and what was rendered for some data must carry it.
	for CacheLimit(data+1) <= limit {
		data++
	}
	return data
}

// CacheNeeds is the smallest limit of a container in which a server that takes this much now can go on: there is still
// room for the agent, and for a moment of growth. It is in steps, so that it does not change with every key.
func CacheNeeds(resident int64) int64 {
	const step = 16 << 20
	return (resident + cacheFixed/2 + step - 1) / step * step
}
