package v1alpha1

// The conditions of every resource. Each carries the generation of the spec that it was judged on.
const (
	// ConditionReady is True when everything that the spec asks for is there and well.
	ConditionReady = "Ready"
	// ConditionServing is True while applications can use the resource now: a database accepts writes, a cache
	// answers. It can be True while Ready is False, and that is the difference to look at first in an outage.
	ConditionServing = "Serving"
	// ConditionProgressing is True while a change is being carried out. kstatus reads Reconciling in the same way.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True while the resource works with less than it was promised, such as a missing replica.
	ConditionDegraded = "Degraded"
	// ConditionFilling is there, and True, while a volume of a database fills. It warns: nothing is missing yet, and Ready
	// does not depend on it.
	ConditionFilling = "Filling"
	// ConditionRecoverable is there with spec.backup, and True while the database can be restored to a moment that is
	// seconds ago. Serving never depends on it.
	ConditionRecoverable = "Recoverable"
	// ConditionStalled is True when only a human can help. Its reason has a page of its own in the runbook.
	ConditionStalled = "Stalled"
)
