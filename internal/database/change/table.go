// Package change says, before anything is done, what a change of a spec does: the table has every field, and Preview
// lists the steps, pod by pod. It is pure, and whoever wants to show a change to a user may call it.
//
// The table is what the documentation is generated from; the plan does not read it. A test finds a field that it lacks;
// that its classes are those of the plan is for the reader to see.
//
// Start reading at Table, then Preview.
package change

// Class is what a change of a field costs.
type Class string

// The classes, from the cheapest on.
const (
	// Live changes are done at once: nothing restarts, and no session notices.
	Live Class = "live"
	// Reload changes are taken over by the running servers.
	Reload Class = "reload"
	// Restart changes start the servers anew in their pods, one at a time: replicas first, then the primary moves, and
	// the old one is the last.
	Restart Class = "rolling restart"
	// Replace changes make the pods anew, in the same order.
	Replace Class = "rolling replacement"
	// Stop changes stop all instances, or start them again.
	Stop Class = "stop and start"
	// Refused changes are not taken.
	Refused Class = "refused"
)

// Classes are all of them, with what they mean for an application.
func Classes() map[Class]string {
	return map[Class]string{
		Live:    "done at once; nothing restarts, and no session notices",
		Reload:  "taken over by the running servers within seconds; nothing restarts",
		Restart: "servers restart in their pods: replicas one by one, then the primary moves once, the old one last",
		Replace: "pods are replaced: replicas one by one, then the primary moves once, the old one last",
		Stop:    "all instances stop, replicas first, or start again",
		Refused: "not taken; the message says what to do instead",
	}
}

// Field is one row of the table.
type Field struct {
	// Path is such as spec.storage.size.
	Path string
	// Classes are those that a change may have, the usual one first.
	Classes []Class
	// Does says what is done, in one sentence.
	Does string
}

// Table has every field of a spec. A test demands that none is missing.
var Table = []Field{
	{
		"spec.instances", []Class{Live},
		"Replicas are added, each cloned from a running instance, or removed one by one, never the " +
			"primary.",
	},
	{"spec.version", []Class{Refused}, "A major upgrade is not there yet."},
	{
		"spec.image", []Class{Replace},
		"The new image is tried on one replica first; extensions are updated afterwards.",
	},
	{
		"spec.storage.size", []Class{Live, Refused},
		"Volumes grow while they are used, before anything else is done. Shrinking is refused, and so " +
			"is growing in a class that cannot expand.",
	},
	{
		"spec.storage.autoGrow.limit", []Class{Live},
		"Volumes that fill grow by themselves up to it, all instances alike.",
	},
	{"spec.storage.autoGrow.atPercent", []Class{Live}, "It counts at the next look."},
	{
		"spec.storage.walSize", []Class{Live, Refused},
		"WAL volumes grow while they are used. Adding or removing them later is refused, and so are shrinking, and " +
			"growing in a class that cannot expand.",
	},
	{"spec.storage.class", []Class{Refused}, "A volume stays in its class."},
	{"spec.storage.accessMode", []Class{Live}, "It counts for claims that are made from then on."},
	{"spec.storage.reclaim", []Class{Live}, "It counts when an instance or the database is removed the next time."},
	{
		"spec.storage.adopt", []Class{Live},
		"A database without data takes over the volumes that an earlier one of its name has left. Once it has " +
			"them, the field does nothing.",
	},
	{
		"spec.resources.cpu", []Class{Live, Replace},
		"The running containers get it in place. Where a node can never give it, the pod is replaced " +
			"elsewhere.",
	},
	{
		"spec.resources.memory", []Class{Restart, Replace},
		"The running containers get it in place; servers restart because their buffers are sized " +
			"by it. Memory is taken away after that, and given before.",
	},
	{"spec.bootstrap.database", []Class{Refused}, "It is made once."},
	{"spec.bootstrap.owner", []Class{Refused}, "It is made once."},
	{"spec.bootstrap.restore", []Class{Refused}, "It is how a database begins."},
	{"spec.bootstrap.clone.name", []Class{Refused}, "It is how a database begins."},
	{"spec.extensions", []Class{Live}, "What is added is created; what is removed is left to the user."},
	{
		"spec.parameters", []Class{Reload, Restart, Refused},
		"By the context of each parameter: most are reloaded, some need a start of the server. Those " +
			"that Meridian manages are refused.",
	},
	{"spec.profile", []Class{Restart, Reload}, "It is a change of the parameters that it sets."},
	{"spec.durability", []Class{Live}, "The agents change the quorum, in the order that loses nothing."},
	{"spec.leaseDuration", []Class{Live}, "It counts from the next renewal on; a shorter one comes in steps."},
	{"spec.maxReadLag", []Class{Live}, "Replicas are taken out of the read address, or back in."},
	{"spec.maxFailoverLag", []Class{Live}, "It counts at the next election."},
	{"spec.podTemplate.metadata.labels", []Class{Live}, "The running pods get them in place."},
	{"spec.podTemplate.metadata.annotations", []Class{Live}, "The running pods get them in place."},
	{
		"spec.podTemplate.spec", []Class{Replace, Refused},
		"The API server is asked about such a pod first; then it is tried on one replica.",
	},
	{"spec.network.policy", []Class{Live}, "The network policy is made or removed."},
	{"spec.network.clients", []Class{Live}, "The network policy is changed."},
	{"spec.network.egress", []Class{Live}, "The network policy is changed."},
	{
		"spec.maintenance.window", []Class{Live},
		"It counts for what waits for a restart: nothing restarts before it opens.",
	},
	{"spec.maintenance.timeZone", []Class{Live}, "It moves the window."},
	{"spec.paused", []Class{Live}, "Changes wait from now on, or are carried out."},
	{"spec.hibernated", []Class{Stop}, "Replicas stop first, the primary last; all start at once."},
	{
		"spec.restart", []Class{Replace},
		"Every pod is replaced; what waits for a restart is taken along. Removing it does nothing.",
	},
	{
		"spec.switchover", []Class{Live},
		"The primary hands over to a replica that is caught up, as for a request by annotation. Removing it does nothing.",
	},
	{
		"spec.rotate.password", []Class{Live},
		"The other of two logins gets a new password; the Secret names it once every instance knows it. Removing it " +
			"does nothing.",
	},
	{
		"spec.rotate.certificates", []Class{Live},
		"A new authority is trusted, signs, and takes the place of the old one, step by step; servers reload. Removing " +
			"it does nothing.",
	},
	{
		"spec.certificates.issuer.secret.name", []Class{Live},
		"The issuer signs our authority, and applications are told of its root; servers reload. Another issuer, or none, " +
			"takes its place in steps with spec.rotate.overlap between them.",
	},
	{"spec.rotate.overlap", []Class{Live}, "The steps of a rotation follow each other at this distance."},
	{
		"spec.backup.repository", []Class{Live, Replace},
		"The log goes there from now on, and a base backup begins. A claim is mounted, so adding or removing one makes " +
			"the pods anew.",
	},
	{"spec.backup.schedule", []Class{Live}, "It says when the next base backup is made."},
	{"spec.backup.timeZone", []Class{Live}, "It moves the schedules."},
	{"spec.backup.retention.window", []Class{Live}, "What is not needed any more is deleted within the hour."},
	{"spec.backup.retention.atLeast", []Class{Live}, "What is not needed any more is deleted within the hour."},
	{"spec.backup.maxRate", []Class{Live}, "It counts from the next base backup on."},
	{"spec.backup.verify", []Class{Live}, "It says when the next restore on trial is made."},
	{"spec.backup.now", []Class{Live}, "A base backup begins. Removing it does nothing."},
	{"spec.backup.verifyNow", []Class{Live}, "A restore on trial begins. Removing it does nothing."},
}
