package observe

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
)

// readLease looks at what the agents agree on. One that seems to have expired is read live: the cache may be older than
// its last renewals.
func (p *pass) readLease(ctx context.Context) error {
	var lease coordinationv1.Lease
	found, err := p.findSurely(ctx, cache.LeaseName(p.object.Name), &lease)
	if err != nil || !found {
		return err
	}
	if found, err = p.Pulse.Refresh(ctx, p.Live, &lease, p.Now); err != nil || !found {
		return err
	}
	facts := cache.Lease{UID: string(lease.UID)}
	switch document, written := lease.Annotations[wire.AnnotationRecord]; {
	case !p.ours(&lease):
		facts.Foreign = "the Lease " + lease.Name + " belongs to somebody else"
	case written:
		record, err := wire.DecodeLeaseRecord(document)
		if err != nil {
			facts.Problem = err.Error()
			break
		}
		if lease.Spec.HolderIdentity != nil {
			facts.Holder = wire.ParseMember(*lease.Spec.HolderIdentity).Name
		}
		facts.Term = record.Term
		for _, member := range record.Members {
			facts.Members = append(facts.Members, member.Name)
		}
		facts.Expired = facts.Holder != "" && p.Pulse != nil && p.Pulse.Expired(&lease, p.facts.Now)
	}
	p.facts.Lease = facts
	return nil
}

// findSurely reads an object through the reader of the pass, and live if that one does not show it: the caches of the
// operator hold what has our label, which somebody may have taken away.
func (p *pass) findSurely(ctx context.Context, name string, into client.Object) (bool, error) {
	if found, err := p.find(ctx, p.reader, name, into); err != nil || found {
		return found, err
	}
	return p.find(ctx, p.Live, name, into)
}

// readSettings reads what the agents were told last: which lease they obey does not change any more.
func (p *pass) readSettings(ctx context.Context) error {
	var stored corev1.ConfigMap
	found, err := p.findSurely(ctx, cache.SettingsName(p.object.Name), &stored)
	if err != nil || !found || !p.ours(&stored) {
		return err
	}
	if settings, err := wire.DecodeCacheSettings([]byte(stored.Data[wire.KeySettings])); err == nil {
		p.facts.Stored = cache.Settings{
			LeaseUID: settings.LeaseUID, Hash: settings.Hash(), ReplicationAlone: settings.ReplicationAlone,
		}
	}
	return nil
}

// readRequest finds the request to empty the cache. Its id tells it from the next one with the same words: by who wrote
// it, and when.
func (p *pass) readRequest(context.Context) error {
	text := strings.TrimSpace(p.object.Annotations[cache.AnnotationFlush])
	if text == "" {
		return nil
	}
	const owned = `"f:` + cache.AnnotationFlush + `"`
	var written []string
	for _, entry := range p.object.ManagedFields {
		if entry.FieldsV1 != nil && entry.Time != nil && strings.Contains(entry.FieldsV1.GetRawString(), owned) {
			written = append(written, entry.Manager+entry.Time.UTC().String())
		}
	}
	slices.Sort(written)
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %v", p.object.UID, text, written))
	p.facts.Flush = hex.EncodeToString(sum[:8])
	return nil
}

// readRoute says where the write address leads: to the instance whose pod has the address that the holder has written.
func (p *pass) readRoute(ctx context.Context) error {
	var service corev1.Service
	name := cache.WriteName(p.object.Name)
	found, err := p.findSurely(ctx, name, &service)
	if err != nil {
		return err
	}
	if found && p.ours(&service) && len(service.Spec.IPFamilies) > 0 {
		p.facts.Route.Family = string(service.Spec.IPFamilies[0])
	}
	var slice discoveryv1.EndpointSlice
	if found, err = p.findSurely(ctx, name, &slice); err != nil || !found || !p.ours(&slice) {
		return err
	}
	p.facts.Route.Term, _ = strconv.ParseInt(slice.Annotations[wire.AnnotationTerm], 10, 64)
	for _, endpoint := range slice.Endpoints {
		if len(endpoint.Addresses) > 0 {
			p.facts.Route.Target = cmp.Or(p.instanceAt(endpoint.Addresses[0]), p.facts.Route.Target)
		}
	}
	return nil
}

// readReads says where the read address leads.
func (p *pass) readReads(ctx context.Context) error {
	address := client.ObjectKey{Namespace: p.object.Namespace, Name: cache.ReadName(p.object.Name)}
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
