package render

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// UpstreamFile says whom the server follows. It is apart from the other files because it is written under the same lock
// as a fence, and by nothing else.
const UpstreamFile = "meridian.upstream.conf"

// Nobody is whom a server waits for that does not lead. It has no effect there; and should such a server ever come to
// accept writes, it acknowledges none.
const Nobody = "meridian-nobody"

// StandbyNames is the value of synchronous_standby_names of a primary on a timeline. A member counts by the name that
// tells this timeline, or by the one of before, which told none: replicas of the version before have no other.
func StandbyNames(quorum *tenure.Setting, timeline int) string {
	if quorum == nil {
		return `ANY 1 ("` + Nobody + `")`
	}
	if quorum.K == 0 || len(quorum.Names) == 0 {
		return ""
	}
	var names []string
	for _, member := range quorum.Names {
		names = append(names, quoted(member.String()), quoted(MemberName(member, timeline)))
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return fmt.Sprintf("ANY %d (%s)", quorum.K, strings.Join(names, ", "))
}

// Follow is whom to take the log from, and as whom.
type Follow struct {
	// Self is the name towards the other.
	Self wire.Member
	// Slot is the place that is kept there, empty if none is. Whoever has none does not count (B2).
	Slot string
	// Timeline is the one that the copy was judged for, 0 if the other counts by names that tell none.
	Timeline int
	// Host is the name in its certificate, Address where it is, empty to look the name up.
	Host, Address string
	Port          uint16
	Runtime       string
	// Key is the name that the key is lent under.
	Key string
}

// name is what the other counts by. PostgreSQL counts senders and not names, so a copy that connects a second time
// before the first connection was seen to be dead would count twice. A place has one user at a time: only who has one
// goes by the name of a member (B2).
func (f Follow) name() string {
	if f.Slot == "" {
		return f.Self.Name + joins + f.Self.Incarnation
	}
	return MemberName(f.Self, f.Timeline)
}

// at comes before the timeline in the name of a member. No other part has it.
const at = "@"

// longest is what PostgreSQL keeps of a name.
const longest = 63

// MemberName is what a member goes by towards the primary of a timeline that it was judged for (B3): the primary of a
// later one, which may be the same server, does not count it. A name that would be cut tells no timeline.
func MemberName(member wire.Member, timeline int) string {
	if bound := fmt.Sprint(member, at, timeline); timeline > 0 && len(bound) <= longest {
		return bound
	}
	return member.String()
}

// joins takes the place of the stroke in the name of a member, so that it gets no longer. No name has it.
const joins = "+"

// Streamer is who goes by that name, whether only as one that wants to become a member, and for which timeline, 0 if
// the name tells none.
func Streamer(name string) (member wire.Member, joining bool, timeline int) {
	if before, after, found := strings.Cut(name, joins); found {
		return wire.Member{Name: before, Incarnation: after}, true, 0
	}
	before, after, _ := strings.Cut(name, at)
	if timeline, err := strconv.Atoi(after); err == nil {
		return wire.ParseMember(before), false, timeline
	}
	return wire.ParseMember(name), false, 0
}

// Alone is the text of the upstream file of a server that follows nobody.
func Alone() string {
	return Header + line("primary_conninfo", "") + line("primary_slot_name", "")
}

// Upstream is the text of the upstream file.
func Upstream(follow Follow) string {
	conninfo := []string{
		"user=" + RoleReplication, fmt.Sprintf("port=%d", follow.Port), "host=" + follow.Host,
		"application_name=" + follow.name(), "passfile=/nonexistent",
		"connect_timeout=3", "keepalives_idle=5", "keepalives_interval=2", "keepalives_count=3", "tcp_user_timeout=5000",
	}
	if follow.Address != "" {
		conninfo = append(conninfo, "hostaddr="+follow.Address)
	}
	conninfo = append(conninfo, TLS(path.Join(follow.Runtime, follow.Key))...)
	return Header + line("primary_conninfo", strings.Join(conninfo, " ")) + line("primary_slot_name", follow.Slot)
}

// TLS is how a client of PostgreSQL proves itself with the files of a folder, and demands proof.
func TLS(folder string) []string {
	return []string{
		"sslmode=verify-full", "sslcert=" + path.Join(folder, wire.KeyCertificate),
		"sslkey=" + path.Join(folder, wire.KeyPrivateKey), "sslrootcert=" + path.Join(folder, wire.KeyAuthority),
		"gssencmode=disable",
	}
}

// KeyName is the name that a key is lent under, another one for each term, upstream and certificate: a receiver that
// was begun for an earlier one finds nothing.
func KeyName(standing tenure.Standing, certificate string) string {
	text := fmt.Sprintf("%d %s %s %s", standing.Term, standing.Role, standing.Upstream, certificate)
	sum := sha256.Sum256([]byte(text))
	return KeyPrefix + hex.EncodeToString(sum[:6])
}

// KeyPrefix begins the name of each.
const KeyPrefix = "upstream-"

// slotPrefix begins the names of our slots.
const slotPrefix = "meridian_"

// Slot is the name of the place that is kept for a member: letters, digits and underscores.
func Slot(member wire.Member) string {
	incarnation := clean(member.Incarnation)
	sum := sha256.Sum256([]byte(member.String()))
	return slotStem(member.Name) + incarnation[:min(len(incarnation), 24)] + "_" + hex.EncodeToString(sum[:4])
}

// slotStem is how the names of all slots of an instance begin.
func slotStem(instance string) string {
	name := clean(instance)
	return slotPrefix + name[:min(len(name), 16)] + "_"
}

func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(text))
}

// SlotOf says whether a slot may be one of an instance, of whichever incarnation: long names look alike.
func SlotOf(name, instance string) bool {
	return strings.HasPrefix(name, slotStem(instance))
}

// RepositorySlot keeps the WAL that the repository of backups does not have yet (K4). No slot of an instance is called
// so: all of those have another underscore.
const RepositorySlot = slotPrefix + "repository"

// OurSlot says whether a slot is one of these.
func OurSlot(name string) bool { return strings.HasPrefix(name, slotPrefix) }

// Host is the name by which an instance of a database is found and known.
func Host(database, instance string) string { return instance + "-0." + database + "-pods" }
