package lives

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/act"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/sim/search"
	"meridian.dev/meridian/test/sim/kube"
)

// What an agent knows is kept on its own pod, so that the model needs no memory.
const (
	// taken is the hash of the settings that it has, wants what of them takes a start of the server.
	taken = "example.com/settings"
	wants = "example.com/wants"
	// runsWith is the same of the server that runs, started the token that it was started for last.
	runsWith = "example.com/runs-with"
	token    = "example.com/token"
	started  = "example.com/started"
	// mounted is the version of the certificate that it has, rotated the number of its latest credentials, toldOf what it
	// was told of when it got them.
	mounted = "example.com/certificate"
	rotated = "example.com/rotation"
	toldOf  = "example.com/told-of"
)

// starters are parameters that only a start puts in force.
var starters = []string{"max_connections", "shared_buffers"}

// folk are the agents of the database, or of the cache.
type folk struct {
	of client.ObjectKey
	// These are the names of what they share.
	leaseName, sliceName, settingsName string

	read func(context.Context, client.Reader) wire.Settings
	// volatile means that a copy is gone with its pod.
	volatile bool
}

var (
	citizens = folk{
		of: Cities, leaseName: database.LeaseName(Cities.Name), sliceName: database.WriteName(Cities.Name),
		settingsName: database.SettingsName(Cities.Name), read: settingsOf,
	}
	tilers = folk{
		of: Tiles, leaseName: cache.LeaseName(Tiles.Name), sliceName: cache.WriteName(Tiles.Name),
		settingsName: cache.SettingsName(Tiles.Name), read: tilersSettings, volatile: true,
	}
)

// databaseAgents are what the agents of the database do together.
func databaseAgents() search.Actor {
	return search.Actor{Name: "agents", Step: kube.FirstOf(citizens.agree, restartServer, readSecrets)}
}

func instanceOf(pod *corev1.Pod) string { return strings.TrimSuffix(pod.Name, "-0") }

// startersOf are the values that only a start puts in force, one on each line.
func startersOf(settings wire.Settings) string {
	var lines []string
	for _, parameter := range settings.Parameters {
		if slices.Contains(starters, parameter.Name) {
			lines = append(lines, parameter.Name+"="+parameter.Value)
		}
	}
	return strings.Join(lines, "\n")
}

// pendingOf are the parameters that wait for a start.
func pendingOf(pod *corev1.Pod) []string {
	running := strings.Split(pod.Annotations[runsWith], "\n")
	var pending []string
	for line := range strings.SplitSeq(pod.Annotations[wants], "\n") {
		if name, _, _ := strings.Cut(line, "="); name != "" && !slices.Contains(running, line) {
			pending = append(pending, name)
		}
	}
	return pending
}

// restartServer starts a server anew that was asked to. A primary hands over first, if anybody can take over; that is
// the council's part.
func restartServer(v *kube.View) (bool, error) {
	for i := range v.Pods.Items {
		pod := &v.Pods.Items[i]
		if !kube.Ready(pod) || pod.DeletionTimestamp != nil || pod.Annotations[token] == pod.Annotations[started] {
			continue
		}
		pod.Annotations[runsWith], pod.Annotations[started] = pod.Annotations[wants], pod.Annotations[token]
		return true, v.Update(v, pod)
	}
	return false, nil
}

// yields says that the primary was asked to start its server anew, and hands over for it.
func (c *council) yields(holder wire.Member) bool {
	pod := c.Pod(database.PodName(holder.Name))
	return pod != nil && pod.Annotations[token] != pod.Annotations[started]
}

// settingsOf are those that are stored, empty before there are any.
func settingsOf(ctx context.Context, reader client.Reader) wire.Settings {
	var stored corev1.ConfigMap
	if found, err := kube.Get(ctx, reader, database.SettingsName(Cities.Name), &stored); !found || err != nil {
		return wire.Settings{}
	}
	settings, err := wire.DecodeSettings([]byte(stored.Data[wire.KeySettings]))
	if err != nil {
		return wire.Settings{}
	}
	return settings
}

// council is what the agents know when they decide.
type council struct {
	*kube.View
	folk
	settings wire.Settings
	lease    coordinationv1.Lease
	record   wire.LeaseRecord
	slice    discoveryv1.EndpointSlice
}

// recordOf reads what the agents have agreed on; the record is empty before there is one.
func recordOf(lease *coordinationv1.Lease) (wire.LeaseRecord, error) {
	text, found := lease.Annotations[wire.AnnotationRecord]
	if !found {
		return wire.LeaseRecord{}, nil
	}
	return wire.DecodeLeaseRecord(text)
}

func holderOf(lease *coordinationv1.Lease) wire.Member {
	if lease.Spec.HolderIdentity == nil {
		return wire.Member{}
	}
	return wire.ParseMember(*lease.Spec.HolderIdentity)
}

// agree takes one step of the agents: they make a primary, move it when it cannot lead or is asked to hand over, let
// those go that are no longer wanted, take in those that are, and route to the primary.
func (f folk) agree(v *kube.View) (bool, error) {
	c := council{View: v, folk: f, settings: f.read(v, v)}
	found, err := kube.Get(v, v, f.leaseName, &c.lease)
	if !found || err != nil {
		return false, err
	}
	if string(c.lease.UID) != c.settings.LeaseUID {
		return c.succeed()
	}
	if found, err = kube.Get(v, v, f.sliceName, &c.slice); !found || err != nil {
		return false, err
	}
	if c.record, err = recordOf(&c.lease); err != nil {
		return false, err
	}
	next, holder, changed := c.next()
	if changed {
		return true, c.write(next, holder)
	}
	return c.route()
}

// succeed writes what the agents remember into a lease that was made in the place of a lost one. Their primary goes on.
func (c *council) succeed() (bool, error) {
	if c.settings.LeaseUID == "" {
		return false, nil // There are no settings by which anybody could take it over.
	}
	var kept corev1.ConfigMap
	err := c.Get(c, memoryKey, &kept)
	if err != nil || c.lease.Annotations[wire.AnnotationSucceeds] != c.settings.LeaseUID ||
		c.lease.Annotations[wire.AnnotationRecord] != "" {
		return false, client.IgnoreNotFound(err)
	}
	record, err := wire.DecodeLeaseRecord(kept.Data["record"])
	if err != nil {
		return false, err
	}
	holder := wire.ParseMember(kept.Data["holder"])
	if now, lives := c.alive(holder.Name); !c.volatile && (!lives || now != holder) &&
		slices.ContainsFunc(record.Members, func(member wire.Member) bool {
			now, lives := c.alive(member.Name)
			return !lives || now != member
		}) {
		return false, nil // Without a primary every copy has to answer.
	}
	record.Term, record.Succeeds = record.Term+1, append(record.Succeeds, c.settings.LeaseUID)
	return true, c.write(record, holder)
}

// memoryKey is where the agents keep what they know without a lease. Real ones have it on their volumes.
var memoryKey = client.ObjectKey{Namespace: home, Name: "agents"}

func (c *council) memorize(record string, holder wire.Member) error {
	var kept corev1.ConfigMap
	err := c.Get(c, memoryKey, &kept)
	kept.Namespace, kept.Name = memoryKey.Namespace, memoryKey.Name
	kept.Data = map[string]string{"record": record, "holder": holder.String()}
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err != nil {
		return c.Create(c, &kept)
	}
	return c.Update(c, &kept)
}

// alive is the copy of an instance whose agent works, if there is one. Another volume is another copy.
func (c *council) alive(name string) (wire.Member, bool) {
	pod, claim := c.Pod(database.PodName(name)), c.Claim(name)
	if pod == nil || !kube.Ready(pod) || pod.DeletionTimestamp != nil || pod.Annotations[taken] == "" {
		return wire.Member{}, false
	}
	if c.volatile {
		return wire.Member{Name: name, Incarnation: string(pod.UID)}, true
	}
	if claim == nil {
		return wire.Member{}, false
	}
	return wire.Member{Name: name, Incarnation: copyOf(claim, c.Claim(database.LogClaimName(name)))}, true
}

// next is what the agents agree on next, and who leads then.
func (c *council) next() (wire.LeaseRecord, wire.Member, bool) {
	record, holder := c.record, holderOf(&c.lease)
	record.Members = slices.Clone(record.Members)
	if record.Term == 0 || c.volatile && !c.anyoneHasACopy(record) {
		return c.begin(record.Term + 1)
	}
	if next, ok := c.successor(record, holder); ok {
		record.Term, record.Timeline, record.Switchover = record.Term+1, record.Timeline+1, nil
		return record, next, true
	}
	if now, leads := c.alive(holder.Name); !leads || now != holder {
		return record, holder, false
	}
	for i, member := range record.Members {
		now, alive := c.alive(member.Name)
		lost := c.volatile && alive && now != member
		if member != holder && (lost || !slices.Contains(c.settings.Instances, member.Name)) {
			record.Members = slices.Delete(record.Members, i, i+1)
			record.W = min(record.W, len(record.Members))
			return record, holder, true
		}
	}
	for _, name := range c.settings.Instances {
		if member, ok := c.alive(name); ok && !record.Has(member) {
			record.Members = append(record.Members, member)
			if !c.volatile {
				record.W = min(len(record.Members), 2)
			}
			return record, holder, true
		}
	}
	return record, holder, false
}

func (c *council) anyoneHasACopy(record wire.LeaseRecord) bool {
	return slices.ContainsFunc(record.Members, func(member wire.Member) bool {
		pod := c.Pod(database.PodName(member.Name))
		return pod != nil && string(pod.UID) == member.Incarnation
	})
}

// begin makes the first primary.
func (c *council) begin(term int64) (wire.LeaseRecord, wire.Member, bool) {
	for _, name := range c.settings.Instances {
		if member, ok := c.alive(name); ok {
			return wire.LeaseRecord{
				DatabaseUID: c.settings.DatabaseUID, Term: term, Timeline: int(term), Initialised: true, SystemIdentifier: "7001",
				Members: []wire.Member{member}, W: 1,
			}, member, true
		}
	}
	return wire.LeaseRecord{}, wire.Member{}, false
}

// successor is the next primary, if there has to be one and enough members are left to elect it.
func (c *council) successor(record wire.LeaseRecord, holder wire.Member) (wire.Member, bool) {
	now, leads := c.alive(holder.Name)
	asked := record.Switchover
	if leads && now == holder && asked == nil && !c.yields(holder) {
		return wire.Member{}, false
	}
	var able []wire.Member
	for _, member := range record.Members {
		if copied, ok := c.alive(member.Name); ok && copied == member {
			able = append(able, member)
		}
	}
	if needed := len(record.Members) - record.W + 1; len(able) < needed && !c.volatile {
		return wire.Member{}, false
	}
	for _, member := range able {
		named := asked != nil && asked.Target != "" && asked.Target != database.AnyInstance
		if member != holder && (!named || member.Name == asked.Target) {
			return member, true
		}
	}
	return wire.Member{}, false
}

func (c *council) write(record wire.LeaseRecord, holder wire.Member) error {
	text, err := record.Encode()
	if err != nil {
		return err
	}
	name, term := holder.String(), int32(record.Term)
	c.lease.Spec.HolderIdentity, c.lease.Spec.LeaseTransitions = &name, &term
	if c.lease.Annotations == nil {
		c.lease.Annotations = map[string]string{}
	}
	c.lease.Annotations[wire.AnnotationRecord] = text
	if err := c.Update(c, &c.lease); err != nil {
		return err
	}
	return c.memorize(text, holder)
}

// route leads the write address to the primary, and says on the pods who is what.
func (c *council) route() (bool, error) {
	holder, term := holderOf(&c.lease), strconv.FormatInt(c.record.Term, 10)
	pod := c.Pod(database.PodName(holder.Name))
	if _, leads := c.alive(holder.Name); !leads {
		return false, nil
	}
	routed := len(c.slice.Endpoints) == 1 && c.slice.Endpoints[0].Addresses[0] == pod.Status.PodIP
	if !routed || c.slice.Annotations[wire.AnnotationTerm] != term {
		if c.slice.Annotations == nil {
			c.slice.Annotations = map[string]string{}
		}
		c.slice.Annotations[wire.AnnotationTerm] = term
		c.slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{pod.Status.PodIP}}}
		return true, c.Update(c, &c.slice)
	}
	for _, member := range c.record.Members {
		role := string(wire.RoleReplica)
		if member == holder {
			role = string(wire.RolePrimary)
		}
		pod := c.Pod(database.PodName(member.Name))
		if pod != nil && kube.Ready(pod) && pod.Labels[database.LabelRole] != role {
			pod.Labels[database.LabelRole] = role
			return true, c.Update(c, pod)
		}
	}
	return false, nil
}

// agents are the agents as the operator calls them.
type agents struct {
	cluster client.Client
	now     func() time.Time
	// obeys is a flaw: the agent of a cache says that what is wanted is done already.
	obeys bool
	// eager is a flaw: every login is said to work already.
	eager bool
	// rosy is a flaw: whoever answers is said to stream and to serve, and whoever does not, too.
	rosy bool
	// content is a flaw: no parameter is said to wait for a start.
	content bool
	// percents is a flaw: how full a volume was is told together with how large it is by now.
	percents bool
}

// at finds the pod that has an address and answers.
func (a agents) at(ctx context.Context, address string) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := a.cluster.List(ctx, &pods, client.InNamespace(space)); err != nil {
		return nil, err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.PodIP != address || !kube.Ready(pod) {
			continue
		}
		return pod, nil
	}
	return nil, errors.New("no answer")
}

// ask answers for the agent of an instance.
func (a agents) ask(ctx context.Context, agent service.Agent) (wire.Report, error) {
	if name, made := strings.CutPrefix(agent.Address, nowhere); made {
		settings := settingsOf(ctx, a.cluster)
		return wire.Report{
			Version: 1, DatabaseUID: settings.DatabaseUID, Instance: name, State: wire.StateRunning, Role: wire.RoleReplica,
			SettingsHash: settings.Hash(), Streams: true, Serving: true, Verified: true,
		}, nil
	}
	pod, err := a.at(ctx, agent.Address)
	if err != nil {
		return wire.Report{}, err
	}
	name := instanceOf(pod)
	var lease coordinationv1.Lease
	if _, err := kube.Get(ctx, a.cluster, database.LeaseName(Cities.Name), &lease); err != nil {
		return wire.Report{}, err
	}
	record, err := recordOf(&lease)
	if err != nil {
		return wire.Report{}, err
	}
	var claim corev1.PersistentVolumeClaim
	if _, err := kube.Get(ctx, a.cluster, name, &claim); err != nil {
		return wire.Report{}, err
	}
	var log corev1.PersistentVolumeClaim
	if _, err := kube.Get(ctx, a.cluster, database.LogClaimName(name), &log); err != nil {
		return wire.Report{}, err
	}
	self, holder := wire.Member{Name: name, Incarnation: copyOf(&claim, &log)}, holderOf(&lease)
	member := record.Has(self)
	report := wire.Report{
		Version: 1, DatabaseUID: settingsOf(ctx, a.cluster).DatabaseUID, Instance: name, Incarnation: self.Incarnation,
		State: wire.StateRunning, Role: wire.RoleReplica, ServerVersion: "17.6", SettingsHash: pod.Annotations[taken],
		Term: record.Term, Holder: holder.Name, Serving: member, Streams: member, Verified: true, PasswordSet: true,
		PendingRestart: pendingOf(pod), Restart: pod.Annotations[started],
		Volume: a.roomOf(pod, &claim),
	}
	if report.Certificate, err = certificateOf(ctx, a.cluster, pod); err != nil {
		return wire.Report{}, err
	}
	report.Rotation, _ = strconv.ParseInt(pod.Annotations[rotated], 10, 64) // 0 before it has any
	if a.eager {
		if report.Rotation, err = nextOf(ctx, a.cluster); err != nil {
			return wire.Report{}, err
		}
	}
	if a.content {
		report.PendingRestart = nil
	}
	if a.rosy {
		report.Streams, report.Serving, report.Role = true, true, wire.RolePrimary
	}
	if member {
		report.SystemIdentifier = record.SystemIdentifier
	}
	if holder == self {
		report.Role, report.Streams = wire.RolePrimary, false
		report.Backup, err = stage.Report(ctx, a.cluster, a.now())
	}
	return report, err
}

// tell asks the agent of the holder to hand over. Asking twice for the same is asking once.
func (a agents) tell(ctx context.Context, agent service.Agent, request wire.Switchover) error {
	pod, err := a.at(ctx, agent.Address)
	if err != nil {
		return err
	}
	var lease coordinationv1.Lease
	if _, err := kube.Get(ctx, a.cluster, database.LeaseName(Cities.Name), &lease); err != nil {
		return err
	}
	record, err := recordOf(&lease)
	if err != nil {
		return err
	}
	holder := holderOf(&lease)
	switch {
	case database.PodName(holder.Name) != pod.Name:
		return &act.RefusedError{Why: fmt.Sprintf("%s is not the primary", pod.Name)}
	case record.Switchover != nil:
		return nil
	}
	record.Switchover = &request
	c := council{View: &kube.View{Context: ctx, Client: a.cluster}, folk: citizens, lease: lease}
	return c.write(record, holder)
}
