package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// LeaseRecordVersion is the version of LeaseRecord that this program writes and reads.
const LeaseRecordVersion = 1

// AnnotationRecord is where the lease of a database keeps its record, written in the same conditional write as holder
// and term. AnnotationTerm is the term of the holder that wrote an EndpointSlice.
const (
	AnnotationRecord = "meridian.dev/record"
	AnnotationTerm   = "meridian.dev/term"
)

// AnnotationSucceeds is on a lease that the operator has made in the place of one that is gone: the UID of that one.
// AnnotationLostBefore is on it too, and on the settings: the UIDs of the leases that were lost before that one, as far
// as the operator knows, the oldest first, separated by commas. AnnotationGivenUp is a user's word on such a lease:
// copies that will never answer, as instance/incarnation, separated by commas.
const (
	AnnotationSucceeds   = "meridian.dev/succeeds"
	AnnotationLostBefore = "meridian.dev/lost-before"
	AnnotationGivenUp    = "meridian.dev/given-up"
)

// leasesRemembered is how many lost leases the operator names. A volume that has missed more of them waits for a user.
const leasesRemembered = 32

// LostBefore are the leases of the lists, each once, without the present one: the last of them, if they are many.
func LostBefore(present string, lists ...[]string) []string {
	var lost []string
	for _, uid := range slices.Concat(lists...) {
		if uid != "" && uid != present && !slices.Contains(lost, uid) {
			lost = append(lost, uid)
		}
	}
	return lost[max(0, len(lost)-leasesRemembered):]
}

// FormatLost writes AnnotationLostBefore.
func FormatLost(lost []string) string { return strings.Join(lost, ",") }

// ParseLost reads what FormatLost wrote.
func ParseLost(text string) []string {
	var lost []string
	for part := range strings.SplitSeq(text, ",") {
		if uid := strings.TrimSpace(part); uid != "" {
			lost = append(lost, uid)
		}
	}
	return lost
}

// ParseMembers reads a list of members that are separated by commas.
func ParseMembers(text string) []Member {
	var members []Member
	for part := range strings.SplitSeq(text, ",") {
		if member := ParseMember(strings.TrimSpace(part)); member.Name != "" && member.Incarnation != "" {
			members = append(members, member)
		}
	}
	return members
}

// AnnotationAcceptCopy is a user's word on the claim of an instance: the copy on its volume was put back on purpose and
// counts as the one that it was. Its value is the UID of that very claim, so that no backup can bring it along.
const AnnotationAcceptCopy = "meridian.dev/accept-copy"

// AnnotationCutOff is on the pod of an instance that does not reach the holder of the lease although that renews it: a
// CutOff.
const AnnotationCutOff = "meridian.dev/cut-off"

// AnnotationVolumeUse is on the pod of an instance: how full its volume is, in percent, in steps of VolumeUseStep from
// VolumeUseFrom on. Below that it is not there; 100 means that the agent calls it full. It is news for the operator,
// which otherwise would have to ask again and again.
const AnnotationVolumeUse = "meridian.dev/volume-use"

// LabelRole and LabelRead are put onto each pod by its own agent: what it is, and whether it takes reads.
const (
	LabelRole = "meridian.dev/role"
	LabelRead = "meridian.dev/read"
)

// AgentLabels are the labels that an agent may write onto its pod: the admission policy refuses all others.
func AgentLabels() []string { return []string{LabelRole, LabelRead} }

// AgentAnnotations are the annotations that an agent may write onto its pod.
func AgentAnnotations() []string { return []string{AnnotationCutOff, AnnotationVolumeUse} }

// Steps of AnnotationVolumeUse, in percent.
const (
	VolumeUseFrom = 50
	VolumeUseStep = 5
)

// CutOff says that a member has not reached the holder for a while, neither its server nor its agent.
type CutOff struct {
	Member Member `json:"member"`
	Holder Member `json:"holder"`
	Term   int64  `json:"term"`
	// LeaseVersion is that of the lease when this was written: it tells how old this is.
	LeaseVersion string `json:"leaseVersion"`
}

// Encode returns the annotation.
func (c CutOff) Encode() string {
	document, err := encode(c)
	if err != nil {
		return ""
	}
	return string(document)
}

// DecodeCutOff reads the annotation. What cannot be read says nothing.
func DecodeCutOff(document string) (cut CutOff, found bool) {
	err := json.Unmarshal([]byte(document), &cut)
	return cut, err == nil && document != ""
}

// Member is one copy of the data: an instance, and the random id that its copy was given when it was made. An instance
// whose volume was replaced is another member.
type Member struct {
	Name        string `json:"name"`
	Incarnation string `json:"incarnation"`
}

// String is the member as the holder of a lease, and as the name of a replica towards its primary.
func (m Member) String() string {
	if m == (Member{}) {
		return ""
	}
	return m.Name + "/" + m.Incarnation
}

// ParseMember reads what String wrote. What is no member is a member without an incarnation, which equals no real one.
func ParseMember(text string) Member {
	name, incarnation, _ := strings.Cut(text, "/")
	return Member{Name: name, Incarnation: incarnation}
}

// LeaseRecord is what the members of a database have agreed on. It is an annotation of the lease.
type LeaseRecord struct {
	Version     int    `json:"version"`
	DatabaseUID string `json:"databaseUID"`
	// Term counts the primaries. It is the same number as the lease's transitions.
	Term int64 `json:"term"`
	// Timeline is the highest that was ever given out (T1).
	Timeline int `json:"timeline"`
	// Members are the copies that acknowledged writes are counted on, the holder's included, sorted.
	Members []Member `json:"members"`
	// W is how many of them have each acknowledged write.
	W int `json:"w"`
	// Initialised says that there has been data, and SystemIdentifier which.
	Initialised      bool   `json:"initialised"`
	SystemIdentifier string `json:"systemIdentifier,omitempty"`
	// Switchover is the request that the holder is carrying out.
	Switchover *Switchover `json:"switchover,omitempty"`
	// Revision grows with each change of the record within a term: a lease that shows a lower one has gone back.
	Revision int64 `json:"revision,omitempty"`
	// Succeeds are the UIDs of the leases that were lost before this one, the oldest first.
	Succeeds []string `json:"succeeds,omitempty"`
	// Emptied is when a user last had the data emptied, nil if never. Only a cache has it.
	Emptied *Emptied `json:"emptied,omitempty"`
}

// Emptied is a request to empty a cache that was carried out, and where the writes were right after it. A copy that has
// not come as far has values from before.
type Emptied struct {
	// ID tells one request from the next.
	ID       string `json:"id"`
	Timeline int    `json:"timeline"`
	Offset   uint64 `json:"offset"`
}

// Switchover asks for another primary.
type Switchover struct {
	// ID tells one request from the next.
	ID string `json:"id"`
	// Target is an instance, empty for whichever fits best.
	Target string `json:"target,omitempty"`
}

// Has says whether it is a member.
func (r LeaseRecord) Has(member Member) bool { return slices.Contains(r.Members, member) }

// Canonical returns the record in the one form that is encoded.
func (r LeaseRecord) Canonical() LeaseRecord {
	r.Version = LeaseRecordVersion
	r.Members = slices.Clone(r.Members)
	slices.SortFunc(r.Members, func(a, b Member) int { return strings.Compare(a.String(), b.String()) })
	return r
}

// Encode returns the JSON of a record that Check accepts.
func (r LeaseRecord) Encode() (string, error) {
	canonical := r.Canonical()
	if err := canonical.Check(); err != nil {
		return "", fmt.Errorf("encode the record of the lease: %w", err)
	}
	document, err := encode(canonical)
	return string(document), err
}

// DecodeLeaseRecord reads a record. It refuses what this program would not fully understand.
func DecodeLeaseRecord(document string) (LeaseRecord, error) {
	var record LeaseRecord
	if err := decode([]byte(document), LeaseRecordVersion, &record); err != nil {
		return LeaseRecord{}, fmt.Errorf("decode the record of the lease: %w", err)
	}
	if err := record.Check(); err != nil {
		return LeaseRecord{}, fmt.Errorf("decode the record of the lease: %w", err)
	}
	return record.Canonical(), nil
}

// Check finds what no holder would write.
func (r LeaseRecord) Check() error {
	switch {
	case r.DatabaseUID == "":
		return errors.New("databaseUID: is empty")
	case r.Term < 1:
		return fmt.Errorf("term: %d is none", r.Term)
	case r.Timeline < 1:
		return fmt.Errorf("timeline: %d is none", r.Timeline)
	case len(r.Members) == 0:
		return errors.New("members: there are none")
	case r.W < 1 || r.W > len(r.Members):
		return fmt.Errorf("w: %d copies of %d", r.W, len(r.Members))
	case r.Emptied != nil && (r.Emptied.ID == "" || r.Emptied.Timeline < 1 || r.Emptied.Timeline > r.Timeline):
		return fmt.Errorf("emptied: %+v has no id, or a timeline that there was not", *r.Emptied)
	case r.Initialised != (r.SystemIdentifier != ""):
		return errors.New("systemIdentifier: must be there exactly when there has been data")
	}
	for index, member := range r.Members {
		if member.Name == "" || member.Incarnation == "" {
			return fmt.Errorf("members[%d]: lacks its name or incarnation", index)
		}
		if slices.Contains(r.Members[:index], member) {
			return fmt.Errorf("members[%d]: %s is there twice", index, member)
		}
	}
	return nil
}
