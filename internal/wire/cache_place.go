package wire

// PortCache is that of the server in the container of a cache, with TLS.
const PortCache = 6379

// EnvCache names the cache in the environment of its container.
const EnvCache = "MERIDIAN_CACHE"

// ReasonMemoryLimited is one that only caches have: the container does not have room for the wanted memory yet, and the
// server may keep less data until it has.
const ReasonMemoryLimited Reason = "MemoryLimited"

// CacheUser is whom an application is to the server.
const CacheUser = "app"
