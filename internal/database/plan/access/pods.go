package access

import (
	"fmt"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/plan/draft"
)

// TellPods has the kubelets of agents that have older settings look for the new ones. An agent that has them already,
// or is not up yet, needs no word.
func TellPods(d *draft.Draft) {
	settings := d.Settings
	if settings.Hash == "" || d.Writes(database.KindSettings, database.SettingsName(d.Name)) {
		return
	}
	for _, instance := range d.Instances {
		pod, report := instance.Pod, instance.Report
		if pod == nil || pod.Deleting || !report.Reachable ||
			d.Writes(database.KindPod, database.PodName(instance.Name)) {
			continue
		}
		tell, why := database.TellPod{}, ""
		if hasOldSecrets(d, instance) {
			tell.Secrets, why = secretsTold(d, instance), "its agent has not got the latest certificates or credentials yet"
		}
		if report.SettingsHash != settings.Hash && pod.Settings != settings.Hash {
			tell.Hash, why = settings.Hash, "its agent has not got the latest settings yet"
		}
		if stored := draft.StoredBackup(d); stored != "" && pod.Backup != stored {
			tell.Backup, why = stored, "its agent has not got the latest word on backups yet"
		}
		if tell != (database.TellPod{}) {
			d.Do(database.Action{
				Do: tell, Kind: database.KindPod, Name: database.PodName(instance.Name),
				UID: pod.UID, ResourceVersion: pod.ResourceVersion, Why: why,
			})
		}
	}
}

// secretsTold names what a pod is to have mounted.
func secretsTold(d *draft.Draft, instance database.Instance) string {
	version := d.CertificateOf(instance).ResourceVersion
	if d.Credentials.UnderWay() {
		return fmt.Sprintf("%s-%d", version, d.Credentials.Number)
	}
	return version
}

// hasOldSecrets says that an agent has other certificates or credentials than are stored, and its kubelet was not told.
func hasOldSecrets(d *draft.Draft, instance database.Instance) bool {
	report, identity := instance.Report, d.CertificateOf(instance).Identity
	old := report.Certificate != "" && report.Certificate != identity ||
		d.Credentials.UnderWay() && report.Rotation != d.Credentials.Number
	return old && identity != "" && instance.Pod.Secrets != secretsTold(d, instance) &&
		!d.Writes(database.KindSecret, database.AuthorityName(d.Name))
}
