package wire

// Reason is a CamelCase word for why an instance is not as wished. It may become the reason of a condition, so it has
// a page in the runbook and is never renamed.
type Reason string

// Reasons that need a human: the state is failed with them.
const (
	// ReasonVolumeEmpty: the database has had data once, and this volume has none.
	ReasonVolumeEmpty Reason = "VolumeEmpty"
	// ReasonVolumeForeign: the volume belongs to another database, or its data has another system identifier.
	ReasonVolumeForeign Reason = "VolumeForeign"
	// ReasonVolumePutBack: the volume has come with another claim than the copy on it was recorded under, and may be an
	// older state of it.
	ReasonVolumePutBack Reason = "VolumePutBack"
	// ReasonVolumeUnknown: there is data on the volume that no agent has made.
	ReasonVolumeUnknown Reason = "VolumeUnknown"
	// ReasonVersionMismatch: the data directory was made by another major version than the image has.
	ReasonVersionMismatch Reason = "VersionMismatch"
	// ReasonProgramsMissing: the image lacks PostgreSQL's programs, or they cannot run as this user.
	ReasonProgramsMissing Reason = "ProgramsMissing"
	// ReasonDataDamaged: the data directory lacks what PostgreSQL needs to start.
	ReasonDataDamaged Reason = "DataDamaged"
	// ReasonApplicationMissing: the application's role or database was made once and is not there any more. The server
	// runs with it, so the state is not failed.
	ReasonApplicationMissing Reason = "ApplicationMissing"
)

// Reasons that end by themselves, or when what they name is mended.
const (
	// ReasonSettingsUnreadable: the mounted settings cannot be understood; those in force are kept.
	ReasonSettingsUnreadable Reason = "SettingsUnreadable"
	// ReasonVolumeUnreadable: the volume cannot be read.
	ReasonVolumeUnreadable Reason = "VolumeUnreadable"
	// ReasonVolumeInUse: another agent, or a server that it started, still uses the volume.
	ReasonVolumeInUse Reason = "VolumeInUse"
	// ReasonCertificateMissing: the mounted certificate is not there or cannot be read.
	ReasonCertificateMissing Reason = "CertificateMissing"
	// ReasonServerFailing: PostgreSQL ends again and again; it is started with growing pauses.
	ReasonServerFailing Reason = "ServerFailing"
	// ReasonServerRecovering: PostgreSQL is up and does not accept connections yet.
	ReasonServerRecovering Reason = "ServerRecovering"
	// ReasonParametersRefused: PostgreSQL does not accept a line of its configuration; the others are in force.
	ReasonParametersRefused Reason = "ParametersRefused"
	// ReasonPasswordMissing: the mounted password of the application cannot be used.
	ReasonPasswordMissing Reason = "PasswordMissing"
	// ReasonCredentialsOld: the mounted credentials are older than those that the server knows; nothing is undone.
	ReasonCredentialsOld Reason = "CredentialsOld"
	// ReasonExtensionMissing: the image does not have an extension that is wanted.
	ReasonExtensionMissing Reason = "ExtensionMissing"
	// ReasonExtensionForeign: an extension that is listed belongs to a role that is no superuser, so it is not updated.
	ReasonExtensionForeign Reason = "ExtensionForeign"
	// ReasonApplicationUnknown: the application's database cannot be looked into.
	ReasonApplicationUnknown Reason = "ApplicationUnknown"
	// ReasonWaitingForRecord: the first data is made, and the lease does not tell of it yet; nobody is served before.
	ReasonWaitingForRecord Reason = "WaitingForRecord"
	// ReasonVolumeUnwritable: new settings cannot be written, such as on a full volume; those on it stay in force.
	ReasonVolumeUnwritable Reason = "VolumeUnwritable"
	// ReasonVolumeFull: there is hardly room on the volume of the data or of the log; writes are refused, or the server
	// waits for room.
	ReasonVolumeFull Reason = "VolumeFull"
	// ReasonRestarting: the server is started anew because somebody asked for it, or waits for a switchover before.
	ReasonRestarting Reason = "Restarting"
	// ReasonActionFailed: a step failed and will be tried again; the message has the error.
	ReasonActionFailed Reason = "ActionFailed"
	// ReasonPlanRefused: a plan would have broken an invariant and was not carried out.
	ReasonPlanRefused Reason = "PlanRefused"
)

// Reasons of the lease.
const (
	// ReasonLeaseLost: the lease by which the agents agree is gone, or is another one. Nobody becomes primary.
	ReasonLeaseLost Reason = "LeaseLost"
	// ReasonLeaseUnreadable: the record on the lease cannot be understood.
	ReasonLeaseUnreadable Reason = "LeaseUnreadable"
	// ReasonTenureUnreadable: what the volume knows of the lease cannot be read.
	ReasonTenureUnreadable Reason = "TenureUnreadable"
	// ReasonWaitingForLease: the API server does not answer, so that nobody knows who the primary is.
	ReasonWaitingForLease Reason = "WaitingForLease"
	// ReasonBeginning: there is no data yet, or none any more, and an empty copy is being begun.
	ReasonBeginning Reason = "Beginning"
	// ReasonElection: the primary has gone, and the members agree on a new one.
	ReasonElection Reason = "Election"
	// ReasonQuorumMissing: too few members answer for an election that loses nothing.
	ReasonQuorumMissing Reason = "QuorumMissing"
	// ReasonGateClosed: the new primary waits until enough members have everything, before it lets applications in.
	ReasonGateClosed Reason = "GateClosed"
	// ReasonMembership: a member is being added or taken out.
	ReasonMembership Reason = "Membership"
	// ReasonSwitchover: the primary gives its place to another instance.
	ReasonSwitchover Reason = "Switchover"
	// ReasonTimelineWrong: a promotion led to another timeline than the reserved one.
	ReasonTimelineWrong Reason = "TimelineWrong"
	// ReasonCopyNeeded: a replica cannot catch up, and its copy is kept because the quorum needs it.
	ReasonCopyNeeded Reason = "CopyNeeded"
	// ReasonFenced: the instance has answered an election and waits for its outcome.
	ReasonFenced Reason = "Fenced"
	// ReasonRouteMissing: the EndpointSlice of the write address is gone, or names a later term than there is.
	ReasonRouteMissing Reason = "RouteMissing"
	// ReasonServerNotWriting: the server of the primary runs and flushes no WAL, and no other member can take over.
	ReasonServerNotWriting Reason = "ServerNotWriting"
	// ReasonFactsOld: what is known of the server is too old to decide by.
	ReasonFactsOld Reason = "FactsOld"
	// ReasonCutOff: the primary and too many of its replicas do not reach each other.
	ReasonCutOff Reason = "CutOff"
)

// Reasons of an instance that becomes what it was told to be.
const (
	// ReasonWaitingForStanding: the agents have not agreed yet on what this instance shall be.
	ReasonWaitingForStanding Reason = "WaitingForStanding"
	// ReasonCopying: the data of the primary is being copied to this instance, or its own is made to fit.
	ReasonCopying Reason = "Copying"
	// ReasonUpstreamMissing: the primary that this instance shall follow does not answer, or does not send its log.
	ReasonUpstreamMissing Reason = "UpstreamMissing"
	// ReasonWALUnshipped: a copy that is about to be replaced first ships WAL that the repository of backups may lack.
	ReasonWALUnshipped Reason = "WALUnshipped"
	// ReasonRestoring: the first data is being restored from a repository of backups.
	ReasonRestoring Reason = "Restoring"
	// ReasonTargetOutside: the first data is to be restored to a target that the repository does not lead to.
	ReasonTargetOutside Reason = "TargetOutside"
	// ReasonRestoreFailed: the first data is to be restored, and cannot be.
	ReasonRestoreFailed Reason = "RestoreFailed"
	// ReasonPromoting: the instance is about to become the primary.
	ReasonPromoting Reason = "Promoting"
)
