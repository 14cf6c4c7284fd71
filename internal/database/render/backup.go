package render

import "meridian.dev/meridian/api/v1alpha1"

// ClaimOf is the claim that a repository of backups is on, empty without one. It is all of spec.backup that a pod
// depends on.
func ClaimOf(spec v1alpha1.GeoDatabaseSpec) string {
	if spec.Backup == nil || spec.Backup.Repository.Claim == nil {
		return ""
	}
	return spec.Backup.Repository.Claim.Name
}
