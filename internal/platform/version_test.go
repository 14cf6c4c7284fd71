package platform_test

import (
	"strings"
	"testing"

	"meridian.dev/meridian/internal/platform"
)

func TestVersion(t *testing.T) {
	for reported, want := range map[string]struct{ refusal, remark string }{
		"v1.36.3":          {},
		"v1.35.0-gke.100":  {},
		"v1.41.0+rke2r1":   {},
		"v1.34.9":          {},
		"v1.33.0+k3s1":     {},
		"v1.32.11-eks-abc": {refusal: "Kubernetes v1.32.11-eks-abc is too old: Meridian needs 1.33 or newer"},
		"v1.9.1":           {refusal: "too old"},
		"v1.36+":           {},
		"":                 {remark: "cannot be read"},
		"v2.0.0":           {remark: "cannot be read"},
		"latest":           {remark: "cannot be read"},
	} {
		t.Run(reported, func(t *testing.T) {
			refusal, remark := platform.Version(reported)
			if !strings.Contains(refusal, want.refusal) || (refusal == "") != (want.refusal == "") {
				t.Errorf("it is refused with %q, want %q", refusal, want.refusal)
			}
			if !strings.Contains(remark, want.remark) || (remark == "") != (want.remark == "") {
				t.Errorf("the remark is %q, want %q", remark, want.remark)
			}
		})
	}
}
