package server

// Inner functions for the tests of this package.
var (
	MajorOf  = majorOf
	Durable  = writeDurably
	InitArgs = initdbArguments
	Gone     = gone
	FlushAll = flushAll
	TooEarly = withoutCheckpoint
)

// Progress is what is read of the lines of a copy: how far it has come, and what went wrong.
func Progress(lines ...string) (done, total int64, text string) {
	said := progressLines{told: func(d, t int64) { done, total = d, t }}
	for _, line := range lines {
		said.add([]byte(line))
	}
	return done, total, said.text()
}

// Consistent returns how much of the log a server must replay before it lets anybody in.
func Consistent(output []byte) (uint64, error) {
	read, err := parseControl(output)
	return read.consistent, err
}

// ParseControl returns identifier, timeline and state.
func ParseControl(output []byte) (identifier string, timeline int, state string, err error) {
	read, err := parseControl(output)
	return read.systemIdentifier, read.timeline, read.state, err
}

// Receives and Enters say whether a title is that of a receiver, or of a session that is about to be let in.
func Receives(title string) bool { return receiverTitle.MatchString(title) }

// Enters is as Receives.
func Enters(title string) bool { return enteringTitle.MatchString(title) }

var kindNames = map[kind]string{
	kindOther: "other", kindUntitled: "untitled", kindReceiver: "receiver", kindEntering: "entering",
}

// Kinds tells what each child of a process is, by its number.
func Kinds(parent int) (map[int]string, error) {
	family, err := familyOf(parent)
	kinds := map[int]string{}
	for child, is := range family.children {
		kinds[child.pid] = kindNames[is]
	}
	return kinds, err
}

// Remaining are those that are left after these looks, with whether they are proven to be what is looked for.
func Remaining(unwanted string, looks ...map[int]string) map[int]bool {
	var suspects map[child]bool
	kinds := map[string]kind{}
	for is, name := range kindNames {
		kinds[name] = is
	}
	for _, look := range looks {
		found := family{children: map[child]kind{}}
		for pid, name := range look {
			found.children[child{pid: pid}] = kinds[name]
		}
		suspects = found.remaining(suspects, kinds[unwanted])
	}
	left := map[int]bool{}
	for child, proven := range suspects {
		left[child.pid] = proven
	}
	return left
}
