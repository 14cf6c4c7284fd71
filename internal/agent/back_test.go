//go:build cluster

package agent_test

import (
	"context"
	"os/exec"
	"slices"
	"testing"
	"time"

	"meridian.dev/meridian/internal/wire"
)

// claim makes the claim of an instance. Nobody binds it here: what counts is its UID.
func (r *rig) claim(name string) {
	r.t.Helper()
	r.apply(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: ` + name + `},
  spec: {accessModes: [ReadWriteOncePod], resources: {requests: {storage: 1Gi}}}}`)
}

// snapshot keeps the volume of a pod that does not run, putBack makes it that again, under another claim.
func (p *pod) snapshot() { p.copyVolume("volume", "snapshot") }

func (p *pod) putBack() {
	p.t.Helper()
	p.copyVolume("snapshot", "volume")
	p.kubectl("delete", "persistentvolumeclaim", p.name, "--wait=false")
	p.kubectl("patch", "persistentvolumeclaim", p.name, "--type=merge", `-p={"metadata":{"finalizers":null}}`)
	p.rig.claim(p.name)
}

func (p *pod) copyVolume(from, to string) {
	p.t.Helper()
	for _, words := range [][]string{{"rm", "-rf", p.at(to)}, {"cp", "-a", p.at(from), p.at(to)}} {
		if output, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			p.t.Fatalf("%v: %v: %s", words, err, output)
		}
	}
}

// accept is a user's word for the copy of a pod.
func (p *pod) accept() {
	p.t.Helper()
	uid, ok := p.api.Kubectl(context.Background(), "", "--namespace="+p.namespace, "get", "persistentvolumeclaim", p.name,
		"-o=jsonpath={.metadata.uid}")
	if !ok {
		p.t.Fatal(uid)
	}
	p.kubectl("annotate", "--overwrite", "persistentvolumeclaim", p.name, wire.AnnotationAcceptCopy+"="+uid)
}

// I1: a volume that was put back from an older state does not count as the member that it was.
func TestPutBack(t *testing.T) {
	r := newRig(t, 3)
	r.start()
	r.awaitAll()
	r.makeTable()
	rows := r.begin()
	r.await("traffic", func() bool { return rows.count() > 20 })
	t.Run("a replica", func(t *testing.T) { testReplicaPutBack(t, r, rows) })
	t.Run("all at once", func(t *testing.T) { testAllPutBack(t, r) })
	before := rows.count()
	r.await("traffic again", func() bool { return rows.count() > before+5 })
	rows.check()
}

func testReplicaPutBack(t *testing.T, r *rig, rows *traffic) {
	p := r.others(r.primary())[0]
	p.stop()
	p.snapshot()
	p.start()
	r.awaitAll()
	_, before := r.record()
	seen := rows.count()
	r.await("traffic", func() bool { return rows.count() > seen+20 })
	p.stop()
	p.putBack()
	p.start()
	took := r.await("another copy", func() bool {
		_, record := r.record()
		return !slices.Equal(record.Members, before.Members)
	})
	t.Logf("a member with a new copy after %s, all members after %s more", took, r.awaitAll())
	if _, after := r.record(); after.Term != before.Term {
		t.Errorf("term %d, then %d", before.Term, after.Term)
	}
}

// testAllPutBack puts the whole database back: nothing is removed and nobody leads, until a user says so.
func testAllPutBack(t *testing.T, r *rig) {
	_, before := r.record()
	discarded := make([]int, len(r.pods))
	for index, p := range r.pods {
		discarded[index] = p.logged("BeginDiscard")
		p.stop()
		p.snapshot()
		p.putBack()
	}
	r.start()
	for _, p := range r.pods {
		r.awaitReport(p, "a hold", func(report wire.Report) bool { return report.Reason == wire.ReasonVolumePutBack })
	}
	time.Sleep(3 * time.Duration(r.settings.LeaseMilliseconds) * time.Millisecond)
	for index, p := range r.pods {
		if report, err := p.report(); err != nil || report.State != wire.StateFailed || p.postmaster() != 0 ||
			p.logged("BeginDiscard") != discarded[index] {
			t.Errorf("report %+v, %v\n%s", report, err, p.tail())
		}
	}
	for _, p := range r.pods {
		p.accept()
	}
	t.Logf("all members %s after they were accepted", r.awaitAll())
	if _, after := r.record(); after.Timeline <= before.Timeline || !slices.Equal(after.Members, before.Members) {
		t.Errorf("%+v, then %+v", before, after)
	}
}
