package operated

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/test/sim/kube"
	"meridian.dev/meridian/test/sim/lives/trust"
)

// pod is what a node has of an instance: a container, and a volume that outlives it.
type pod struct {
	uid     types.UID // Of the pod whose container was started, empty if there is none.
	address string
	told    bool // The container was told to end.
	looks   int  // How often its mounts were to be looked at.
	// volume is the claim that the volume was made for.
	volume types.UID
	off    time.Duration // Until when the node has no power.
	late   time.Duration // Until when its kubelet looks after no mounts of running containers.
	unwell int           // How many probes in a row have failed.
	// certificate and logins are what is mounted.
	certificate string
	logins      postgres.Logins
}

// Times of nodes and kubelets.
const (
	grace      = 60 * time.Second
	probeEvery = time.Second
	// evictAfter is how long after a node was noticed to be away its pods are told to end.
	evictAfter = 5 * time.Minute
)

// stir has the controllers of the cluster look soon.
func (d *Database) stir() {
	if d.stirring {
		return
	}
	d.stirring = true
	d.After(d.Between(10*time.Millisecond, 200*time.Millisecond), func() {
		d.stirring = false
		acted, err := kube.FirstOf(kube.ObserveSet, kube.MakePod, kube.StopPod, kube.BindClaim, kube.FailPod,
			kube.ResizePod, d.startPod, d.endPod)(d.ctx, d.cluster)
		d.must(err)
		acted = acted || d.server.Collect()
		d.show()
		if acted {
			d.stir()
		}
	})
}

// powered says that the node of an instance has power.
func (d *Database) powered(who int) bool { return d.Now() >= d.pods[who].off }

// startPod starts the container of a pod whose volumes are all there.
func (d *Database) startPod(v *kube.View) (bool, error) {
	for i := range v.Pods.Items {
		object := &v.Pods.Items[i]
		who, ours := d.whose(object.Name)
		if !ours || object.DeletionTimestamp != nil || kube.CannotStart(object) || d.pods[who].uid != "" || !d.powered(who) {
			continue
		}
		mounted, err := v.Mounted(object)
		if err != nil {
			return false, err
		}
		if !mounted {
			continue
		}
		p, claim := d.pods[who], v.Claim(kube.ClaimsOf(object)[0])
		if p.volume != "" && p.volume != claim.UID {
			d.Note(who, "another volume")
			d.LoseVolume(who)
		}
		p.volume, p.uid, p.told, p.unwell = claim.UID, object.UID, false, 0
		object.Status.Phase, object.Status.ContainerStatuses = corev1.PodRunning, nil
		for _, container := range object.Spec.Containers {
			object.Status.ContainerStatuses = append(object.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: container.Name, Resources: &container.Resources,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			})
		}
		d.setReady(object, corev1.ConditionFalse)
		d.mount(who)
		return true, d.startContainer(who, object)
	}
	return false, nil
}

// startContainer starts it at a new address.
func (d *Database) startContainer(who int, object *corev1.Pod) error {
	p := d.pods[who]
	p.address = d.Identity("10.1.0.")
	object.Status.PodIP = p.address
	err := d.cluster.Status().Update(d.ctx, object)
	d.StartPod(who, p.address)
	d.probe(who, p.uid, p.address)
	d.mountAgain(who, p.uid, p.address)
	return err
}

// probe tells every second whether the container is ready, as long as it is there. Two in a row take that away.
func (d *Database) probe(who int, uid types.UID, address string) {
	d.After(probeEvery, func() {
		p := d.pods[who]
		if p.uid != uid || p.address != address {
			return
		}
		d.probe(who, uid, address)
		if p.unwell++; d.Ready(who) {
			p.unwell = 0
		}
		if d.powered(who) && p.unwell != 1 {
			d.tellReady(who, p.unwell == 0)
		}
	})
}

// tellReady writes whether a pod is ready, if that is news.
func (d *Database) tellReady(who int, well bool) {
	var object corev1.Pod
	if d.get(podName(who), &object) != nil || object.UID != d.pods[who].uid || kube.Ready(&object) == well {
		return
	}
	status := corev1.ConditionFalse
	if well {
		status = corev1.ConditionTrue
	}
	d.setReady(&object, status)
	for i := range object.Status.ContainerStatuses {
		object.Status.ContainerStatuses[i].Ready = well
	}
	d.must(d.cluster.Status().Update(d.ctx, &object))
	d.show()
}

func (d *Database) setReady(object *corev1.Pod, status corev1.ConditionStatus) {
	kube.SetReady(object, status)
	object.Status.Conditions[0].LastTransitionTime = metav1.NewTime(d.clock())
}

// mountAgain is how a kubelet looks after what is mounted, whatever happens.
func (d *Database) mountAgain(who int, uid types.UID, address string) {
	d.After(d.Between(60*time.Second, 90*time.Second), func() {
		if p := d.pods[who]; p.uid == uid && p.address == address {
			if d.Now() >= p.late {
				d.mount(who)
			}
			d.mountAgain(who, uid, address)
		}
	})
}

// podChanged has the kubelet look after what is mounted: it does for a pod that was written to.
func (d *Database) podChanged(of string) {
	who, ours := d.whose(of)
	if !ours || d.pods[who].uid == "" {
		return
	}
	p := d.pods[who]
	p.looks++
	looks := p.looks
	d.After(d.Between(100*time.Millisecond, 2*time.Second), func() {
		switch {
		case p.looks != looks || p.uid == "":
		case d.Now() < p.late:
			d.After(p.late-d.Now(), func() { d.podChanged(of) })
		default:
			d.mount(who)
		}
	})
}

// mount makes everything that is mounted what is stored.
func (d *Database) mount(who int) {
	p := d.pods[who]
	var object corev1.Pod
	if !d.powered(who) || d.get(podName(who), &object) != nil || object.UID != p.uid {
		return
	}
	var leaf, binding corev1.Secret
	if d.get(trust.Mounted(&object), &leaf) == nil {
		p.certificate = d.alias(wire.CertificateIdentity(
			leaf.Data[wire.KeyCertificate], leaf.Data[wire.KeyPrivateKey], leaf.Data[wire.KeyAuthority]))
	}
	if d.get(database.AppSecretName(name.Name), &binding) == nil {
		p.logins = loginsOf(&binding)
	}
	if settings, ok := d.settings(); ok {
		d.Mount(who, settings)
	}
}

// alias is a name for what identifies a certificate: keys are made at random, and one schedule is to be one trace.
func (d *Database) alias(identity string) string {
	at := slices.Index(d.certificates, identity)
	if at < 0 {
		at = len(d.certificates)
		d.certificates = append(d.certificates, identity)
	}
	return "certificate-" + strconv.Itoa(at)
}

// identity is what has that name.
func (d *Database) identity(alias string) string {
	var at int
	if _, err := fmt.Sscanf(alias, "certificate-%d", &at); err != nil {
		return alias
	}
	return d.certificates[at]
}

func loginsOf(binding *corev1.Secret) postgres.Logins {
	number, _ := strconv.ParseInt(string(binding.Data[wire.KeyRotation]), 10, 64) // 0 for the first ones
	logins := postgres.Logins{Present: postgres.Login{
		Name: string(binding.Data[wire.KeyUsername]), Password: string(binding.Data[wire.KeyPassword]), Rotation: number,
	}}
	if next, found := render.NextLogin(binding); found {
		logins.Next = &postgres.Login{Name: next.Name, Password: next.Password, Rotation: next.Number}
	}
	return logins
}

// endPod tells a container to end whose pod was told to, and takes pods away that have none.
func (d *Database) endPod(v *kube.View) (bool, error) {
	for who, p := range d.pods {
		object := v.Pod(podName(who))
		if !d.powered(who) {
			continue
		}
		switch ends := object == nil || object.DeletionTimestamp != nil; {
		case p.uid == "" && object != nil && ends:
			return true, v.Delete(v, object, client.GracePeriodSeconds(0))
		case p.uid != "" && !p.told && (ends || object.UID != p.uid):
			p.told = true
			uid := p.uid
			d.Note(who, "the pod is told to end")
			d.TellToEnd(who)
			d.After(grace, func() { d.finish(who, uid) })
			return true, nil
		}
	}
	return false, nil
}

// Ended implements sim.Cluster.
func (d *Database) Ended(who int) {
	uid := d.pods[who].uid
	d.After(d.Between(100*time.Millisecond, time.Second), func() { d.finish(who, uid) })
}

// finish is the end of a pod that was told to.
func (d *Database) finish(who int, uid types.UID) {
	p := d.pods[who]
	if p.uid != uid || !d.powered(who) {
		return
	}
	d.EndPod(who)
	p.uid = ""
	d.stir()
}

// PoweredOff implements sim.Cluster.
func (d *Database) PoweredOff(who int, lasting time.Duration) {
	p := d.pods[who]
	p.off = max(p.off, d.Now()+lasting)
	off := p.off
	d.After(p.off-d.Now(), func() {
		if p.off == off {
			d.powerOn(who)
		}
	})
	d.After(d.Between(10*time.Second, 50*time.Second), func() {
		if p.off == off && !d.powered(who) {
			d.noticeAway(who, off)
		}
	})
}

// noticeAway is what the cluster does about a node that says nothing.
func (d *Database) noticeAway(who int, off time.Duration) {
	d.Note(-1, "node %d is noticed to be away", who+1)
	d.tellNode(who, "yes", corev1.ConditionUnknown)
	d.tellReady(who, false)
	d.After(evictAfter, func() {
		var object corev1.Pod
		if p := d.pods[who]; p.off == off && !d.powered(who) && d.get(podName(who), &object) == nil {
			d.must(d.cluster.Delete(d.ctx, &object))
			d.show()
		}
	})
}

func (d *Database) tellNode(who int, away string, status corev1.ConditionStatus) {
	var node corev1.Node
	d.must(d.cluster.Get(d.ctx, client.ObjectKey{Name: fmt.Sprintf("node%d", who+1)}, &node))
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, kube.Away, away)
	d.must(d.cluster.Update(d.ctx, &node))
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(d.clock()),
	}}
	d.must(d.cluster.Status().Update(d.ctx, &node))
	d.show()
}

// powerOn starts the containers of the node again whose pods were not told to end.
func (d *Database) powerOn(who int) {
	p := d.pods[who]
	d.tellNode(who, "", corev1.ConditionTrue)
	var object corev1.Pod
	switch found := d.get(podName(who), &object) == nil; {
	case p.uid == "":
	case found && object.UID == p.uid && object.DeletionTimestamp == nil:
		d.setReady(&object, corev1.ConditionFalse)
		d.mount(who)
		d.must(d.startContainer(who, &object))
	default:
		d.EndPod(who)
		p.uid = ""
	}
	d.show()
	d.stir()
}
