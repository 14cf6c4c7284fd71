package lives

import (
	"context"
	"errors"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/cache"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/sim/search"
	"meridian.dev/meridian/test/sim/kube"
)

// allowed is where the model keeps, on the pod, how much data its server keeps.
const allowed = "example.com/allowed"

// cacheAgents are what the agents of a cache do: they agree on a primary, and each server keeps what is wanted, as far
// as its container can carry it. It takes a step to let go of data.
func cacheAgents() search.Actor {
	return search.Actor{Name: "cache agents", Step: kube.FirstOf(tilers.agree, keepMemory)}
}

func keepMemory(v *kube.View) (bool, error) {
	settings, found, err := cacheSettings(v, v)
	if err != nil || !found {
		return false, err
	}
	for i := range v.Pods.Items {
		pod := &v.Pods.Items[i]
		target := min(settings.Memory, wire.CacheCapacity(serverLimit(pod)))
		informed := pod.Annotations[taken] == settings.Hash()
		if pod.Labels[cache.LabelCache] == Tiles.Name && kube.Ready(pod) && informed && allowedTo(pod) != target {
			pod.Annotations[allowed] = strconv.FormatInt(target, 10)
			return true, v.Update(v, pod)
		}
	}
	return false, nil
}

// tilersSettings are those of a cache in the words of the council.
func tilersSettings(ctx context.Context, reader client.Reader) wire.Settings {
	settings, found, err := cacheSettings(ctx, reader)
	if !found || err != nil {
		return wire.Settings{}
	}
	return wire.Settings{
		DatabaseUID: settings.CacheUID, LeaseUID: settings.LeaseUID, Instances: settings.Instances,
	}
}

func cacheSettings(ctx context.Context, reader client.Reader) (wire.CacheSettings, bool, error) {
	var stored corev1.ConfigMap
	if found, err := kube.Get(ctx, reader, cache.SettingsName(Tiles.Name), &stored); !found || err != nil {
		return wire.CacheSettings{}, false, err
	}
	settings, err := wire.DecodeCacheSettings([]byte(stored.Data[wire.KeySettings]))
	return settings, err == nil, err
}

func allowedTo(pod *corev1.Pod) int64 {
	number, err := strconv.ParseInt(pod.Annotations[allowed], 10, 64)
	if err != nil {
		return 0
	}
	return number
}

// askCache answers for the agent of a cache.
func (a agents) askCache(ctx context.Context, agent service.Agent) (wire.CacheReport, error) {
	settings, found, err := cacheSettings(ctx, a.cluster)
	if !found || err != nil {
		return wire.CacheReport{}, errors.New("it has no settings")
	}
	if name, made := strings.CutPrefix(agent.Address, nowhere); made {
		return wire.CacheReport{
			Version: 1, CacheUID: settings.CacheUID, Instance: name, State: wire.StateRunning, Role: wire.RoleReplica,
			SettingsHash: settings.Hash(), Serving: true, Streams: true,
		}, nil
	}
	pod, err := a.at(ctx, agent.Address)
	if err != nil {
		return wire.CacheReport{}, err
	}
	kept := allowedTo(pod)
	if a.obeys {
		kept = settings.Memory
	}
	var lease coordinationv1.Lease
	if _, err := kube.Get(ctx, a.cluster, tilers.leaseName, &lease); err != nil {
		return wire.CacheReport{}, err
	}
	record, err := recordOf(&lease)
	if err != nil {
		return wire.CacheReport{}, err
	}
	self, holder := wire.Member{Name: instanceOf(pod), Incarnation: string(pod.UID)}, holderOf(&lease)
	member := record.Has(self)
	report := wire.CacheReport{
		Version: 1, CacheUID: settings.CacheUID, Instance: self.Name, Incarnation: self.Incarnation,
		State: wire.StateRunning, Role: wire.RoleReplica, ServerVersion: "8.0.2", Term: record.Term, Holder: holder.Name,
		Serving: member, Streams: member, Flushed: pod.Annotations[flushed],
		Memory: wire.CacheMemory{Allowed: kept, Resident: residentOf(kept), Limit: serverLimit(pod)},
	}
	if holder == self {
		report.Role, report.Streams = wire.RolePrimary, false
	}
	if a.rosy {
		report.Serving, report.Streams = true, true
	}
	if string(lease.UID) != settings.LeaseUID {
		report.Reason, report.Message = wire.ReasonLeaseLost, "the lease cannot be obeyed"
		if err := rememberLost(ctx, a.cluster, &report); err != nil {
			return wire.CacheReport{}, err
		}
	}
	if kept == settings.Memory && (a.obeys || pod.Annotations[taken] == settings.Hash()) {
		report.SettingsHash = settings.Hash()
	}
	return report, nil
}

// rememberLost is what an agent says whose lease is lost: one that was a member of the last record goes on.
func rememberLost(ctx context.Context, cluster client.Reader, report *wire.CacheReport) error {
	record, holder, err := remembered(ctx, cluster)
	self := wire.Member{Name: report.Instance, Incarnation: report.Incarnation}
	report.Role, report.Serving, report.Streams, report.Term, report.Holder = wire.RoleNone, false, false, 0, ""
	if err != nil || !record.Has(self) {
		return err
	}
	report.Role, report.Serving, report.Streams, report.Term = wire.RoleReplica, true, self != holder, record.Term
	if self == holder {
		report.Role = wire.RolePrimary
	}
	return nil
}

// remembered is what the agents know without a lease, empty if nothing.
func remembered(ctx context.Context, cluster client.Reader) (wire.LeaseRecord, wire.Member, error) {
	var kept corev1.ConfigMap
	if err := cluster.Get(ctx, memoryKey, &kept); err != nil {
		return wire.LeaseRecord{}, wire.Member{}, client.IgnoreNotFound(err)
	}
	record, err := wire.DecodeLeaseRecord(kept.Data["record"])
	return record, wire.ParseMember(kept.Data["holder"]), err
}

// flushed is where an agent keeps which request to empty the cache it has carried out.
const flushed = "example.com/flushed"

// flush empties a cache.
func (a agents) flush(ctx context.Context, agent service.Agent, request wire.Flush) error {
	pod, err := a.at(ctx, agent.Address)
	if err != nil {
		return err
	}
	pod.Annotations[flushed] = request.ID
	return a.cluster.Update(ctx, pod)
}

// residentOf is what a server takes from its container for so much data.
func residentOf(allowed int64) int64 { return allowed + 20<<20 }

// serverLimit is the memory that the kubelet has given to the server.
func serverLimit(pod *corev1.Pod) int64 {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == cache.ContainerCache && status.Resources != nil {
			return status.Resources.Limits.Memory().Value()
		}
	}
	return 0
}
