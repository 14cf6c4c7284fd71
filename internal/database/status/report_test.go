package status_test

import (
	"strings"
	"testing"
	"time"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/status"
	"meridian.dev/meridian/kit/condition"
)

// TestErrorsOfAPass says what a user gets to know of a pass that went wrong. The stories of passes that went well are
// beside the plan.
func TestErrorsOfAPass(t *testing.T) {
	tests := map[string]struct {
		pass         status.Pass
		typ, reason  string
		wantVerdict  condition.Verdict
		wantSentence string
	}{
		"a write failed": {
			pass: status.Pass{Problem: "quota exceeded"}, typ: v1alpha1.ConditionProgressing, reason: "WriteFailed",
			wantVerdict: condition.InProgress, wantSentence: "quota exceeded",
		},
		"a write is refused for good": {
			pass: status.Pass{Refused: "field is immutable"}, typ: v1alpha1.ConditionStalled, reason: "WriteRefused",
			wantVerdict: condition.Failed, wantSentence: "field is immutable",
		},
		"a plan is refused": {
			pass: status.Pass{Violations: []string{"DB5: no claim asks for less"}}, typ: v1alpha1.ConditionStalled,
			reason: "PlanRefused", wantVerdict: condition.Failed, wantSentence: "DB5",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.pass.Snapshot = database.Snapshot{
				Now: time.Unix(1, 0), Identity: database.Identity{Name: "cities", Generation: 3},
			}
			after, _ := status.Report(v1alpha1.GeoDatabaseStatus{}, test.pass)
			found := condition.Find(after.Conditions, test.typ)
			if found == nil || found.Status != "True" || found.Reason != test.reason ||
				!strings.Contains(found.Message, test.wantSentence) {
				t.Errorf("%s is %+v", test.typ, found)
			}
			view := condition.View{Generation: 3, ObservedGeneration: after.ObservedGeneration, Conditions: after.Conditions}
			if problems := condition.Check(view); len(problems) > 0 {
				t.Errorf("misleading: %v", problems)
			}
			if verdict, _ := condition.Read(view); verdict != test.wantVerdict {
				t.Errorf("tools read %s, want %s", verdict, test.wantVerdict)
			}
			if unknown := status.Reasons.Unknown(after.Conditions); len(unknown) > 0 {
				t.Errorf("not in the catalogue: %v", unknown)
			}
		})
	}
}

// TestEventsAreToldOnce gives the same pass twice: a state that lasts is no news.
func TestEventsAreToldOnce(t *testing.T) {
	pass := status.Pass{
		Snapshot: database.Snapshot{Identity: database.Identity{Name: "cities", Generation: 1}},
		Plan: database.Plan{Decided: database.Decided{Holds: []database.Hold{{
			Name: "ForeignChild", Message: "taken", Weight: database.Stalled,
		}}}},
	}
	after, first := status.Report(v1alpha1.GeoDatabaseStatus{}, pass)
	_, second := status.Report(after, pass)
	if len(first) != 1 || first[0].Reason != "ForeignChild" || !first[0].Warning {
		t.Errorf("first: %+v", first)
	}
	if len(second) != 0 {
		t.Errorf("second: %+v", second)
	}
}

// TestBirth tells of copies that are still being made without a warning, and warns as soon as that is not all.
func TestBirth(t *testing.T) {
	short := func(reason, message string) status.Pass {
		return status.Pass{
			Snapshot: database.Snapshot{Identity: database.Identity{Name: "cities", Generation: 1}},
			Plan: database.Plan{Decided: database.Decided{Holds: []database.Hold{{
				Name: reason, Message: message, Weight: database.Degraded,
			}}}},
		}
	}
	begins := short(database.ReasonBeingMade, "1 of 3 instances are well")
	born, first := status.Report(v1alpha1.GeoDatabaseStatus{}, begins)
	if len(first) != 1 || first[0].Reason != database.ReasonBeingMade || first[0].Warning {
		t.Errorf("at birth: %+v", first)
	}
	after, same := status.Report(born, short(database.ReasonBeingMade, "2 of 3 instances are well"))
	if len(same) != 0 {
		t.Errorf("while it goes on: %+v", same)
	}
	_, worse := status.Report(after, short("CopiesMissing", "2 of 3 instances are well"))
	if len(worse) != 1 || !worse[0].Warning {
		t.Errorf("when one is missing: %+v", worse)
	}
}
