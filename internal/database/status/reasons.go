package status

import (
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/condition"
)

// Reasons that conditions have when nothing holds.
const (
	reasonAsWished       condition.Reason = "AsWished"
	reasonAccepting      condition.Reason = "AcceptingWrites"
	reasonNoPrimary      condition.Reason = "NoPrimary"
	reasonLeaseExpired   condition.Reason = "LeaseExpired"
	reasonNotOpen        condition.Reason = "NotOpenYet"
	reasonNotRouted      condition.Reason = "NotRoutedYet"
	reasonNotStalled     condition.Reason = "NotStalled"
	reasonNothingToDo    condition.Reason = "NothingToDo"
	reasonNothingMissing condition.Reason = "NothingMissing"
	reasonChanging       condition.Reason = "Changing"
	reasonDeleting       condition.Reason = "Deleting"
	reasonPlanRefused    condition.Reason = "PlanRefused"
	reasonHibernated     condition.Reason = "Hibernated"
	reasonWritesWait     condition.Reason = "WritesWait"
	reasonWriteFailed    condition.Reason = "WriteFailed"
	reasonWriteRefused   condition.Reason = "WriteRefused"
)

// Reasons is every reason that a condition of a database can have, with what it means.
var Reasons = condition.MustCatalogue(
	condition.Entry{Reason: reasonAsWished, Means: "everything that the spec asks for is there and well"},
	condition.Entry{Reason: reasonAccepting, Means: "the primary accepts writes"},
	condition.Entry{Reason: reasonNoPrimary, Means: "no instance accepts writes"},
	condition.Entry{Reason: reasonLeaseExpired, Means: "the lease of the primary was not renewed in time"},
	condition.Entry{Reason: reasonNotOpen, Means: "the holder of the lease does not accept writes yet"},
	condition.Entry{Reason: reasonNotRouted, Means: "the write address does not lead to the primary yet"},
	condition.Entry{Reason: "ReadsNotRoutedYet", Means: "the read address does not lead to the replicas yet"},
	condition.Entry{Reason: reasonNotStalled, Means: "no human is needed"},
	condition.Entry{Reason: reasonNothingToDo, Means: "no change is under way"},
	condition.Entry{Reason: reasonNothingMissing, Means: "nothing that was promised is missing"},
	condition.Entry{Reason: reasonChanging, Means: "children of the database are being written"},
	condition.Entry{Reason: reasonDeleting, Means: "the database is being deleted"},
	condition.Entry{Reason: reasonPlanRefused, Means: "a plan would have broken a rule of safety and was not carried out"},
	condition.Entry{Reason: reasonWriteFailed, Means: "the API server refused a write, which is tried again"},
	condition.Entry{Reason: reasonWriteRefused, Means: "the API server refuses a write for good until something changes"},
	condition.Entry{Reason: "InvalidSpec", Means: "the spec cannot be carried out, and nothing of it is written"},
	condition.Entry{Reason: "Paused", Means: "spec.paused holds changes back"},
	condition.Entry{Reason: "ForeignChild", Means: "the name of a child is taken by an object of another owner"},
	condition.Entry{Reason: "ForeignClaim", Means: "a claim under the name of an instance belongs to somebody else"},
	condition.Entry{Reason: "IdentityMismatch", Means: "a volume has the data of another database"},
	condition.Entry{Reason: "RecordUnclear", Means: "what was written down about the data cannot be relied upon"},
	condition.Entry{Reason: "ClassCannotExpand", Means: "the storage class does not let a volume grow"},
	condition.Entry{Reason: "ClaimPending", Means: "a claim has no volume yet"},
	condition.Entry{Reason: "VolumeLost", Means: "a claim that had data is gone"},
	condition.Entry{Reason: "VolumeDeleting", Means: "a claim with data was deleted and lives as long as its pod"},
	condition.Entry{Reason: "VolumeGrowing", Means: "a volume or its file system is growing"},
	condition.Entry{Reason: "VolumeResizeFailed", Means: "the cluster cannot grow a volume"},
	condition.Entry{Reason: "VolumeFilling", Means: "a volume is filling, and is not full yet"},
	condition.Entry{Reason: "GrowthLimitReached", Means: "a volume is filling and has grown to its limit"},
	condition.Entry{Reason: "DeletingClaims", Means: "the claims of a deleted database are being deleted"},
	condition.Entry{Reason: "AuthorityUnreadable", Means: "the stored certificate authority cannot be read"},
	condition.Entry{Reason: "ClocksDisagree", Means: "certificates are due, and two clocks disagree about the time"},
	condition.Entry{Reason: "AuthorityLost", Means: "the stored certificate authority is gone, and it is trusted"},
	condition.Entry{Reason: "IssuerUnusable", Means: "the authority of your own that the spec names cannot be used"},
	condition.Entry{Reason: "IssuerEnding", Means: "the authority of your own ends soon"},
	condition.Entry{Reason: "RotatingPassword", Means: "a new password is told to every instance before it is published"},
	condition.Entry{Reason: "RotatingCertificates", Means: "a new authority takes the place of the old one"},
	condition.Entry{Reason: "ChildTerminating", Means: "a child is being deleted and will be made again"},
	condition.Entry{Reason: "InstanceStarting", Means: "an instance is not ready yet"},
	condition.Entry{Reason: "InstanceStopping", Means: "the pod of an instance is being deleted"},
	condition.Entry{Reason: "InstanceStuck", Means: "the containers of an instance cannot start"},
	condition.Entry{Reason: "AgentUnreachable", Means: "the agent of an instance gives no report"},
	condition.Entry{Reason: "SettingsNotInForce", Means: "an instance has not taken over the latest settings yet"},
	condition.Entry{Reason: "LeaseLost", Means: "the lease of the agents is gone, or is another one"},
	condition.Entry{Reason: "LeaseDeleting", Means: "the lease was deleted and stays because of its finalizer alone"},
	condition.Entry{Reason: "NotingParting", Means: "the claims that a deleted database keeps get a note for its return"},
	condition.Entry{Reason: "AdoptingVolumes", Means: "the volumes of an earlier database are taken over"},
	condition.Entry{Reason: "NothingToAdopt", Means: "no volume was left by the database that spec.storage.adopt names"},
	condition.Entry{Reason: "AdoptTooLate", Means: "the database has begun with other volumes than it was to take over"},
	condition.Entry{Reason: "FreeingLease", Means: "the lease of a deleted database is let go"},
	condition.Entry{Reason: "ReplicaNotStreaming", Means: "a replica does not stream from the primary yet"},
	condition.Entry{Reason: "ReplicaJoining", Means: "a replica follows, and it is not in the write quorum yet"},
	condition.Entry{Reason: "CopiesMissing", Means: "fewer instances have a copy than were asked for"},
	condition.Entry{Reason: "CopiesBeingMade", Means: "the database is new, and its replicas are being made"},
	condition.Entry{Reason: "DurabilityReduced", Means: "an acknowledged write is worth less than was asked for"},
	condition.Entry{Reason: "NodeAway", Means: "the node of an instance is not ready"},
	condition.Entry{Reason: "NoCopyToCloneFrom", Means: "an instance is lost, and no primary serves to clone from"},
	condition.Entry{Reason: "ReplacementsLost", Means: "instances that took the place of lost ones are lost too"},
	condition.Entry{Reason: "ReplacementJoining", Means: "a lost instance stays until another one has its copy"},
	condition.Entry{Reason: "TooFewCopies", Means: "an instance is not taken away because the others would be too few"},
	condition.Entry{Reason: "PrimaryUnclear", Means: "no primary serves, so nothing is taken away"},
	condition.Entry{Reason: "PrimaryLeaving", Means: "the primary is to leave and has to hand over first"},
	condition.Entry{Reason: "MemberLeaving", Means: "an instance that is to leave is still in the write quorum"},
	condition.Entry{Reason: "InstanceLeaving", Means: "an instance that is no longer wanted is being deleted"},
	condition.Entry{Reason: "ResizeDeferred", Means: "the node of an instance has no room for the wanted size now"},
	condition.Entry{Reason: "ResizeRefused", Means: "the API server does not let an instance have the wanted size"},
	condition.Entry{Reason: "ContainerResizing", Means: "the kubelet gives a container another size"},
	condition.Entry{Reason: "MemoryShrinking", Means: "a container shrinks when its server has smaller buffers"},
	condition.Entry{Reason: "Hibernating", Means: "the instances of a database that is to sleep are being stopped"},
	condition.Entry{Reason: reasonHibernated, Means: "the database sleeps: no instance runs, and its volumes are kept"},
	condition.Entry{Reason: reasonWritesWait, Means: "too few members follow the primary, so that writes wait"},
	condition.Entry{Reason: "LibraryChanged", Means: "a library has another version than when indexes were built with it"},
	condition.Entry{Reason: "Rolling", Means: "an instance is restarted for a change that was asked for"},
	condition.Entry{Reason: "RollWaiting", Means: "the next restart waits until other instances or databases are healthy"},
	condition.Entry{Reason: "RollStopped", Means: "a change has done harm to one instance and goes no further"},
	condition.Entry{Reason: "TemplateRefused", Means: "the API server does not take a pod from the wanted template"},
	condition.Entry{Reason: "SwitchoverRefused", Means: "the agent of the primary does not hand over yet"},
	condition.Entry{Reason: "SwitchingOver", Means: "another primary was asked for"},
	condition.Entry{Reason: "RestartPending", Means: "a change takes effect at the next restart of an instance"},
	condition.Entry{Reason: "LogShipped", Means: "the database can be restored up to some seconds ago"},
	condition.Entry{Reason: "BackupSecretMissing", Means: "a Secret that spec.backup names is not there, or lacks a key"},
	condition.Entry{Reason: "SourceSecretMissing", Means: "a Secret that the restore names is not there, or lacks a key"},
	condition.Entry{Reason: "CloneSourceMissing", Means: "the database to clone is not there, or has no backups"},
	condition.Entry{Reason: "BackupOverdue", Means: "a base backup of the schedule is not there"},
	condition.Entry{Reason: "VerifyFailed", Means: "a restore on trial has found something wrong"},
	condition.Entry{Reason: "VerifyRunning", Means: "a backup is being restored on trial, in a pod of its own"},
	condition.Entry{Reason: "VerifyWaiting", Means: "a restore on trial is due and waits for something"},
	condition.Entry{Reason: "VerifyNotMade", Means: "a restore on trial could not be made; the backup may be good"},
	condition.Entry{Reason: "VerifyOverdue", Means: "no backup was restored on trial for longer than the schedule says"},
	condition.Entry{Reason: "NoRoomToVerify", Means: "the cluster has no room for a restore on trial"},
	backupEntry(wire.BackupSettingsUnreadable, "an agent cannot understand the settings of backups"),
	backupEntry(wire.BackupKeyWrong, "the key of the repository is none, or opens nothing that is there"),
	backupEntry(wire.BackupRepositoryForeign, "the repository belongs to another database, or to another copy"),
	backupEntry(wire.BackupConditionIgnored, "the store overwrites what it was told not to"),
	backupEntry(wire.BackupCredentialsRefused, "the store answers, and does not let us in"),
	backupEntry(wire.BackupRepositoryAway, "the store of the repository does not answer"),
	backupEntry(wire.BackupRepositoryDamaged, "what is in the repository is not what was written, or of a later version"),
	backupEntry(wire.BackupLogGap, "log was lost before it could be shipped, and a new base backup begins"),
	backupEntry(wire.BackupFirstPending, "nothing can be restored yet, because no base backup is complete"),
	backupEntry(wire.BackupShippingBehind, "the log arrives in the repository later than it should"),
	backupEntry(wire.BackupFailed, "a base backup fails again and again"),
	agentEntry(wire.ReasonVolumeEmpty, "the database has had data once, and this volume has none"),
	agentEntry(wire.ReasonCredentialsOld, "the mounted credentials are older than those that the server knows"),
	agentEntry(wire.ReasonVolumeForeign, "the volume belongs to another database"),
	agentEntry(wire.ReasonVolumePutBack, "the volume has come with another claim, and may be an older state of the copy"),
	agentEntry(wire.ReasonVolumeUnknown, "there is data on the volume that no agent has made"),
	agentEntry(wire.ReasonVersionMismatch, "the data was made by another major version than the image has"),
	agentEntry(wire.ReasonDataDamaged, "the data directory lacks what PostgreSQL needs to start"),
	agentEntry(wire.ReasonSettingsUnreadable, "the mounted settings cannot be understood"),
	agentEntry(wire.ReasonVolumeUnreadable, "the volume cannot be read"),
	agentEntry(wire.ReasonCertificateMissing, "the mounted certificate is not there or cannot be read"),
	agentEntry(wire.ReasonVolumeUnwritable, "new settings cannot be written to the volume, such as when it is full"),
	agentEntry(wire.ReasonWaitingForRecord, "the operator has not stored yet whose data this is"),
	agentEntry(wire.ReasonApplicationMissing, "the application's role or database was made once and is gone"),
	agentEntry(wire.ReasonServerFailing, "PostgreSQL ends again and again"),
	agentEntry(wire.ReasonServerRecovering, "PostgreSQL is up and does not accept connections yet"),
	agentEntry(wire.ReasonProgramsMissing, "the image lacks PostgreSQL's programs"),
	agentEntry(wire.ReasonVolumeInUse, "another agent, or a server that it started, still uses the volume"),
	agentEntry(wire.ReasonParametersRefused, "PostgreSQL does not accept a line of its configuration"),
	agentEntry(wire.ReasonPasswordMissing, "the mounted password of the application cannot be used"),
	agentEntry(wire.ReasonExtensionMissing, "the image does not have an extension that is wanted"),
	agentEntry(wire.ReasonExtensionForeign, "an extension that is listed belongs to the application, and is not updated"),
	agentEntry(wire.ReasonApplicationUnknown, "the application's database cannot be looked into"),
	agentEntry(wire.ReasonLeaseUnreadable, "the record on the lease cannot be understood"),
	agentEntry(wire.ReasonTenureUnreadable, "what the volume knows of the lease cannot be read"),
	agentEntry(wire.ReasonWaitingForLease, "the API server does not answer, so nobody knows who the primary is"),
	agentEntry(wire.ReasonElection, "the primary has gone, and the members agree on a new one"),
	agentEntry(wire.ReasonQuorumMissing, "too few members answer for an election that loses nothing"),
	agentEntry(wire.ReasonGateClosed, "the new primary waits until enough members have everything"),
	agentEntry(wire.ReasonMembership, "a member is being added or taken out"),
	agentEntry(wire.ReasonBeginning, "there is no data, or none any more, and an empty copy is being begun"),
	agentEntry(wire.ReasonSwitchover, "the primary gives its place to another instance"),
	agentEntry(wire.ReasonTimelineWrong, "a promotion led to another timeline than the reserved one"),
	agentEntry(wire.ReasonFenced, "the instance has answered an election and waits for its outcome"),
	agentEntry(wire.ReasonWaitingForStanding, "the agents have not agreed yet on what the instance shall be"),
	agentEntry(wire.ReasonCopying, "the data of the primary is being copied to the instance"),
	agentEntry(wire.ReasonCopyNeeded, "a replica cannot catch up, and its copy is kept because the quorum needs it"),
	agentEntry(wire.ReasonUpstreamMissing, "the primary that the instance shall follow does not answer"),
	agentEntry(wire.ReasonPromoting, "the instance is about to become the primary"),
	agentEntry(wire.ReasonWALUnshipped, "a copy that is about to be replaced first ships WAL that backups may lack"),
	agentEntry(wire.ReasonRestoring, "the first data is being restored from a repository of backups"),
	agentEntry(wire.ReasonTargetOutside, "the repository does not lead to the target that is to be restored to"),
	agentEntry(wire.ReasonRestoreFailed, "the first data is to be restored from a repository of backups, and cannot be"),
	agentEntry(wire.ReasonVolumeFull, "there is hardly room on a volume, so that writes are refused or the server waits"),
	agentEntry(wire.ReasonRestarting, "the server is being restarted, or waits for a switchover before that"),
	agentEntry(wire.ReasonRouteMissing, "the endpoints of the write address are gone"),
	agentEntry(wire.ReasonServerNotWriting, "PostgreSQL runs and flushes no WAL, and no other member can take over"),
	agentEntry(wire.ReasonFactsOld, "what the agent knows of its server is too old to act on"),
	agentEntry(wire.ReasonCutOff, "the primary reaches the API server and none of the other members"),
	agentEntry(wire.ReasonActionFailed, "a step of the agent failed and is tried again"),
)

// backupEntry documents a reason that agents tell of backups.
func backupEntry(reason wire.BackupReason, means string) condition.Entry {
	return condition.Entry{Reason: condition.Reason(reason), Means: means}
}

// agentEntry documents a reason that comes from an agent.
func agentEntry(reason wire.Reason, means string) condition.Entry {
	return condition.Entry{Reason: condition.Reason(reason), Means: means}
}
