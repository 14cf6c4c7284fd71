package render_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/kit/scenario"
)

// TestTrialGolden renders the pod of a restore on trial.
func TestTrialGolden(t *testing.T) {
	scenario.Run(t, "testdata/trial/*.txtar", func(in scenario.Files) (out scenario.Files) {
		var snapshot database.Snapshot
		in.YAML("snapshot.yaml", &snapshot)
		pod, err := render.TrialPod(design.Of(snapshot), database.TrialWish{For: "due-1", Try: 1})
		if err != nil {
			in.Fail(err)
		}
		out.SetYAML("pod.yaml", pod)
		return out
	})
}

// shareNoLabel fails for each label of the pod that stands in a child of the database as well.
func shareNoLabel(t *testing.T, pod *corev1.Pod, made database.Design) {
	t.Helper()
	children, err := render.Children(made)
	if err != nil {
		t.Fatal(err)
	}
	for _, child := range children {
		content, err := json.Marshal(child.Object)
		if err != nil {
			t.Fatal(err)
		}
		for label, value := range pod.Labels {
			if label != database.LabelManagedBy && strings.Contains(string(content), `"`+label+`":"`+value+`"`) {
				t.Errorf("%s %s has the label %s=%s as well", child.Kind, child.Name, label, value)
			}
		}
	}
}

// TestTrialIsNoInstance: nothing by which a pod is known as an instance is on that of a restore on trial, whatever
// the user lays over instances: no label that anything selects, no port, no certificate, no credentials, no token.
func TestTrialIsNoInstance(t *testing.T) {
	var snapshot database.Snapshot
	document := `{"name":"cities","namespace":"gis","uid":"db-1",
		"images":{"agent":"m:1","server":"postgis","anyUser":true},
		"settings":{"instances":["cities-1"],"leaseUID":"lease-1"},"route":{"family":"IPv4"},
		"spec":{"instances":1,"version":"17","storage":{"size":"1Gi","walSize":"2Gi"},
		"bootstrap":{"database":"app","owner":"app"},"backup":{"repository":{"claim":{"name":"backups"}}},
		"podTemplate":{"metadata":{"labels":{"team":"maps"}},"spec":{"hostNetwork":false,
		"containers":[{"name":"database","env":[{"name":"HTTPS_PROXY","value":"p"}]},{"name":"beside","image":"b"}],
		"volumes":[{"name":"more","emptyDir":{}}]}}}}`
	if err := json.Unmarshal([]byte(document), &snapshot); err != nil {
		t.Fatal(err)
	}
	made := design.Of(snapshot)
	pod, err := render.TrialPod(made, database.TrialWish{For: "due-1", Try: 1})
	if err != nil {
		t.Fatal(err)
	}
	shareNoLabel(t, pod, made)
	if len(pod.Spec.Containers) != 1 || pod.Spec.Containers[0].Name != "trial" || pod.Spec.RestartPolicy != "Never" {
		t.Fatalf("the containers are %+v", pod.Spec.Containers)
	}
	container := pod.Spec.Containers[0]
	if len(container.Ports) > 0 || container.ReadinessProbe != nil || pod.Spec.ServiceAccountName != "" {
		t.Errorf("it may be reached: %+v", container)
	}
	proxied := false
	for _, variable := range container.Env {
		proxied = proxied || variable.Name == "HTTPS_PROXY"
	}
	if !proxied {
		t.Error("what a user gives to instances to get to the repository is not there")
	}
	var volumes []string
	for _, volume := range pod.Spec.Volumes {
		volumes = append(volumes, volume.Name)
		if volume.Ephemeral != nil {
			asked := volume.Ephemeral.VolumeClaimTemplate.Spec.Resources.Requests.Storage()
			if asked.String() != "3Gi" {
				t.Errorf("the volume has %s", asked)
			}
		}
	}
	slices.Sort(volumes)
	if got := strings.Join(volumes, " "); got != "agent backups repository run scratch settings shm tmp" {
		t.Errorf("it mounts %s", got)
	}
	if *pod.Spec.ActiveDeadlineSeconds != int64((2*60+3*3)*60) {
		t.Errorf("it may take %d s", *pod.Spec.ActiveDeadlineSeconds)
	}
}

// TestTrialTouchesNoTemplate: what is written about restores on trial restarts nothing.
func TestTrialTouchesNoTemplate(t *testing.T) {
	var snapshot database.Snapshot
	snapshot.Identity = database.Identity{Namespace: "gis", Name: "cities", UID: "db-1"}
	snapshot.Spec.Version, snapshot.Settings.LeaseUID = "17", "lease-1"
	snapshot.Settings.Instances = []string{"cities-1"}
	snapshot.Spec.Backup = &v1alpha1.Backup{}
	before := render.Template(design.Of(snapshot), "cities-1")
	snapshot.Spec.Backup = &v1alpha1.Backup{Verify: "weekly", VerifyNow: "now"}
	snapshot.Backup.Trials.Last = database.TrialNote{Pod: "uid", Outcome: database.TrialGood}
	if after := render.Template(design.Of(snapshot), "cities-1"); after != before {
		t.Error("the pods are to be made anew")
	}
}
