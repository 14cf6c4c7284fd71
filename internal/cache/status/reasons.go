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
	reasonNotStalled     condition.Reason = "NotStalled"
	reasonNothingToDo    condition.Reason = "NothingToDo"
	reasonNothingMissing condition.Reason = "NothingMissing"
	reasonChanging       condition.Reason = "Changing"
	reasonDeleting       condition.Reason = "Deleting"
	reasonAsleep         condition.Reason = "Hibernated"
	reasonPlanRefused    condition.Reason = "PlanRefused"
	reasonWriteFailed    condition.Reason = "WriteFailed"
	reasonWriteRefused   condition.Reason = "WriteRefused"
)

// Reasons is every reason that a condition of a cache can have, with what it means.
var Reasons = condition.MustCatalogue(
	condition.Entry{Reason: reasonAsWished, Means: "everything that the spec asks for is there and well"},
	condition.Entry{Reason: reasonAccepting, Means: "the primary accepts writes"},
	condition.Entry{Reason: reasonNoPrimary, Means: "no instance accepts writes"},
	condition.Entry{Reason: reasonNotStalled, Means: "no human is needed"},
	condition.Entry{Reason: reasonNothingToDo, Means: "no change is under way"},
	condition.Entry{Reason: reasonNothingMissing, Means: "nothing that was promised is missing"},
	condition.Entry{Reason: reasonChanging, Means: "children of the cache are being written"},
	condition.Entry{Reason: reasonDeleting, Means: "the cache is being deleted"},
	condition.Entry{Reason: reasonPlanRefused, Means: "a plan would have broken a rule of safety and was not carried out"},
	condition.Entry{Reason: reasonWriteFailed, Means: "the API server refused a write, which is tried again"},
	condition.Entry{Reason: reasonWriteRefused, Means: "the API server refuses a write for good until something changes"},
	condition.Entry{Reason: "InvalidSpec", Means: "the spec cannot be carried out, and nothing of it is written"},
	condition.Entry{Reason: "Paused", Means: "spec.paused holds changes back"},
	condition.Entry{Reason: "ForeignChild", Means: "the name of a child is taken by an object of another owner"},
	condition.Entry{Reason: "DatabaseMissing", Means: "the database that the cache serves does not exist"},
	condition.Entry{Reason: "AuthorityUnreadable", Means: "the stored certificate authority cannot be read"},
	condition.Entry{Reason: "ClocksDisagree", Means: "certificates are due, and two clocks disagree about the time"},
	condition.Entry{Reason: "AuthorityLost", Means: "the stored certificate authority is gone, and it is trusted"},
	condition.Entry{Reason: "IssuerUnusable", Means: "the authority of your own that the spec names cannot be used"},
	condition.Entry{Reason: "IssuerEnding", Means: "the authority of your own ends soon"},
	condition.Entry{Reason: "RotatingCertificates", Means: "applications are to trust another authority"},
	condition.Entry{Reason: "ChildTerminating", Means: "a child is being deleted and will be made again"},
	condition.Entry{Reason: "MemoryShrinking", Means: "a server has not let go of enough memory yet"},
	condition.Entry{Reason: "ContainerResizing", Means: "the kubelet changes the memory of a container"},
	condition.Entry{Reason: "ResizeDeferred", Means: "the node has no room for a larger container now"},
	condition.Entry{Reason: "ResizeInfeasible", Means: "the node can never have room for a larger container"},
	condition.Entry{Reason: "InstanceStarting", Means: "an instance is not ready yet"},
	condition.Entry{Reason: "InstanceStopping", Means: "the pod of an instance is being deleted"},
	condition.Entry{Reason: "InstanceStuck", Means: "the containers of an instance cannot start"},
	condition.Entry{Reason: "CopiesMissing", Means: "an instance has been away for longer than a restart takes"},
	condition.Entry{Reason: "AgentUnreachable", Means: "the agent of an instance gives no report"},
	condition.Entry{Reason: "SettingsNotInForce", Means: "an instance has not taken over the latest settings yet"},
	condition.Entry{Reason: "LeaseLost", Means: "the lease by which the agents agree is not the one that was made"},
	condition.Entry{Reason: "RecordUnclear", Means: "the record on the lease cannot be read"},
	condition.Entry{Reason: "InstanceLeaving", Means: "an instance that is no longer wanted is being deleted"},
	condition.Entry{Reason: "MemberLeaving", Means: "an instance that is no longer wanted could still become the primary"},
	condition.Entry{Reason: "PrimaryUnclear", Means: "no primary serves, so no instance is taken away"},
	condition.Entry{Reason: "NotOpenYet", Means: "the holder of the lease does not accept writes yet"},
	condition.Entry{Reason: "NotRoutedYet", Means: "the write address does not lead to the primary yet"},
	condition.Entry{Reason: "ReadsNotRoutedYet", Means: "the read address does not lead to the replicas yet"},
	condition.Entry{Reason: "Rolling", Means: "the instances are restarted one after the other"},
	condition.Entry{Reason: "RotatingPassword", Means: "applications get another password, as a user has asked"},
	condition.Entry{Reason: "Flushing", Means: "the cache is being emptied, as a user has asked"},
	condition.Entry{Reason: "FlushWaiting", Means: "the cache is emptied as soon as it has a primary"},
	condition.Entry{Reason: reasonAsleep, Means: "the database hibernates, and the cache with it"},
	condition.Entry{Reason: "RestartPending", Means: "a change takes effect at the next restart of an instance"},
	agentEntry(wire.ReasonMemoryLimited, "the container has no room for the wanted memory yet"),
	agentEntry(wire.ReasonParametersRefused, "the server does not accept the value of a parameter"),
	agentEntry(wire.ReasonPasswordMissing, "the mounted password of the application cannot be used"),
	agentEntry(wire.ReasonSettingsUnreadable, "the mounted settings cannot be understood"),
	agentEntry(wire.ReasonCertificateMissing, "the mounted certificate is not there or cannot be read"),
	agentEntry(wire.ReasonServerFailing, "the server ends again and again"),
	agentEntry(wire.ReasonServerRecovering, "the server does not answer yet"),
	agentEntry(wire.ReasonLeaseUnreadable, "the record on the lease cannot be understood"),
	agentEntry(wire.ReasonTenureUnreadable, "what a pod knows of the lease cannot be read"),
	agentEntry(wire.ReasonWaitingForLease, "the API server does not answer, so that nobody knows who the primary is"),
	agentEntry(wire.ReasonElection, "the primary has gone, and the instances agree on a new one"),
	agentEntry(wire.ReasonQuorumMissing, "too few instances answer for an election"),
	agentEntry(wire.ReasonGateClosed, "the new primary does not let applications in yet"),
	agentEntry(wire.ReasonMembership, "an instance is being added or taken out"),
	agentEntry(wire.ReasonBeginning, "there is no data, or none any more, and an empty copy is being begun"),
	agentEntry(wire.ReasonSwitchover, "the primary gives its place to another instance"),
	agentEntry(wire.ReasonTimelineWrong, "the primary leads under another number than was reserved"),
	agentEntry(wire.ReasonFenced, "the instance has answered an election and waits for its outcome"),
	agentEntry(wire.ReasonWaitingForStanding, "the agents have not agreed yet on what an instance shall be"),
	agentEntry(wire.ReasonCopying, "the data of the primary is being copied to an instance"),
	agentEntry(wire.ReasonUpstreamMissing, "the primary that an instance shall follow does not send its writes"),
	agentEntry(wire.ReasonPromoting, "the instance is about to become the primary"),
	agentEntry(wire.ReasonRouteMissing, "the endpoints of the write address are gone, or were not read yet"),
	agentEntry(wire.ReasonFactsOld, "what the agent knows of its server is too old to act on"),
	agentEntry(wire.ReasonCutOff, "the primary reaches the API server and none of the other instances"),
	agentEntry(wire.ReasonActionFailed, "a step of the agent failed and is tried again"),
)

// agentEntry documents a reason that comes from an agent.
func agentEntry(reason wire.Reason, means string) condition.Entry {
	return condition.Entry{Reason: condition.Reason(reason), Means: means}
}
