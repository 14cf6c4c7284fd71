package observe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
)

// readLease looks at what the agents agree on. A lease that the cache does not show is looked for live before anybody
// calls it lost: the cache knows it by a label that somebody may have taken away. So is one that seems to have expired:
// the cache may be older than its last renewals.
func (p *pass) readLease(ctx context.Context) error {
	var lease coordinationv1.Lease
	found, err := p.find(ctx, database.LeaseName(p.object.Name), &lease)
	if err != nil || !found {
		return err
	}
	if found, err = p.Pulse.Refresh(ctx, p.Live, &lease, p.Now); err != nil || !found {
		return err
	}
	p.facts.Lease = p.leaseFacts(&lease)
	return nil
}

func (p *pass) leaseFacts(lease *coordinationv1.Lease) database.Lease {
	facts := database.Lease{
		UID: string(lease.UID), ResourceVersion: lease.ResourceVersion, Deleting: lease.DeletionTimestamp != nil,
		Guarded: controllerutil.ContainsFinalizer(lease, database.LeaseFinalizer),
	}
	if !p.ours(lease) {
		facts.Foreign = "the Lease " + lease.Name + " belongs to somebody else"
		return facts
	}
	facts.Succeeds = lease.Annotations[wire.AnnotationSucceeds]
	facts.LostBefore = wire.ParseLost(lease.Annotations[wire.AnnotationLostBefore])
	if lease.Spec.HolderIdentity != nil {
		holder := wire.ParseMember(*lease.Spec.HolderIdentity)
		facts.Holder, facts.HolderIncarnation = holder.Name, holder.Incarnation
	}
	if lease.Spec.LeaseTransitions != nil {
		facts.Term = int64(*lease.Spec.LeaseTransitions)
	}
	facts.Expired = facts.Holder != "" && p.Pulse != nil && p.Pulse.Expired(lease, p.facts.Now)
	text, written := lease.Annotations[wire.AnnotationRecord]
	if !written {
		return facts
	}
	record, err := wire.DecodeLeaseRecord(text)
	switch {
	case err != nil:
		facts.Problem = err.Error()
		return facts
	case record.DatabaseUID != p.facts.DataUID():
		facts.Problem = "its record is that of another database"
		return facts
	}
	facts.Copy = database.Record{Initialised: record.Initialised, SystemIdentifier: record.SystemIdentifier}
	facts.W, facts.Before = record.W, record.Succeeds
	for _, member := range record.Members {
		facts.Members = append(facts.Members, database.Member(member))
	}
	if record.Switchover != nil {
		facts.Switchover = record.Switchover.ID
	}
	return facts
}

// readRoute says where the write address leads: to the instance whose pod has the address that the holder has written.
func (p *pass) readRoute(ctx context.Context) error {
	var service corev1.Service
	name := database.WriteName(p.object.Name)
	found, err := p.find(ctx, name, &service)
	if err != nil {
		return err
	}
	if found && p.ours(&service) && len(service.Spec.IPFamilies) > 0 {
		p.facts.Route.Family = string(service.Spec.IPFamilies[0])
	}
	var slice discoveryv1.EndpointSlice
	if found, err = p.find(ctx, name, &slice); err != nil || !found || !p.ours(&slice) {
		return err
	}
	p.facts.Route.Term, _ = strconv.ParseInt(slice.Annotations[wire.AnnotationTerm], 10, 64)
	for _, endpoint := range slice.Endpoints {
		ready := endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready
		if ready && len(endpoint.Addresses) > 0 {
			p.facts.Route.Target = p.instanceAt(endpoint.Addresses[0])
		}
	}
	return nil
}

// readReads says where the read address leads.
func (p *pass) readReads(ctx context.Context) error {
	address := client.ObjectKey{Namespace: p.object.Namespace, Name: database.ReadName(p.object.Name)}
	reads, err := service.FindReads(ctx, p.reader, address, p.instanceAt)
	p.facts.Reads = reads
	return err
}

func (p *pass) instanceAt(address string) string {
	for _, instance := range p.facts.Instances {
		if instance.Pod != nil && instance.Pod.Address == address {
			return instance.Name
		}
	}
	return ""
}

// readRequest finds the switchover that a user asks for, by annotation or by a text of the spec that is new, and what
// was written down about it. A database that is not guarded yet has its first text from the beginning.
func (p *pass) readRequest(context.Context) error {
	target, token := strings.TrimSpace(p.object.Annotations[database.AnnotationSwitchover]), p.object.Spec.Switchover
	request := &database.Request{ID: requestID(p.object), Target: target}
	switch {
	case target != "":
	case token == "" || token == p.object.Annotations[database.AnnotationSwitched] || !p.facts.Guarded:
		return nil
	default:
		sum := sha256.Sum256(fmt.Appendf(nil, "%s spec %s", p.object.UID, token))
		request = &database.Request{ID: hex.EncodeToString(sum[:8]), Target: database.AnyInstance, Token: token}
		target = request.Target
	}
	var noted database.Request
	text := p.object.Annotations[database.AnnotationRequest]
	if json.Unmarshal([]byte(text), &noted) == nil && noted.ID == request.ID && noted.Target == target {
		request.Since, request.Term = noted.Since, noted.Term
	}
	p.facts.Request = request
	return nil
}

// requestID tells a request from the next one with the same words: by when its author wrote it.
func requestID(object *v1alpha1.GeoDatabase) string {
	const owned = `"f:` + database.AnnotationSwitchover + `"`
	var written string
	for _, entry := range object.ManagedFields {
		if entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), owned) && entry.Time != nil {
			written = entry.Manager + entry.Time.UTC().Format(time.RFC3339)
		}
	}
	if written == "" {
		written = strconv.FormatInt(object.Generation, 10)
	}
	target := object.Annotations[database.AnnotationSwitchover]
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s", object.UID, target, written))
	return hex.EncodeToString(sum[:8])
}

// readOrphans says whether the database was deleted with the word that its children stay. That word is a finalizer,
// which the garbage collector takes away when it has cut the children loose; after that they tell, by having no owner.
func (p *pass) readOrphans(ctx context.Context) error {
	if p.object.DeletionTimestamp == nil || controllerutil.ContainsFinalizer(p.object, metav1.FinalizerDeleteDependents) {
		return nil
	}
	if controllerutil.ContainsFinalizer(p.object, metav1.FinalizerOrphanDependents) {
		p.facts.Orphaning = true
		return nil
	}
	bound, err := owned(ctx, p.Live, p.object)
	p.facts.Orphaning = !bound
	return err
}

// owned says that a child of the database is still bound to it. Without one nobody can tell how it was deleted.
func owned(ctx context.Context, live client.Reader, object *v1alpha1.GeoDatabase) (bool, error) {
	for _, child := range []struct {
		name   string
		object client.Object
	}{
		{database.SettingsName(object.Name), &corev1.ConfigMap{}}, {database.WriteName(object.Name), &corev1.Service{}},
		{database.LeaseName(object.Name), &coordinationv1.Lease{}},
	} {
		found, err := get(ctx, live, client.ObjectKey{Namespace: object.Namespace, Name: child.name}, child.object)
		if err != nil {
			return false, err
		}
		controller := metav1.GetControllerOfNoCopy(child.object)
		if found && controller != nil && controller.UID == object.UID {
			return true, nil
		}
	}
	return false, nil
}
