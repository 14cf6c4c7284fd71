package controller_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/act"
	"meridian.dev/meridian/internal/service"
	"meridian.dev/meridian/internal/wire"
)

// play is one step of everybody but the operator: the API server's own defaults, the controllers, the kubelets, the
// agents.
func (w *town) play() {
	w.t.Helper()
	var service corev1.Service
	if w.get(database.WriteName(towns.Name), &service) && len(service.Spec.IPFamilies) == 0 {
		service.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
		w.update(&service)
	}
	for range 20 {
		if !w.server.Collect() {
			break
		}
	}
	for _, name := range w.instances() {
		w.boot(name)
		w.startServer(name)
	}
	w.endPods()
	w.handOver()
	w.agree()
}

// instances are those that have a StatefulSet, sorted.
func (w *town) instances() []string {
	w.t.Helper()
	var sets appsv1.StatefulSetList
	if err := w.admin.List(w.t.Context(), &sets); err != nil {
		w.t.Fatal(err)
	}
	var names []string
	for _, set := range sets.Items {
		names = append(names, set.Name)
	}
	slices.Sort(names)
	return names
}

// boot has the pod of an instance come up, once everything is there that it mounts.
func (w *town) boot(name string) {
	w.t.Helper()
	var set appsv1.StatefulSet
	var claim corev1.PersistentVolumeClaim
	w.seeSet(name)
	mounted := w.get(database.SettingsName(towns.Name), &corev1.ConfigMap{}) &&
		w.get(database.AppSecretName(towns.Name), &corev1.Secret{})
	if !mounted || !w.get(name, &set) || !w.get(name, &claim) || claim.DeletionTimestamp != nil ||
		w.get(database.PodName(name), &corev1.Pod{}) || *set.Spec.Replicas == 0 {
		return
	}
	pod := &corev1.Pod{ObjectMeta: *set.Spec.Template.ObjectMeta.DeepCopy(), Spec: set.Spec.Template.Spec}
	pod.Namespace, pod.Name = towns.Namespace, database.PodName(name)
	pod.Labels[appsv1.StatefulSetRevisionLabel] = set.Status.UpdateRevision
	pod.Spec.NodeName = "node" + strings.TrimPrefix(name, towns.Name+"-")
	yes := true
	pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps/v1", Kind: "StatefulSet", Name: set.Name, UID: set.UID, Controller: &yes,
	}}
	w.create(pod)
	w.births[name]++
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: place(name),
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	if slices.Contains(w.bad, pod.Spec.Containers[0].Image) {
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
			Name: database.ContainerDatabase, State: corev1.ContainerState{
				Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff", Message: "no such image"},
			},
		}}}
	}
	if slices.ContainsFunc(pod.Spec.Volumes, func(volume corev1.Volume) bool { return volume.Name == lacking }) {
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse,
			LastTransitionTime: metav1.NewTime(w.clock.Now()),
		}}}
	}
	w.must(w.admin.Status().Update(w.t.Context(), pod))
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.Resources.Requests
	w.must(w.admin.Status().Update(w.t.Context(), &claim))
}

// place is where the pod of an instance is.
func place(name string) string { return "10.1.0." + strings.TrimPrefix(name, towns.Name+"-") }

// endPods is the kubelet: a pod that was told to end has ended.
func (w *town) endPods() {
	w.t.Helper()
	var pods corev1.PodList
	w.must(w.admin.List(w.t.Context(), &pods))
	for i := range pods.Items {
		// The kubelet of a dead instance says nothing any more.
		if pods.Items[i].DeletionTimestamp != nil && pods.Items[i].Name != database.PodName(w.dead) {
			w.must(w.admin.Delete(w.t.Context(), &pods.Items[i], client.GracePeriodSeconds(0)))
		}
	}
}

// agree is what the agents do: they take those in that have a pod and are wanted, one at a time, let those go that are
// not, and route to the primary.
func (w *town) agree() {
	w.t.Helper()
	var lease coordinationv1.Lease
	wanted := w.settings().Instances
	if !w.get(database.LeaseName(towns.Name), &lease) || len(wanted) == 0 {
		return
	}
	record, known := w.record()
	next := wire.LeaseRecord{
		DatabaseUID: string(w.database().UID), Term: 1, Timeline: 1, Initialised: true, SystemIdentifier: "7001",
		Members: slices.Clone(record.Members),
	}
	if !w.changeMember(&next, wanted) || len(next.Members) == 0 || known && len(next.Members) == len(record.Members) {
		return
	}
	next.W = min(len(next.Members), 2)
	text, err := next.Encode()
	w.must(err)
	holder, term := next.Members[0].String(), int32(1)
	lease.Spec.HolderIdentity, lease.Spec.LeaseTransitions = &holder, &term
	lease.Annotations[wire.AnnotationRecord] = text
	w.update(&lease)
	var slice discoveryv1.EndpointSlice
	if w.get(database.WriteName(towns.Name), &slice) && len(slice.Endpoints) == 0 {
		slice.Annotations[wire.AnnotationTerm] = "1"
		slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{place(next.Members[0].Name)}}}
		w.update(&slice)
	}
}

// changeMember takes one step, and reports whether there was one to take.
func (w *town) changeMember(record *wire.LeaseRecord, wanted []string) bool {
	for index, member := range record.Members {
		if index > 0 && !slices.Contains(wanted, member.Name) {
			record.Members = slices.Delete(record.Members, index, index+1)
			return true
		}
	}
	for _, name := range wanted {
		member := wire.Member{Name: name, Incarnation: "of-" + name}
		slice := w.get(database.WriteName(towns.Name), &discoveryv1.EndpointSlice{})
		if slice && w.get(database.PodName(name), &corev1.Pod{}) && !record.Has(member) {
			record.Members = append(record.Members, member)
			return true
		}
	}
	return false
}

// hand gives the lease to another member, and routes to it.
func (w *town) hand(term int32, to string) {
	w.t.Helper()
	record, _ := w.record()
	record.Term = int64(term)
	text, err := record.Encode()
	w.must(err)
	var lease coordinationv1.Lease
	w.get(database.LeaseName(towns.Name), &lease)
	holder := wire.Member{Name: to, Incarnation: "of-" + to}.String()
	lease.Spec.HolderIdentity, lease.Spec.LeaseTransitions = &holder, &term
	lease.Annotations[wire.AnnotationRecord] = text
	w.update(&lease)
	var slice discoveryv1.EndpointSlice
	w.get(database.WriteName(towns.Name), &slice)
	slice.Annotations[wire.AnnotationTerm] = strconv.Itoa(int(term))
	slice.Endpoints = []discoveryv1.Endpoint{{Addresses: []string{place(to)}}}
	w.update(&slice)
}

// seeSet is the controller of StatefulSets: it has seen the latest template.
func (w *town) seeSet(name string) {
	w.t.Helper()
	var set appsv1.StatefulSet
	if !w.get(name, &set) || set.Status.ObservedGeneration == set.Generation {
		return
	}
	set.Status.ObservedGeneration = set.Generation
	set.Status.UpdateRevision = "of-" + strconv.FormatInt(set.Generation, 10)
	w.must(w.admin.Status().Update(w.t.Context(), &set))
	var pod corev1.Pod
	if w.get(database.PodName(name), &pod) && *set.Spec.Replicas == 0 && pod.DeletionTimestamp == nil {
		w.must(w.admin.Delete(w.t.Context(), &pod))
	}
}

// startServer is what an agent does about its server: it starts with the settings of now, and starts anew when a token
// says so. A primary hands over before.
func (w *town) startServer(name string) {
	w.t.Helper()
	var pod corev1.Pod
	settings := w.settings()
	if !w.get(database.PodName(name), &pod) || pod.Status.PodIP == "" {
		delete(w.servers, name)
		return
	}
	server, runs := w.servers[name]
	token := settings.RestartOf(name)
	if runs && (token == "" || token == server.token) {
		return
	}
	if runs && w.holder() == name {
		w.told = append(w.told, wire.Switchover{ID: "own"})
		w.handOver()
	}
	w.starts[name]++
	w.servers[name] = started{token: token, connections: parameter(settings, "max_connections")}
}

func parameter(settings wire.Settings, name string) string {
	for _, one := range settings.Parameters {
		if one.Name == name {
			return one.Value
		}
	}
	return ""
}

func (w *town) holder() string {
	var lease coordinationv1.Lease
	if !w.get(database.LeaseName(towns.Name), &lease) || lease.Spec.HolderIdentity == nil {
		return ""
	}
	return wire.ParseMember(*lease.Spec.HolderIdentity).Name
}

// handOver is what the agents do when the holder was asked to, and when its pod has ended: the first other member that
// runs leads.
func (w *town) handOver() {
	w.t.Helper()
	record, known := w.record()
	holder := w.holder()
	asked := len(w.told) > w.answered && w.refusal == "" && w.yields
	w.answered = len(w.told)
	if !known || holder == "" || !asked && (!w.yields || w.up(holder)) {
		return
	}
	for _, member := range record.Members {
		if member.Name != holder && w.up(member.Name) {
			w.moves++
			w.hand(int32(record.Term)+1, member.Name)
			return
		}
	}
}

// up says that PostgreSQL runs in the pod of an instance.
func (w *town) up(name string) bool {
	var pod corev1.Pod
	return w.get(database.PodName(name), &pod) && pod.Status.PodIP != "" && pod.DeletionTimestamp == nil
}

func (w *town) tell(_ context.Context, _ service.Agent, request wire.Switchover) error {
	w.told = append(w.told, request)
	if w.refusal != "" {
		return &act.RefusedError{Why: w.refusal}
	}
	return nil
}

// record is what the agents have agreed on.
func (w *town) record() (wire.LeaseRecord, bool) {
	var lease coordinationv1.Lease
	w.get(database.LeaseName(towns.Name), &lease)
	text, found := lease.Annotations[wire.AnnotationRecord]
	if !found {
		return wire.LeaseRecord{}, false
	}
	record, err := wire.DecodeLeaseRecord(text)
	w.must(err)
	return record, true
}

// settings are those that are stored, empty before there are any.
func (w *town) settings() wire.Settings {
	var stored corev1.ConfigMap
	if !w.get(database.SettingsName(towns.Name), &stored) {
		return wire.Settings{}
	}
	settings, err := wire.DecodeSettings([]byte(stored.Data[wire.KeySettings]))
	w.must(err)
	return settings
}

// ask answers for the agents. They have every setting at once.
func (w *town) ask(_ context.Context, agent service.Agent) (wire.Report, error) {
	serial, err := strconv.Atoi(strings.TrimPrefix(agent.Address, "10.1.0."))
	if err != nil {
		return wire.Report{}, errors.New("nobody is there")
	}
	name := database.InstanceName(towns.Name, serial)
	if name == w.dead {
		return wire.Report{}, errors.New("no answer")
	}
	report := wire.Report{
		Version: 1, DatabaseUID: string(w.database().UID), Instance: name, State: wire.StateRunning,
		Role: wire.RoleReplica, ServerVersion: "17.6", SettingsHash: w.settings().Hash(), Term: 1,
	}
	record, _ := w.record()
	var lease coordinationv1.Lease
	w.get(database.LeaseName(towns.Name), &lease)
	report.Term = record.Term
	member := record.Has(wire.Member{Name: name, Incarnation: "of-" + name})
	report.Serving, report.Streams = member, member
	server := w.servers[name]
	report.Restart = server.token
	if server.connections != parameter(w.settings(), "max_connections") {
		report.PendingRestart = []string{"max_connections"}
	}
	if holder := lease.Spec.HolderIdentity; holder != nil && wire.ParseMember(*holder).Name == name {
		report.Role, report.Streams = wire.RolePrimary, false
	}
	return report, nil
}

func (w *town) database() *v1alpha1.GeoDatabase {
	var found v1alpha1.GeoDatabase
	w.get(towns.Name, &found)
	return &found
}

func (w *town) get(name string, into client.Object) bool {
	w.t.Helper()
	err := w.admin.Get(context.Background(), client.ObjectKey{Namespace: towns.Namespace, Name: name}, into)
	w.must(client.IgnoreNotFound(err))
	return err == nil
}

func (w *town) create(object client.Object) {
	w.t.Helper()
	w.must(w.admin.Create(context.Background(), object))
}

func (w *town) update(object client.Object) {
	w.t.Helper()
	w.must(w.admin.Update(context.Background(), object))
}

func (w *town) change(object client.Object, name string, apply func(client.Object)) {
	w.t.Helper()
	if !w.get(name, object) {
		w.t.Fatalf("%s is not there", name)
	}
	apply(object)
	w.update(object)
}

func (w *town) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}
