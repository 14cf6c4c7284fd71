package wire

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
)

// PortCache is that of the server in the container of a cache, with TLS.
const PortCache = 6379

// EnvCache names the cache in the environment of its container.
const EnvCache = "MERIDIAN_CACHE"

// ReasonMemoryLimited is one that only caches have: the container does not have room for the wanted memory yet, and the
// server may keep less data until it has.
const ReasonMemoryLimited Reason = "MemoryLimited"

// ReasonFlushing is when the cache was emptied and that is being recorded.
const ReasonFlushing Reason = "Flushing"

// CacheUser is whom an application is to the server.
const CacheUser = "app"

// PathFlush is where the operator asks the agent of a primary to empty the cache.
const PathFlush = "/v1/flush"

// Flush asks for an empty cache.
type Flush struct {
	// ID tells one request from the next: each is carried out once.
	ID string `json:"id"`
}

// Keys beside the certificate in the Secret of the instances, which no application reads: the password of replication,
// and the one that applications had before the last rotation. KeyNextPassword and KeyNextRotation are there too.
const (
	KeyReplicationPassword = "replication-password"
	KeyPreviousPassword    = "previous-password"
)

// DerivedReplicationPassword is what instances of earlier versions know each other by, made from the password of the
// application. It counts while there is such an instance.
func DerivedReplicationPassword(application string) string {
	sum := hmac.New(sha256.New, []byte(application))
	sum.Write([]byte("meridian.dev/replication"))
	return hex.EncodeToString(sum.Sum(nil))
}
