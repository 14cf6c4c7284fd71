package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Ports of the database container.
const (
	PortPostgres = 5432
	// PortAgent serves PathReport over mutual TLS.
	PortAgent = 8700
	// PortProbe serves PathLive and PathReady as plain HTTP, for the kubelet, and the public part of PathReport.
	PortProbe = 8701
)

// Paths of the agent's HTTP servers.
const (
	PathReport = "/v1/report"
	PathLive   = "/livez"
	PathReady  = "/readyz"
	// PathStart is answered when the instance is ready for the first time, or after StartPatience.
	PathStart = "/startz"
)

// StartPatience is how long the making of an instance is nobody's concern.
const StartPatience = 30 * time.Second

// Folders of the database container, each the mount of a volume.
const (
	FolderAgent    = "/agent"
	FolderVolume   = "/var/lib/meridian"
	FolderLog      = "/var/lib/meridian-wal"
	FolderRun      = "/run/meridian"
	FolderSettings = "/etc/meridian/settings"
	FolderApp      = "/etc/meridian/app"
	FolderTLS      = "/etc/meridian/tls"
)

// Keys of the mounted objects, which are the names of files in the folders above.
const (
	KeySettings    = "settings.json"
	KeyUsername    = "username"
	KeyPassword    = "password"
	KeyCertificate = "tls.crt"
	KeyPrivateKey  = "tls.key"
	KeyAuthority   = "ca.crt"
	// KeyURI and KeyReadURI are not mounted: they are the addresses in the Secrets for applications.
	KeyURI     = "uri"
	KeyReadURI = "ro-uri"
	// KeyRotation numbers the credentials: of two, those with the higher number are the later ones. Without it: 0.
	KeyRotation = "rotation"
	// KeyNextUsername, KeyNextPassword and KeyNextRotation are of the login that takes over next, while one is made ready.
	KeyNextUsername = "next-username"
	KeyNextPassword = "next-password"
	KeyNextRotation = "next-rotation"
)

// OtherLogin is the login that takes turns with the owner of the application's database. No owner has such a name.
const OtherLogin = "meridian_app"

// LoginAfter is whose turn it is after a login.
func LoginAfter(login, owner string) string {
	if login == OtherLogin {
		return owner
	}
	return OtherLogin
}

// CertificateIdentity identifies what a server presents: sixteen digits of a hash over certificate, key and
// authorities.
func CertificateIdentity(certificate, key, authorities []byte) string {
	sum := sha256.Sum256(bytes.Join([][]byte{certificate, key, authorities}, []byte{0}))
	return hex.EncodeToString(sum[:8])
}

// CacheSecret is the Secret of a cache for applications. The database leads its own applications to it.
func CacheSecret(cache string) string { return cache }

// AgentBinary is where the init container puts the binary that the database container runs.
const AgentBinary = FolderAgent + "/meridian"

// Names of the environment of the database container.
const (
	EnvDatabase     = "MERIDIAN_DATABASE"
	EnvInstance     = "MERIDIAN_INSTANCE"
	EnvPodName      = "POD_NAME"
	EnvPodNamespace = "POD_NAMESPACE"
	EnvPodIP        = "POD_IP"
	EnvPodUID       = "POD_UID"
	// EnvLogVolume is where the volume of the log is mounted, if it has one of its own.
	EnvLogVolume = "MERIDIAN_WAL_VOLUME"
)

// LogClaim is the claim of the volume of the log of an instance, if that has one of its own.
func LogClaim(instance string) string { return instance + "-wal" }

// SuperuserOptions are settings of a session in which a person is the superuser. An application can put functions and
// operators into its schemas that fit better than those of PostgreSQL, and settings into its database that make them be
// found, and they would run with all rights.
const SuperuserOptions = "-c search_path=pg_catalog,pg_temp -c role=none -c local_preload_libraries= " +
	"-c standard_conforming_strings=on -c transform_null_equals=off"
