package service

import (
	"context"
	"slices"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodesFollow is how long nodes are given to take over where an address leads. kube-proxy does so once in a second by
// default, and nothing in the API tells when it has; the time of the last write is known to the second.
const nodesFollow = 3 * time.Second

// settling is how long readers count as new after the last of their pods became ready.
const settling = 30 * time.Second

// Reads are where a read address leads.
type Reads struct {
	// Targets are the instances behind it that are ready, sorted.
	Targets []string `json:"targets,omitempty"`
	// Since is when that was last written, zero if nobody knows.
	Since time.Time `json:"since,omitzero"`
}

// FindReads reads where a read address leads: to the pods in the slices that Kubernetes keeps for its Service. They
// bear the labels of the Service, so that caches hold them. It is nil where there is no slice, or none may be listed:
// nobody knows then. InstanceAt names the instance at an address, empty if there is none.
func FindReads(
	ctx context.Context, reader client.Reader, service client.ObjectKey, instanceAt func(address string) string,
) (*Reads, error) {
	var found discoveryv1.EndpointSliceList
	err := reader.List(ctx, &found, client.InNamespace(service.Namespace),
		client.MatchingLabels{discoveryv1.LabelServiceName: service.Name})
	if apierrors.IsForbidden(err) || err == nil && len(found.Items) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	reads := &Reads{}
	for i := range found.Items {
		reads.add(&found.Items[i], instanceAt)
	}
	slices.Sort(reads.Targets)
	reads.Targets = slices.Compact(reads.Targets)
	return reads, nil
}

func (r *Reads) add(slice *discoveryv1.EndpointSlice, instanceAt func(string) string) {
	for _, entry := range slice.ManagedFields {
		if entry.Time != nil && entry.Time.After(r.Since) {
			r.Since = entry.Time.UTC()
		}
	}
	for _, endpoint := range slice.Endpoints {
		ready := endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready
		if !ready || len(endpoint.Addresses) == 0 {
			continue
		}
		if name := instanceAt(endpoint.Addresses[0]); name != "" {
			r.Targets = append(r.Targets, name)
		}
	}
}

// Lack says what keeps the read address from leading to the readers and to nobody else, empty for nothing. The readers
// are replicas that are near enough to be read, or the primary if the spec asks for no replica. What is Ready, or
// has readers that are ready since long, is not held up because the primary is read as well for a moment, or because
// nodes are about to follow a change: under load the primary comes and goes many times a minute. Newest is when the
// last reader became ready.
func (r *Reads) Lack(readers []string, primary string, wasReady bool, newest, now time.Time) string {
	if r == nil || len(readers) == 0 {
		return ""
	}
	var missing []string
	for _, reader := range readers {
		if !slices.Contains(r.Targets, reader) {
			missing = append(missing, reader)
		}
	}
	switch {
	case len(missing) > 0:
		return "the read address does not lead to " + strings.Join(missing, " and ") + " yet"
	case wasReady || now.Sub(newest) >= settling:
		return ""
	case !slices.Contains(readers, primary) && slices.Contains(r.Targets, primary):
		return "the read address still leads to the primary " + primary + " as well"
	case now.Sub(r.Since) < nodesFollow:
		return "the read address was changed a moment ago, and nodes follow within seconds"
	}
	return ""
}
