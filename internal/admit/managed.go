package admit

import "slices"

// trap is a value that the server takes, and that hurts later.
type trap struct {
	name   string
	values []string // the harmful ones, in lower case; with allow, the only harmless ones
	allow  bool
	why    string
}

var traps = []trap{
	{
		name: "synchronous_commit", values: []string{"on", "remote_apply"}, allow: true,
		why: "as a default for all sessions it must be on or remote_apply, or an acknowledged write is worth less than " +
			"spec.durability says; use spec.durability, or set it in the session that can bear the loss",
	},
	{
		name: "password_encryption", values: []string{"scram-sha-256"}, allow: true,
		why: "must be scram-sha-256, because the server lets nobody in with a weaker password",
	},
	{
		name: "huge_pages", values: []string{"on"},
		why: "on keeps the server from starting on a node without huge pages; use try",
	},
	{
		name: "log_min_messages", values: []string{"fatal", "panic"},
		why: "hides by which words the server says that it has started, or that WAL which a replica needs is gone, so the " +
			"replica would never be repaired; use log, or a lower level",
	},
}

func (t trap) catches(value string) bool { return slices.Contains(t.values, value) != t.allow }
