package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Backup is how a database is kept in a repository: base backups on a schedule, and all of the log between them, which
// is shipped within seconds.
type Backup struct {
	// Where backups and the log are kept. The folder in it is `PREFIX/NAMESPACE/NAME/UID`, so databases may share a
	// bucket. Another repository begins with a base backup of its own; what is in the one of before stays there.
	Repository Repository `json:"repository"`

	// When base backups are made: `hourly`, `daily 02:00`, `weekly sun 02:00`, or days of the week and a time, such as
	// `Mon-Fri 22:00` or `Wed,Sun 03:30`. The first one is made at once, and so is one after a gap in the log.
	// Changing it takes effect at once.
	// +optional
	// +kubebuilder:default="daily 02:00"
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^(hourly|daily|weekly|(daily|(weekly )?[A-Za-z]{3}([-,][A-Za-z]{3})*) [0-2][0-9]:[0-5][0-9])$')",message="spec.backup.schedule: must be hourly, or days and a time, such as daily 02:00, weekly sun 02:00 or Mon-Fri 22:00"
	Schedule string `json:"schedule,omitempty"`

	// Time zone of `schedule` and `verify`, by its name in the IANA database, such as `Europe/Berlin`.
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9_+/-]*$`
	TimeZone string `json:"timeZone,omitempty"`

	// What is kept. Older backups are deleted, and the log that only they need.
	// Changing it takes effect within the hour; what is deleted does not come back.
	// +optional
	// +kubebuilder:default={window: "14d", atLeast: 2}
	Retention Retention `json:"retention,omitempty"`

	// How many bytes of the data a base backup reads in a second at most, such as `50Mi`, so that it leaves the volume
	// and the network to applications. Without it there is no bound.
	// Changing it takes effect at the next base backup.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(string(self)).compareTo(quantity('32Ki')) >= 0 && quantity(string(self)).compareTo(quantity('1Gi')) <= 0",message="spec.backup.maxRate: must be between 32Ki and 1Gi, in a second"
	MaxRate *resource.Quantity `json:"maxRate,omitempty"`

	// When the latest backup is restored on trial, in a pod of its own with a volume of its own, and looked through:
	// `weekly`, or any other schedule as in `schedule`, or `Never`. Without a time, each database has one of its own
	// between two and seven at night, and in a week a day of its own. `status.backup.restoreDuration` says how long it
	// took. The first one is made at the first of these moments that comes after it was asked for, and that a base backup
	// precedes; one that could not be made, or has found something, is made again, less and less often. Nothing takes it
	// for an instance; it needs as much CPU, memory and storage as one, and gives them back when an instance finds no
	// node. Changing it takes effect at the next of its moments.
	// +optional
	// +kubebuilder:default=weekly
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^(Never|hourly|daily|weekly|(daily|(weekly )?[A-Za-z]{3}([-,][A-Za-z]{3})*) [0-2][0-9]:[0-5][0-9])$')",message="spec.backup.verify: must be Never, or days and a time, such as weekly, weekly sun 04:00 or daily 04:00"
	Verify string `json:"verify,omitempty"`

	// Makes a base backup at once when it is changed to another text, such as the time of the wish.
	// Removing it does nothing. `status.backup.now` says which one was carried out last.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:cntrl:]]')",message="spec.backup.now: must be one line without control characters"
	Now string `json:"now,omitempty"`

	// Restores the latest backup on trial at once when it is changed to another text, such as the time of the wish,
	// whatever `verify` says. Removing it does nothing. `status.backup.verifyNow` says which one was carried out last.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="!self.matches('[[:cntrl:]]')",message="spec.backup.verifyNow: must be one line without control characters"
	VerifyNow string `json:"verifyNow,omitempty"`
}

// Retention says what is kept.
type Retention struct {
	// How far back a restore is possible at least, such as `14d`, `36h` or `8w`.
	// +optional
	// +kubebuilder:default="14d"
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]{0,4}[hdw]$')",message="spec.backup.retention.window: must be a number of hours, days or weeks, such as 36h, 14d or 8w"
	Window string `json:"window,omitempty"`

	// How many base backups are kept, however old they are.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	AtLeast int32 `json:"atLeast,omitempty"`
}

// Repository is a place where backups are kept: one of s3, gcs, azure and claim.
//
// +kubebuilder:validation:XValidation:rule="[has(self.s3), has(self.gcs), has(self.azure), has(self.claim)].filter(one, one).size() == 1",message="repository: must have exactly one of s3, gcs, azure and claim; name the place where backups are kept, and remove the others"
type Repository struct {
	// A bucket of S3, or of any server that speaks its protocol and honours `If-None-Match` on writes. Meridian tries that
	// first, and refuses a store that overwrites.
	// +optional
	S3 *S3Repository `json:"s3,omitempty"`

	// A bucket of Google Cloud Storage.
	// +optional
	GCS *GCSRepository `json:"gcs,omitempty"`

	// A container of Azure Blob Storage.
	// +optional
	Azure *AzureRepository `json:"azure,omitempty"`

	// A claim in the namespace of the database that many pods can mount (ReadWriteMany). Adding or removing it replaces
	// the pods one by one; the other kinds restart nothing.
	// +optional
	Claim *ClaimRepository `json:"claim,omitempty"`

	// How the content is encrypted.
	Encryption Encryption `json:"encryption"`
}

// S3Repository is a bucket of S3.
type S3Repository struct {
	// Name of the bucket, which must exist.
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9][a-z0-9.-]*[a-z0-9]$')",message="s3.bucket: must be lower-case letters, digits, dots and hyphens"
	Bucket string `json:"bucket"`

	// Folder in the bucket.
	// +optional
	Prefix RepositoryPrefix `json:"prefix,omitempty"`

	// Address of the server, such as `https://minio.example:9000`. Without it: that of AWS.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?$')",message="s3.endpoint: must be http or https, a host and perhaps a port, such as https://minio.example:9000"
	Endpoint string `json:"endpoint,omitempty"`

	// Region of the bucket, which requests are signed for.
	// +optional
	// +kubebuilder:default="us-east-1"
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9-]+$`
	Region string `json:"region,omitempty"`

	// Secret with `accessKeyID` and `secretAccessKey`, and perhaps `sessionToken` and `ca.crt`, the authority of the
	// server. It is read anew at each use: a change needs no restart.
	Credentials SecretReference `json:"credentials"`
}

// GCSRepository is a bucket of Google Cloud Storage.
type GCSRepository struct {
	// Name of the bucket, which must exist.
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=222
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9][a-z0-9._-]*[a-z0-9]$')",message="gcs.bucket: must be lower-case letters, digits, dots, underscores and hyphens"
	Bucket string `json:"bucket"`

	// Folder in the bucket.
	// +optional
	Prefix RepositoryPrefix `json:"prefix,omitempty"`

	// Secret with `credentials.json`, the key of a service account. It is read anew at each use.
	Credentials SecretReference `json:"credentials"`
}

// AzureRepository is a container of Azure Blob Storage.
type AzureRepository struct {
	// Name of the storage account.
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]{3,24}$')",message="azure.account: must be 3 to 24 lower-case letters and digits"
	// +kubebuilder:validation:MaxLength=24
	Account string `json:"account"`

	// Name of the container, which must exist.
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9][a-z0-9-]{1,61}[a-z0-9]$')",message="azure.container: must be 3 to 63 lower-case letters, digits and hyphens"
	// +kubebuilder:validation:MaxLength=63
	Container string `json:"container"`

	// Folder in the container.
	// +optional
	Prefix RepositoryPrefix `json:"prefix,omitempty"`

	// Secret with `accountKey` or `sasToken`. It is read anew at each use.
	Credentials SecretReference `json:"credentials"`
}

// ClaimRepository is a folder on a volume.
type ClaimRepository struct {
	// Name of the claim. Meridian neither makes nor deletes it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// Folder on the volume.
	// +optional
	Prefix RepositoryPrefix `json:"prefix,omitempty"`
}

// RepositoryPrefix is a folder in a repository.
// +kubebuilder:validation:MaxLength=200
// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9_-][A-Za-z0-9._-]*(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$')",message="prefix: must be folders of letters, digits, dots, underscores and hyphens, with slashes between them and none at the ends"
type RepositoryPrefix string

// SecretReference names a Secret in the namespace of the database.
type SecretReference struct {
	// Name of the Secret.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	Name string `json:"name"`
}

// Encryption says how the content of a repository is encrypted.
//
// +kubebuilder:validation:XValidation:rule="(has(self.mode) && self.mode == 'None') != has(self.key)",message="encryption: needs a key, a Secret with an age identity made by age-keygen; or set mode to None, without a key, if whoever reads the repository may read the data"
type Encryption struct {
	// `Age`: with the age identity of `key`. `None`: not at all; whoever can read the repository can read the data.
	// +optional
	// +kubebuilder:default=Age
	Mode EncryptionMode `json:"mode,omitempty"`

	// Secret with `identity`: lines as age-keygen writes them. New objects are encrypted to the first; all of them are
	// tried for reading, so keep old ones behind the new one until no backup needs them. **Keep a copy outside of the
	// cluster: without it nothing can be restored.** It is read anew at each use.
	// +optional
	Key *SecretReference `json:"key,omitempty"`
}

// EncryptionMode says whether the content of a repository is encrypted.
// +kubebuilder:validation:Enum=Age;None
type EncryptionMode string

// The ways to treat the content of a repository.
const (
	EncryptionAge  EncryptionMode = "Age"
	EncryptionNone EncryptionMode = "None"
)

// Keys of the Secrets that a repository names.
const (
	KeyAccessKeyID     = "accessKeyID"
	KeySecretAccessKey = "secretAccessKey"
	KeySessionToken    = "sessionToken"
	KeyAuthority       = "ca.crt"
	KeyCredentialsJSON = "credentials.json"
	KeyAccountKey      = "accountKey"
	KeySASToken        = "sasToken"
	KeyIdentity        = "identity"
)

// VerifyNever is the word for no restores on trial.
const VerifyNever = "Never"

// Restore begins a database with what is in a repository, instead of an empty one.
//
// +kubebuilder:validation:XValidation:rule="!has(self.target) || !(has(self.target.time) && has(self.target.lsn))",message="spec.bootstrap.restore.target: must have time or lsn, and not both; without either it is the latest"
type Restore struct {
	// Where the backups are. It is only read: the new database ships to its own `spec.backup`.
	Repository Repository `json:"repository"`

	// Which database of the repository.
	Source RestoreSource `json:"source"`

	// Where to stop. Without it: at the latest point that the repository has.
	// +optional
	Target *RestoreTarget `json:"target,omitempty"`
}

// RestoreSource is a database in a repository.
type RestoreSource struct {
	// Its namespace. Without it: that of the new database.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace,omitempty"`

	// Its name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// Its UID, if the repository has more than one database of that name: an earlier one that was deleted, for example.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9-]+$`
	UID string `json:"uid,omitempty"`
}

// RestoreTarget is where a restore stops.
type RestoreTarget struct {
	// The last moment whose commits are there, such as `2026-11-18T10:15:00Z`.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`

	// A place in the log, such as `0/3000148`.
	// +optional
	// +kubebuilder:validation:MaxLength=17
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9A-F]{1,8}/[0-9A-F]{1,8}$')",message="spec.bootstrap.restore.target.lsn: must be a place in the log as PostgreSQL writes it, such as 0/3000148"
	LSN string `json:"lsn,omitempty"`
}

// Clone begins a database with the latest of another one.
type Clone struct {
	// Name of a GeoDatabase in the same namespace that has `spec.backup`. What its repository holds is restored, up to the
	// latest; the other database is not touched.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
}

// BackupStatus is what is known of the repository. Times are written in coarse steps, so that they seldom change; the
// exact figures are metrics.
type BackupStatus struct {
	// Folder of the database in the repository.
	// +optional
	Repository string `json:"repository,omitempty"`

	// The oldest moment that can be restored to, as can any up to `recoverableUntil`.
	// +optional
	RecoverableFrom *metav1.Time `json:"recoverableFrom,omitempty"`
	// The newest moment that can be restored to.
	// +optional
	RecoverableUntil *metav1.Time `json:"recoverableUntil,omitempty"`

	// How old the newest recoverable point is, in coarse steps: `<10s`, `<1m`, `<10m`, `<1h`, `<1d`, `>=1d`, or `none`.
	// +optional
	Age string `json:"age,omitempty"`

	// When the latest base backup was complete.
	// +optional
	LastBackup *metav1.Time `json:"lastBackup,omitempty"`

	// How many base backups there are.
	// +optional
	Backups int32 `json:"backups,omitempty"`

	// When a backup was last restored on trial and found good.
	// +optional
	LastVerified *metav1.Time `json:"lastVerified,omitempty"`
	// How long that restore took: the measured time to recover.
	// +optional
	RestoreDuration *metav1.Duration `json:"restoreDuration,omitempty"`

	// Size of all that the repository has of this database.
	// +optional
	Size *resource.Quantity `json:"size,omitempty"`

	// Times that cannot be restored to, between two that can.
	// +optional
	// +listType=atomic
	Gaps []BackupGap `json:"gaps,omitempty"`

	// The base backup that is being made, such as `cities-2: 40%`.
	// +optional
	Running string `json:"running,omitempty"`

	// The `spec.backup.now` that was carried out last.
	// +optional
	Now string `json:"now,omitempty"`

	// The restore on trial that is being made, such as `cities-trial: restores since 2026-11-18T10:15:00Z`.
	// +optional
	Verifying string `json:"verifying,omitempty"`

	// What the last restore on trial has found, or why it could not be made; empty if all was well.
	// +optional
	VerifyProblem string `json:"verifyProblem,omitempty"`

	// The `spec.backup.verifyNow` that was carried out last.
	// +optional
	VerifyNow string `json:"verifyNow,omitempty"`
}

// BackupGap is a time that cannot be restored to.
type BackupGap struct {
	// The last moment before it that can be restored to.
	From metav1.Time `json:"from"`
	// The first moment after it that can be restored to.
	Until metav1.Time `json:"until"`
}
