package wire

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"
)

// BackupSettingsVersion is the version of BackupSettings that this program writes and reads.
const BackupSettingsVersion = 1

// BackupSettings is what the operator wants of the backups of a database. It is a document of its own beside Settings:
// who asks for a base backup changes nothing about the servers, and an agent that does not know it goes on with the
// settings. Credentials and keys are not in it: they are mounted, and read at each use.
type BackupSettings struct {
	Version int `json:"version"`
	// DatabaseUID, Namespace and Database are whose repository it is.
	DatabaseUID string `json:"databaseUID"`
	Namespace   string `json:"namespace"`
	Database    string `json:"database"`
	// Repository is where everything goes.
	Repository Repository `json:"repository"`
	// WindowSeconds is how far back a restore must be possible, AtLeast how many base backups are kept however old.
	WindowSeconds int64 `json:"windowSeconds"`
	AtLeast       int   `json:"atLeast"`
	// MaxRate bounds the bytes that a base backup reads in a second, 0 for no bound.
	MaxRate int64 `json:"maxRate,omitempty"`
	// Base is the base backup that is to be made, nil if none is. It stays here until another one is wanted.
	Base *BaseWanted `json:"base,omitempty"`
}

// BaseWanted asks for a base backup. It is made once, however often it is asked for.
type BaseWanted struct {
	// ID comes from the moment of the schedule or the token of a request: the same wish has the same ID.
	ID string `json:"id"`
	// Instance is who makes it. Another instance may be named while it is not there yet.
	Instance string `json:"instance"`
}

// Repository is where backups are kept: exactly one of S3, GCS, Azure and Claim is there.
type Repository struct {
	S3    *S3Bucket    `json:"s3,omitempty"`
	GCS   *GCSBucket   `json:"gcs,omitempty"`
	Azure *AzureBucket `json:"azure,omitempty"`
	// Claim says that the repository is a folder of the claim that is mounted.
	Claim *ClaimFolder `json:"claim,omitempty"`
	// Encrypted says that there are keys; without it somebody has said aloud that there are none.
	Encrypted bool `json:"encrypted"`
}

// S3Bucket is a bucket of S3, or of what speaks like it.
type S3Bucket struct {
	Bucket   string `json:"bucket"`
	Prefix   string `json:"prefix,omitempty"`
	Endpoint string `json:"endpoint,omitempty"`
	Region   string `json:"region,omitempty"`
	// PathStyle puts the name of the bucket into the path instead of the name of the host.
	PathStyle bool `json:"pathStyle,omitempty"`
}

// GCSBucket is a bucket of Google Cloud Storage.
type GCSBucket struct {
	Bucket   string `json:"bucket"`
	Prefix   string `json:"prefix,omitempty"`
	Endpoint string `json:"endpoint,omitempty"`
}

// AzureBucket is a container of Azure Blob Storage.
type AzureBucket struct {
	Account   string `json:"account"`
	Container string `json:"container"`
	Prefix    string `json:"prefix,omitempty"`
	Endpoint  string `json:"endpoint,omitempty"`
}

// ClaimFolder is a folder of a mounted claim.
type ClaimFolder struct {
	Prefix string `json:"prefix,omitempty"`
}

// Restore says that the first data of a database comes from a repository. It is a part of Settings: an agent that does
// not know it must not begin an empty database in its place.
type Restore struct {
	Repository Repository `json:"repository"`
	// Namespace, Name and UID are whose backups they are; the UID only if there was more than one of that name.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
	// Time or LSN is where the restore ends; neither: the latest place that can be reached.
	Time *time.Time `json:"time,omitempty"`
	LSN  string     `json:"lsn,omitempty"`
}

// Prefix is what all names in a repository begin with.
func (r Repository) Prefix() string {
	switch {
	case r.S3 != nil:
		return r.S3.Prefix
	case r.GCS != nil:
		return r.GCS.Prefix
	case r.Azure != nil:
		return r.Azure.Prefix
	case r.Claim != nil:
		return r.Claim.Prefix
	}
	return ""
}

// Encode returns the JSON of settings that Check accepts.
func (s BackupSettings) Encode() ([]byte, error) {
	s.Version = BackupSettingsVersion
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("encode the settings of backups: %w", err)
	}
	return encode(s)
}

// DecodeBackupSettings reads settings. It refuses what this program would not fully understand.
func DecodeBackupSettings(document []byte) (BackupSettings, error) {
	var settings BackupSettings
	if err := decode(document, BackupSettingsVersion, &settings); err != nil {
		return BackupSettings{}, fmt.Errorf("decode the settings of backups: %w", err)
	}
	if err := settings.Check(); err != nil {
		return BackupSettings{}, fmt.Errorf("decode the settings of backups: %w", err)
	}
	return settings, nil
}

// baseID is what may be a part of the name of an object and is no path.
var baseID = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

// Check finds what can never be right, so that neither side acts on it. It returns every problem, joined.
func (s BackupSettings) Check() error {
	var problems []error
	problem := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	for _, field := range []struct{ name, value string }{
		{"databaseUID", s.DatabaseUID}, {"namespace", s.Namespace}, {"database", s.Database},
	} {
		if !isFolder(field.value) {
			problem("%s: %q cannot be a part of a name in the repository", field.name, field.value)
		}
	}
	s.Repository.check("repository", problem)
	if s.WindowSeconds < 0 {
		problem("windowSeconds: %d is no time", s.WindowSeconds)
	}
	if s.AtLeast < 1 {
		problem("atLeast: %d is too few", s.AtLeast)
	}
	if s.MaxRate < 0 {
		problem("maxRate: %d is no rate", s.MaxRate)
	}
	if base := s.Base; base != nil {
		if !baseID.MatchString(base.ID) {
			problem("base.id: %q is not made of up to 63 letters, digits and dashes", base.ID)
		}
		if base.Instance == "" {
			problem("base.instance: is empty")
		}
	}
	return errors.Join(problems...)
}

// Check finds what can never be right about a repository.
func (r Repository) Check() error {
	var problems []error
	r.check("repository", func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) })
	return errors.Join(problems...)
}

func (r Repository) check(field string, problem func(string, ...any)) {
	kinds := 0
	need := func(name, value string) {
		if value == "" || strings.ContainsFunc(value, unicode.IsControl) {
			problem("%s.%s: %q is none", field, name, value)
		}
	}
	if r.S3 != nil {
		kinds++
		need("s3.bucket", r.S3.Bucket)
	}
	if r.GCS != nil {
		kinds++
		need("gcs.bucket", r.GCS.Bucket)
	}
	if r.Azure != nil {
		kinds++
		need("azure.account", r.Azure.Account)
		need("azure.container", r.Azure.Container)
	}
	if r.Claim != nil {
		kinds++
	}
	if kinds != 1 {
		problem("%s: must be exactly one of s3, gcs, azure and claim", field)
	}
	for part := range strings.SplitSeq(strings.Trim(r.Prefix(), "/"), "/") {
		if part == ".." || part == "." || strings.ContainsFunc(part, unicode.IsControl) {
			problem("%s: the prefix %q is no path", field, r.Prefix())
		}
	}
}

// isFolder says that a name can be a folder in a repository, and leads nowhere else.
func isFolder(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.Contains(name, "/") &&
		!strings.ContainsFunc(name, unicode.IsControl)
}

func (r Restore) check(problem func(string, ...any)) {
	r.Repository.check("restore.repository", problem)
	for _, name := range []string{r.Namespace, r.Name} {
		if !isFolder(name) {
			problem("restore: the source %q/%q is no database", r.Namespace, r.Name)
		}
	}
	if r.UID != "" && !isFolder(r.UID) {
		problem("restore.uid: %q is none", r.UID)
	}
	if r.LSN != "" {
		if r.Time != nil {
			problem("restore: must have a time or an LSN, and not both")
		}
		var high, low uint32
		if _, err := fmt.Sscanf(r.LSN+" ", "%X/%X ", &high, &low); err != nil || high == 0 && low == 0 {
			problem("restore.lsn: %q is no place in the log", r.LSN)
		}
	}
	if r.Time != nil && r.Time.IsZero() {
		problem("restore.time: is empty")
	}
}
