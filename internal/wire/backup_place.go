package wire

// KeyBackup is the document of BackupSettings beside KeySettings. Without it there are no backups.
const KeyBackup = "backup.json"

// Folders of the database container that backups and restores need. Each of the first two has the files named below,
// those that its repository needs; each of the other two is the mount of a claim.
const (
	FolderBackup       = "/etc/meridian/backup"
	FolderRestore      = "/etc/meridian/restore"
	FolderBackupClaim  = "/var/lib/meridian-backup"
	FolderRestoreClaim = "/var/lib/meridian-restore"
)

// Files with credentials and keys. They are read at each use, so that replacing them needs no restart.
const (
	// KeyBackupIdentities are age identities, one in a line: the first one is written with, all of them are read with.
	KeyBackupIdentities = "identities"
	// KeyS3AccessKey, KeyS3SecretKey and KeyS3SessionToken are credentials of S3, the last one only if there is one.
	KeyS3AccessKey    = "access-key-id"
	KeyS3SecretKey    = "secret-access-key"
	KeyS3SessionToken = "session-token"
	// KeyGCSCredentials is the JSON of a service account of Google.
	KeyGCSCredentials = "credentials.json"
	// KeyAzureKey is the key of an account of Azure, KeyAzureSAS a shared access signature; one of them is enough.
	KeyAzureKey = "account-key"
	KeyAzureSAS = "sas-token"
	// KeyStoreAuthority are the authorities that the certificate of the store is signed by, in PEM; without it those of
	// the image.
	KeyStoreAuthority = "ca.crt"
)
