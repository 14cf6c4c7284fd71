package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/api/v1alpha1"
)

var (
	backupLabels = []string{"namespace", "name"}

	backupUntil = prometheus.NewDesc("meridian_recoverable_timestamp_seconds",
		"The newest moment that the database can be restored to, in steps of five minutes.", backupLabels, nil)
	backupLast = prometheus.NewDesc("meridian_base_backup_timestamp_seconds",
		"When the latest base backup was complete.", backupLabels, nil)
	backupVerified = prometheus.NewDesc("meridian_backup_verified_timestamp_seconds",
		"When a backup was last restored on trial and found good.", backupLabels, nil)
	backupRestore = prometheus.NewDesc("meridian_restore_seconds",
		"How long that restore took: the measured time to recover.", backupLabels, nil)
	backupSize = prometheus.NewDesc("meridian_repository_bytes",
		"Size of all that the repository has of the database.", backupLabels, nil)
)

// collectBackup tells what is known of the repository of a database. What is not known has no figure.
func collectBackup(out chan<- prometheus.Metric, object metav1.ObjectMeta, backup *v1alpha1.BackupStatus) {
	if backup == nil {
		return
	}
	set := func(desc *prometheus.Desc, value float64) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, object.Namespace, object.Name)
	}
	for desc, at := range map[*prometheus.Desc]*metav1.Time{
		backupUntil: backup.RecoverableUntil, backupLast: backup.LastBackup, backupVerified: backup.LastVerified,
	} {
		if at != nil {
			set(desc, float64(at.Unix()))
		}
	}
	if backup.RestoreDuration != nil {
		set(backupRestore, backup.RestoreDuration.Seconds())
	}
	if backup.Size != nil {
		set(backupSize, float64(backup.Size.Value()))
	}
}
