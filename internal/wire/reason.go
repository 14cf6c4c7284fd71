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
	// ReasonExtensionMissing: the image does not have an extension that is wanted.
	ReasonExtensionMissing Reason = "ExtensionMissing"
	// ReasonApplicationUnknown: the application's database cannot be looked into.
	ReasonApplicationUnknown Reason = "ApplicationUnknown"
	// ReasonWaitingForRecord: the operator has not yet stored whose data this is, and no application is let in before.
	ReasonWaitingForRecord Reason = "WaitingForRecord"
	// ReasonVolumeUnwritable: new settings cannot be written, such as on a full volume; those on it stay in force.
	ReasonVolumeUnwritable Reason = "VolumeUnwritable"
	// ReasonActionFailed: a step failed and will be tried again; the message has the error.
	ReasonActionFailed Reason = "ActionFailed"
	// ReasonPlanRefused: a plan would have broken an invariant and was not carried out.
	ReasonPlanRefused Reason = "PlanRefused"
)
