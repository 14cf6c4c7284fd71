package render

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/wire"
)

// ClaimOf is the claim that a repository of backups is on, empty without one. It is all of spec.backup that a pod
// depends on.
func ClaimOf(spec v1alpha1.GeoDatabaseSpec) string {
	if spec.Backup == nil || spec.Backup.Repository.Claim == nil {
		return ""
	}
	return spec.Backup.Repository.Claim.Name
}

// Begins says that a database is to begin with what is in a repository.
func Begins(spec v1alpha1.GeoDatabaseSpec) bool {
	return spec.Bootstrap.Restore != nil || spec.Bootstrap.Clone != nil
}

// Repository is a repository in the words of the agents.
func Repository(from v1alpha1.Repository) wire.Repository {
	to := wire.Repository{Encrypted: from.Encryption.Key != nil}
	switch {
	case from.S3 != nil:
		to.S3 = &wire.S3Bucket{
			Bucket: from.S3.Bucket, Prefix: string(from.S3.Prefix), Endpoint: from.S3.Endpoint, Region: from.S3.Region,
			// Who has a server of their own has seldom a name for each bucket.
			PathStyle: from.S3.Endpoint != "",
		}
	case from.GCS != nil:
		to.GCS = &wire.GCSBucket{Bucket: from.GCS.Bucket, Prefix: string(from.GCS.Prefix)}
	case from.Azure != nil:
		to.Azure = &wire.AzureBucket{
			Account: from.Azure.Account, Container: from.Azure.Container, Prefix: string(from.Azure.Prefix),
		}
	case from.Claim != nil:
		to.Claim = &wire.ClaimFolder{Prefix: string(from.Claim.Prefix)}
	}
	return to
}

// Restore is what a database begins with, in the words of the agents.
func Restore(from v1alpha1.Restore, namespace string) *wire.Restore {
	to := &wire.Restore{
		Repository: Repository(from.Repository), Namespace: namespace, Name: from.Source.Name, UID: from.Source.UID,
	}
	if from.Source.Namespace != "" {
		to.Namespace = from.Source.Namespace
	}
	if from.Target != nil {
		to.LSN = from.Target.LSN
		if from.Target.Time != nil {
			at := from.Target.Time.UTC()
			to.Time = &at
		}
	}
	return to
}

// credentials are the files that lead to a repository, each with the key of the user's Secret that it comes from.
func credentials(from v1alpha1.Repository) (secret string, needed, possible map[string]string, either bool) {
	switch {
	case from.S3 != nil:
		return from.S3.Credentials.Name, map[string]string{
				v1alpha1.KeyAccessKeyID: wire.KeyS3AccessKey, v1alpha1.KeySecretAccessKey: wire.KeyS3SecretKey,
			}, map[string]string{
				v1alpha1.KeySessionToken: wire.KeyS3SessionToken, v1alpha1.KeyAuthority: wire.KeyStoreAuthority,
			}, false
	case from.GCS != nil:
		return from.GCS.Credentials.Name,
			map[string]string{v1alpha1.KeyCredentialsJSON: wire.KeyGCSCredentials}, nil, false
	case from.Azure != nil:
		return from.Azure.Credentials.Name,
			map[string]string{v1alpha1.KeyAccountKey: wire.KeyAzureKey, v1alpha1.KeySASToken: wire.KeyAzureSAS}, nil, true
	}
	return "", nil, nil, false
}

// SecretsOf are the Secrets that a repository names, sorted.
func SecretsOf(repository v1alpha1.Repository) []string {
	var names []string
	if name, _, _, _ := credentials(repository); name != "" {
		names = append(names, name)
	}
	if key := repository.Encryption.Key; key != nil {
		names = append(names, key.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// AccessData is what the mounted Secret shall have, made of those that a repository names, by name. Missing says what
// they lack: then there is nothing to mount.
func AccessData(
	repository v1alpha1.Repository, secrets map[string]*corev1.Secret,
) (data map[string][]byte, missing string) {
	data = map[string][]byte{}
	take := func(secret string, keys map[string]string, needed bool) int {
		taken := 0
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			if value := bytes.TrimSpace(valueOf(secrets[secret], key)); len(value) > 0 {
				data[keys[key]] = value
				taken++
			} else if needed && missing == "" {
				missing = lacks(secret, secrets[secret], key)
			}
		}
		return taken
	}
	secret, needed, possible, either := credentials(repository)
	if found := take(secret, needed, !either); either && found == 0 {
		missing = lacks(secret, secrets[secret], strings.Join(slices.Sorted(maps.Keys(needed)), " or "))
	}
	take(secret, possible, false)
	if key := repository.Encryption.Key; key != nil {
		take(key.Name, map[string]string{v1alpha1.KeyIdentity: wire.KeyBackupIdentities}, true)
	}
	if missing != "" {
		return nil, missing
	}
	return data, ""
}

func valueOf(secret *corev1.Secret, key string) []byte {
	if secret == nil {
		return nil
	}
	return secret.Data[key]
}

func lacks(name string, secret *corev1.Secret, key string) string {
	if secret == nil {
		return "the Secret " + name + " is not there; make it, with " + key
	}
	return "the Secret " + name + " has no " + key + "; add it"
}

// Access renders the Secret that is mounted. Without data nobody needs it any more.
func Access(design database.Design, name string, data map[string][]byte) *corev1.Secret {
	if data == nil {
		data = map[string][]byte{}
	}
	return &corev1.Secret{ObjectMeta: meta(design, name, "backup"), Type: corev1.SecretTypeOpaque, Data: data}
}

// backupMounts and backupVolumes are there whether or not there are backups: a pod has to be made anew for a volume,
// and turning backups on shall restart nothing. A claim is the exception, and the Secret of what a database
// begins with.
func backupMounts(design database.Design, mounts []corev1.VolumeMount) []corev1.VolumeMount {
	mounts = append(mounts, corev1.VolumeMount{Name: "repository", MountPath: wire.FolderBackup, ReadOnly: true})
	if Begins(design.Spec) {
		mounts = append(mounts, corev1.VolumeMount{Name: "source", MountPath: wire.FolderRestore, ReadOnly: true})
	}
	if ClaimOf(design.Spec) != "" {
		mounts = append(mounts, corev1.VolumeMount{Name: "backups", MountPath: wire.FolderBackupClaim})
	}
	if design.Backup.BeginClaim != "" {
		mounts = append(mounts, corev1.VolumeMount{
			Name: "source-backups", MountPath: wire.FolderRestoreClaim, ReadOnly: true,
		})
	}
	return mounts
}

func backupVolumes(design database.Design, volumes []corev1.Volume) []corev1.Volume {
	mode, optional := int32(0o440), true
	secret := func(volume, name string) {
		volumes = append(volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: name, DefaultMode: &mode, Optional: &optional},
		}})
	}
	claim := func(volume, name string) {
		volumes = append(volumes, corev1.Volume{Name: volume, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
		}})
	}
	secret("repository", database.AccessName(design.Name))
	if Begins(design.Spec) {
		secret("source", database.SourceName(design.Name))
	}
	if name := ClaimOf(design.Spec); name != "" {
		claim("backups", name)
	}
	if name := design.Backup.BeginClaim; name != "" {
		claim("source-backups", name)
	}
	return volumes
}
