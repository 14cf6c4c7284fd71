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
	probeEvery = time.Second
	// evictAfter is how long after a node was noticed to be away its pods are told to end.
	evictAfter = 5 * time.Minute
)

// stir has the controllers of the cluster look soon.
func (c *Cluster) stir() {
	if c.stirring {
		return
	}
	c.stirring = true
	c.After(c.Between(10*time.Millisecond, 200*time.Millisecond), func() {
		c.stirring = false
		acted, err := kube.FirstOf(kube.ObserveSet, kube.MakePod, kube.StopPod, kube.BindClaim, kube.FailPod,
			kube.ResizePod, c.startPod, c.endPod)(c.ctx, c.cluster)
		c.must(err)
		acted = acted || c.server.Collect()
		c.show()
		if acted {
			c.stir()
		}
	})
}

// powered says that the node of an instance has power.
func (c *Cluster) powered(who int) bool { return c.Now() >= c.pods[who].off }

// startPod starts the container of a pod whose volumes are all there.
func (c *Cluster) startPod(v *kube.View) (bool, error) {
	for i := range v.Pods.Items {
		object := &v.Pods.Items[i]
		who, ours := c.whose(object.Name)
		if !ours || object.DeletionTimestamp != nil || kube.CannotStart(object) || c.pods[who].uid != "" || !c.powered(who) {
			continue
		}
		mounted, err := v.Mounted(object)
		if err != nil {
			return false, err
		}
		if !mounted {
			continue
		}
		p := c.pods[who]
		c.attach(v, who, object)
		p.uid, p.told, p.unwell = object.UID, false, 0
		object.Status.Phase, object.Status.ContainerStatuses = corev1.PodRunning, nil
		for _, container := range object.Spec.Containers {
			object.Status.ContainerStatuses = append(object.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: container.Name, Resources: &container.Resources,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			})
		}
		c.setReady(object, corev1.ConditionFalse)
		c.mount(who)
		return true, c.startContainer(who, object)
	}
	return false, nil
}

// attach is the volume of a pod that has one.
func (c *Cluster) attach(v *kube.View, who int, object *corev1.Pod) {
	claims, p := kube.ClaimsOf(object), c.pods[who]
	if len(claims) == 0 {
		return
	}
	claim := v.Claim(claims[0])
	if p.volume != "" && p.volume != claim.UID {
		c.Note(who, "another volume")
		c.LoseVolume(who)
	}
	p.volume = claim.UID
}

// startContainer starts it at a new address.
func (c *Cluster) startContainer(who int, object *corev1.Pod) error {
	p := c.pods[who]
	p.address = c.Identity("10.1.0.")
	object.Status.PodIP = p.address
	err := c.cluster.Status().Update(c.ctx, object)
	c.StartPod(who, p.address)
	c.probe(who, p.uid, p.address)
	c.mountAgain(who, p.uid, p.address)
	return err
}

// probe tells every second whether the container is ready, as long as it is there. Two in a row take that away.
func (c *Cluster) probe(who int, uid types.UID, address string) {
	c.After(probeEvery, func() {
		p := c.pods[who]
		if p.uid != uid || p.address != address {
			return
		}
		c.probe(who, uid, address)
		if p.unwell++; c.Ready(who) {
			p.unwell = 0
		}
		if c.powered(who) && p.unwell != 1 {
			c.tellReady(who, p.unwell == 0)
		}
	})
}

// tellReady writes whether a pod is ready, if that is news.
func (c *Cluster) tellReady(who int, well bool) {
	var object corev1.Pod
	if c.get(podName(who), &object) != nil || object.UID != c.pods[who].uid || kube.Ready(&object) == well {
		return
	}
	status := corev1.ConditionFalse
	if well {
		status = corev1.ConditionTrue
	}
	c.setReady(&object, status)
	for i := range object.Status.ContainerStatuses {
		object.Status.ContainerStatuses[i].Ready = well
	}
	c.must(c.cluster.Status().Update(c.ctx, &object))
	c.show()
}

func (c *Cluster) setReady(object *corev1.Pod, status corev1.ConditionStatus) {
	kube.SetReady(object, status)
	object.Status.Conditions[0].LastTransitionTime = metav1.NewTime(c.clock())
}

// mountAgain is how a kubelet looks after what is mounted, whatever happens.
func (c *Cluster) mountAgain(who int, uid types.UID, address string) {
	c.After(c.Between(60*time.Second, 90*time.Second), func() {
		if p := c.pods[who]; p.uid == uid && p.address == address {
			if c.Now() >= p.late {
				c.mount(who)
			}
			c.mountAgain(who, uid, address)
		}
	})
}

// podChanged has the kubelet look after what is mounted: it does for a pod that was written to.
func (c *Cluster) podChanged(of string) {
	who, ours := c.whose(of)
	if !ours || c.pods[who].uid == "" {
		return
	}
	p := c.pods[who]
	p.looks++
	looks := p.looks
	c.After(c.Between(100*time.Millisecond, 2*time.Second), func() {
		switch {
		case p.looks != looks || p.uid == "":
		case c.Now() < p.late:
			c.After(p.late-c.Now(), func() { c.podChanged(of) })
		default:
			c.mount(who)
		}
	})
}

// mount makes everything that is mounted what is stored.
func (c *Cluster) mount(who int) {
	p := c.pods[who]
	var object corev1.Pod
	if !c.powered(who) || c.get(podName(who), &object) != nil || object.UID != p.uid {
		return
	}
	var leaf corev1.Secret
	if c.get(trust.Mounted(&object), &leaf) == nil {
		p.certificate = c.alias(wire.CertificateIdentity(
			leaf.Data[wire.KeyCertificate], leaf.Data[wire.KeyPrivateKey], leaf.Data[wire.KeyAuthority]))
	}
	c.of.mount(who, &object)
}

// alias is a name for what identifies a certificate: keys are made at random, and one schedule is to be one trace.
func (c *Cluster) alias(identity string) string {
	at := slices.Index(c.certificates, identity)
	if at < 0 {
		at = len(c.certificates)
		c.certificates = append(c.certificates, identity)
	}
	return "certificate-" + strconv.Itoa(at)
}

// identity is what has that name.
func (c *Cluster) identity(alias string) string {
	var at int
	if _, err := fmt.Sscanf(alias, "certificate-%d", &at); err != nil {
		return alias
	}
	return c.certificates[at]
}

// endPod tells a container to end whose pod was told to, and takes pods away that have none.
func (c *Cluster) endPod(v *kube.View) (bool, error) {
	for who, p := range c.pods {
		object := v.Pod(podName(who))
		if !c.powered(who) {
			continue
		}
		switch ends := object == nil || object.DeletionTimestamp != nil; {
		case p.uid == "" && object != nil && ends:
			return true, v.Delete(v, object, client.GracePeriodSeconds(0))
		case p.uid != "" && !p.told && (ends || object.UID != p.uid):
			p.told = true
			uid := p.uid
			c.Note(who, "the pod is told to end")
			c.TellToEnd(who)
			c.After(c.names.grace, func() { c.finish(who, uid) })
			return true, nil
		}
	}
	return false, nil
}

// Ended implements sim.Cluster.
func (c *Cluster) Ended(who int) {
	uid := c.pods[who].uid
	c.After(c.Between(100*time.Millisecond, time.Second), func() { c.finish(who, uid) })
}

// finish is the end of a pod that was told to.
func (c *Cluster) finish(who int, uid types.UID) {
	p := c.pods[who]
	if p.uid != uid || !c.powered(who) {
		return
	}
	c.EndPod(who)
	p.uid = ""
	c.stir()
}

// PoweredOff implements sim.Cluster.
func (c *Cluster) PoweredOff(who int, lasting time.Duration) {
	p, off := c.pods[who], c.Now()+lasting
	if off <= p.off {
		return // It comes back when it would have anyway, once.
	}
	p.off = off
	c.After(p.off-c.Now(), func() {
		if p.off == off {
			c.powerOn(who)
		}
	})
	c.After(c.Between(10*time.Second, 50*time.Second), func() {
		if p.off == off && !c.powered(who) {
			c.noticeAway(who, off)
		}
	})
}

// noticeAway is what the cluster does about a node that says nothing.
func (c *Cluster) noticeAway(who int, off time.Duration) {
	c.Note(-1, "node %d is noticed to be away", who+1)
	c.tellNode(who, "yes", corev1.ConditionUnknown)
	c.tellReady(who, false)
	c.After(evictAfter, func() {
		var object corev1.Pod
		if p := c.pods[who]; p.off == off && !c.powered(who) && c.get(podName(who), &object) == nil {
			c.must(c.cluster.Delete(c.ctx, &object))
			c.show()
		}
	})
}

func (c *Cluster) tellNode(who int, away string, status corev1.ConditionStatus) {
	var node corev1.Node
	c.must(c.cluster.Get(c.ctx, client.ObjectKey{Name: fmt.Sprintf("node%d", who+1)}, &node))
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, kube.Away, away)
	c.must(c.cluster.Update(c.ctx, &node))
	node.Status.Conditions = []corev1.NodeCondition{{
		Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(c.clock()),
	}}
	c.must(c.cluster.Status().Update(c.ctx, &node))
	c.show()
}

// powerOn starts the containers of the node again whose pods were not told to end.
func (c *Cluster) powerOn(who int) {
	p := c.pods[who]
	c.tellNode(who, "", corev1.ConditionTrue)
	var object corev1.Pod
	switch found := c.get(podName(who), &object) == nil; {
	case p.uid == "":
	case found && object.UID == p.uid && object.DeletionTimestamp == nil:
		c.setReady(&object, corev1.ConditionFalse)
		c.mount(who)
		c.must(c.startContainer(who, &object))
	default:
		c.EndPod(who)
		p.uid = ""
	}
	c.show()
	c.stir()
}
