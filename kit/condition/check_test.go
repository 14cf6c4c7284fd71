package condition_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/kit/condition"
)

const (
	yes     = metav1.ConditionTrue
	no      = metav1.ConditionFalse
	unknown = metav1.ConditionUnknown
)

func brief(typ string, status metav1.ConditionStatus) metav1.Condition {
	return stated(typ, status, "Because", "")
}

// TestRead goes through the kstatus rules one by one, traps included.
func TestRead(t *testing.T) {
	list := func(conditions ...metav1.Condition) []metav1.Condition { return conditions }
	for name, test := range map[string]struct {
		view condition.View
		want condition.Verdict
		why  string
	}{
		"deletion wins over all": {
			condition.View{Deleting: true, Generation: 2, ObservedGeneration: 1, Conditions: list(brief("Stalled", yes))},
			condition.Terminating, "the object is being deleted",
		},
		"an old generation wins over conditions": {
			condition.View{Generation: 2, ObservedGeneration: 1, Conditions: list(brief("Ready", yes))},
			condition.InProgress, "generation 2 is not observed yet, the latest observed is 1",
		},
		"a status that only has its default": {
			condition.View{Generation: 1, ObservedGeneration: -1},
			condition.InProgress, "generation 1 is not observed yet, the latest observed is -1",
		},
		"no observed generation is no objection": {
			condition.View{Generation: 2, Conditions: list(brief("Ready", yes))},
			condition.Current, "Ready is True: Because",
		},
		"reconciling first": {
			condition.View{Conditions: list(brief("Reconciling", yes), brief("Stalled", yes), brief("Ready", yes))},
			condition.InProgress, "Reconciling is True: Because",
		},
		"stalled first": {
			condition.View{Conditions: list(brief("Stalled", yes), brief("Reconciling", yes), brief("Ready", yes))},
			condition.Failed, "Stalled is True: Because",
		},
		"reconciling false": {
			condition.View{Conditions: list(brief("Reconciling", no), brief("Stalled", unknown), brief("Ready", yes))},
			condition.Current, "Ready is True: Because",
		},
		"ready false": {
			condition.View{Conditions: list(stated("Ready", no, "Because", "one Pod is missing"))},
			condition.InProgress, "Ready is False: Because: one Pod is missing",
		},
		"ready unknown": {
			condition.View{Conditions: list(brief("Ready", unknown))}, condition.InProgress, "Ready is Unknown: Because",
		},
		"ready with a status of its own": {
			condition.View{Conditions: list(brief("Ready", "Perhaps"))}, condition.Current,
			`the status "Perhaps" of Ready is none that counts, so the object counts as ready`,
		},
		"progressing and degraded are not looked at": {
			condition.View{Conditions: list(brief("Progressing", yes), brief("Degraded", yes))},
			condition.Current, "there is no Ready condition, so the object counts as ready",
		},
	} {
		t.Run(name, func(t *testing.T) {
			verdict, why := condition.Read(test.view)
			if diff := cmp.Diff([]string{string(test.want), test.why}, []string{string(verdict), why}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestCheckProvesTheReading is the promise of the package comment, shown for
// every combination of the five types (absent, True, False, Unknown) in three
// orders: when Check has no objection, then the verdict follows from Ready and
// Stalled alone and does not depend on the order; and when Check objects to the
// meaning, one of the contradictions is really there.
func TestCheckProvesTheReading(t *testing.T) {
	types := []string{"Ready", "Reconciling", "Progressing", "Stalled", "Degraded"}
	statuses := []metav1.ConditionStatus{"", yes, no, unknown}
	accepted, refused := 0, 0
	for code := range 1 << (2 * len(types)) {
		at := map[string]metav1.ConditionStatus{}
		var conditions []metav1.Condition
		for i, typ := range types {
			at[typ] = statuses[code>>(2*i)&3]
			if at[typ] != "" {
				conditions = append(conditions, brief(typ, at[typ]))
			}
		}
		contradicts := at["Ready"] == "" ||
			at["Ready"] == yes && (at["Reconciling"] == yes || at["Progressing"] == yes || at["Stalled"] == yes) ||
			at["Reconciling"] == yes && at["Stalled"] == yes
		want := condition.InProgress
		if at["Ready"] == yes {
			want = condition.Current
		} else if at["Stalled"] == yes {
			want = condition.Failed
		}
		for turn := range len(conditions) {
			view := condition.View{Generation: 1, ObservedGeneration: 1}
			view.Conditions = append(append(view.Conditions, conditions[turn:]...), conditions[:turn]...)
			problems := condition.Check(view)
			if (len(problems) > 0) != contradicts {
				t.Fatalf("%v: problems %v", at, problems)
			}
			if contradicts {
				refused++
				continue
			}
			accepted++
			if verdict, why := condition.Read(view); verdict != want {
				t.Fatalf("%v reads as %s (%s), not %s", at, verdict, why, want)
			}
		}
	}
	if accepted == 0 || refused == 0 {
		t.Errorf("accepted %d, refused %d", accepted, refused)
	}
}

// TestCheckRules breaks each rule alone and expects exactly that rule.
func TestCheckRules(t *testing.T) {
	good := func() condition.View {
		return condition.View{Generation: 1, ObservedGeneration: 1,
			Conditions: []metav1.Condition{brief("Ready", no), brief("Reconciling", no), brief("Stalled", no)}}
	}
	if problems := condition.Check(good()); len(problems) > 0 {
		t.Fatalf("the start is not good: %v", problems)
	}
	for name, test := range map[string]struct {
		spoil func(*condition.View)
		rule  condition.Rule
		typ   string
	}{
		"type":      {func(v *condition.View) { v.Conditions[1].Type = "not a type" }, condition.WellFormed, "not a type"},
		"status":    {func(v *condition.View) { v.Conditions[0].Status = "Yes" }, condition.WellFormed, "Ready"},
		"no reason": {func(v *condition.View) { v.Conditions[0].Reason = "" }, condition.WellFormed, "Ready"},
		"reason":    {func(v *condition.View) { v.Conditions[0].Reason = "some_reason" }, condition.WellFormed, "Ready"},
		"message": {func(v *condition.View) { v.Conditions[0].Message = strings.Repeat("m", 32769) },
			condition.WellFormed, "Ready"},
		"time": {func(v *condition.View) { v.Conditions[0].LastTransitionTime = metav1.Time{} },
			condition.WellFormed, "Ready"},
		"twice":      {func(v *condition.View) { v.Conditions[2].Type = "Reconciling" }, condition.OneOfEach, "Reconciling"},
		"unobserved": {func(v *condition.View) { v.ObservedGeneration = 0 }, condition.SameGeneration, ""},
		"ahead": {func(v *condition.View) {
			v.Generation, v.ObservedGeneration = 4, 5
			for i := range v.Conditions {
				v.Conditions[i].ObservedGeneration = 5
			}
		}, condition.SameGeneration, ""},
		"mixed":    {func(v *condition.View) { v.Conditions[2].ObservedGeneration = 2 }, condition.SameGeneration, "Stalled"},
		"no Ready": {func(v *condition.View) { v.Conditions = v.Conditions[1:] }, condition.ReadyPresent, "Ready"},
		"ready and stalled": {func(v *condition.View) {
			v.Conditions[0].Status, v.Conditions[2].Status = yes, yes
		}, condition.ReadyAlone, "Stalled"},
		"ready and progressing": {func(v *condition.View) {
			v.Conditions[0].Status, v.Conditions[1] = yes, brief("Progressing", yes)
		}, condition.ReadyAlone, "Progressing"},
		"stalled and reconciling": {func(v *condition.View) {
			v.Conditions[1].Status, v.Conditions[2].Status = yes, yes
		}, condition.NotBoth, "Stalled"},
	} {
		t.Run(name, func(t *testing.T) {
			view := good()
			test.spoil(&view)
			problems := condition.Check(view)
			if len(problems) != 1 || problems[0].Rule != test.rule || problems[0].Type != test.typ {
				t.Errorf("got %v, want one problem of %s with %q", problems, test.rule, test.typ)
			}
		})
	}
}

// TestLaggingStatusIsNoProblem: a status that has not caught up with the object
// is ordinary, and reads as InProgress.
func TestLaggingStatusIsNoProblem(t *testing.T) {
	view := condition.View{Generation: 2, ObservedGeneration: 1, Conditions: []metav1.Condition{brief("Ready", yes)}}
	if problems := condition.Check(view); len(problems) > 0 {
		t.Error(problems)
	}
	if verdict, _ := condition.Read(view); verdict != condition.InProgress {
		t.Errorf("reads as %s", verdict)
	}
}

// FuzzMerge takes two passes with arbitrary claims and states what every merge
// must keep to.
func FuzzMerge(f *testing.F) {
	f.Add("Ready", "True", "False", int64(60))
	f.Add("Stalled \xff", "True", "True", int64(-5))
	f.Fuzz(func(t *testing.T, typ, one, two string, seconds int64) {
		at := condition.At{Generation: seconds, Now: noon}
		claim := condition.True(typ, condition.Reason(typ), typ)
		claim.Status = metav1.ConditionStatus(one)
		first := condition.Merge(nil, at, claim)
		next := claim
		next.Status = metav1.ConditionStatus(two)
		at.Now = noon.Add(time.Duration(seconds%1e6) * time.Second)
		second := condition.Merge(first, at, next)
		moved := !second[0].LastTransitionTime.Equal(&first[0].LastTransitionTime)
		if moved != (one != two && !at.Now.Equal(noon)) {
			t.Errorf("from %q to %q: moved is %t", one, two, moved)
		}
		if diff := cmp.Diff(second, condition.Merge(second, at, next)); diff != "" {
			t.Errorf("merging again changes the result:\n%s", diff)
		}
		condition.Check(condition.View{Conditions: second}) // It must not panic.
	})
}
