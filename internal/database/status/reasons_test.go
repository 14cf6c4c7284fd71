package status_test

import (
	"os"
	"regexp"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/internal/database/status"
)

// TestEveryReasonOfAnAgentIsKnown reads the reasons that agents may give: each may become that of a condition.
func TestEveryReasonOfAnAgentIsKnown(t *testing.T) {
	source, err := os.ReadFile("../../wire/reason.go")
	if err != nil {
		t.Fatal(err)
	}
	var conditions []metav1.Condition
	for _, found := range regexp.MustCompile(`Reason = "(\w+)"`).FindAllSubmatch(source, -1) {
		conditions = append(conditions, metav1.Condition{Reason: string(found[1])})
	}
	if len(conditions) < 20 {
		t.Fatalf("only %d reasons were found", len(conditions))
	}
	if unknown := status.Reasons.Unknown(conditions); len(unknown) > 0 {
		t.Errorf("not in the catalogue: %v", unknown)
	}
}
