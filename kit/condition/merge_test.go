package condition_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"meridian.dev/meridian/kit/condition"
)

var (
	noon  = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	later = noon.Add(time.Hour)
)

// stated is a condition as Merge would have made it at noon.
func stated(typ string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{
		Type: typ, Status: status, Reason: reason, Message: message,
		ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(noon),
	}
}

func TestMerge(t *testing.T) {
	previous := []metav1.Condition{
		stated("Ready", metav1.ConditionFalse, "Waiting", "for one"),
		stated("Old", metav1.ConditionTrue, "Forgotten", ""),
	}
	with := func(c metav1.Condition, change func(*metav1.Condition)) metav1.Condition {
		change(&c)
		return c
	}
	tests := map[string]struct {
		at     condition.At
		claims []condition.Claim
		want   []metav1.Condition
	}{
		"nothing new keeps everything": {
			at: condition.At{Generation: 1, Now: later},
			claims: []condition.Claim{
				condition.False("Ready", "Waiting", "for one"), condition.True("Old", "Forgotten", ""),
			},
			want: previous,
		},
		"another message and reason keep the time": {
			at:     condition.At{Generation: 1, Now: later},
			claims: []condition.Claim{condition.False("Ready", "Resting", "for two")},
			want:   []metav1.Condition{stated("Ready", metav1.ConditionFalse, "Resting", "for two")},
		},
		"another generation keeps the time": {
			at:     condition.At{Generation: 2, Now: later},
			claims: []condition.Claim{condition.False("Ready", "Waiting", "for one")},
			want: []metav1.Condition{with(previous[0], func(c *metav1.Condition) {
				c.ObservedGeneration = 2
			})},
		},
		"another status moves the time": {
			at:     condition.At{Generation: 1, Now: later},
			claims: []condition.Claim{condition.Unknown("Ready", "Waiting", "for one")},
			want: []metav1.Condition{with(previous[0], func(c *metav1.Condition) {
				c.Status, c.LastTransitionTime = metav1.ConditionUnknown, metav1.NewTime(later)
			})},
		},
		"the claims give the order": {
			at: condition.At{Generation: 1, Now: noon},
			claims: []condition.Claim{
				condition.True("New", "Added", ""), condition.True("Old", "Forgotten", ""),
				condition.False("Ready", "Waiting", "for one"),
			},
			want: []metav1.Condition{
				stated("New", metav1.ConditionTrue, "Added", ""), previous[1], previous[0],
			},
		},
		"no claim leaves nothing": {at: condition.At{Generation: 1, Now: later}, want: []metav1.Condition{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(previous)
			got := condition.Merge(previous, test.at, test.claims...)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(before, previous); diff != "" {
				t.Errorf("the previous conditions were changed:\n%s", diff)
			}
		})
	}
}

func TestZeroTransitionTimeIsRepaired(t *testing.T) {
	broken := []metav1.Condition{{Type: "Ready", Status: metav1.ConditionTrue, Reason: "AllWell"}}
	got := condition.Merge(broken, condition.At{Generation: 1, Now: later}, condition.True("Ready", "AllWell", ""))
	if !got[0].LastTransitionTime.Equal(&metav1.Time{Time: later}) {
		t.Errorf("the transition time is %v", got[0].LastTransitionTime)
	}
}

// TestStoredAndReadBack shows that what an API server stores and gives back
// merges into itself, although it keeps neither fractions of seconds nor the
// zone: otherwise an idle object would be written for ever.
func TestStoredAndReadBack(t *testing.T) {
	claims := []condition.Claim{
		condition.True("Ready", "AllWell", "as \xff wished"), condition.False("Stalled", "AllWell", "fine"),
	}
	zone := time.FixedZone("somewhere", 2*60*60)
	first := condition.Merge(nil, condition.At{Generation: 3, Now: noon.In(zone).Add(123456789)}, claims...)
	stored, err := json.Marshal(first)
	if err != nil {
		t.Fatal(err)
	}
	var back []metav1.Condition
	if err := json.Unmarshal(stored, &back); err != nil {
		t.Fatal(err)
	}
	again := condition.Merge(back, condition.At{Generation: 3, Now: later}, claims...)
	if diff := cmp.Diff(back, again); diff != "" {
		t.Errorf("an idle pass changes the status:\n%s", diff)
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("reading back changed the conditions:\n%s", diff)
	}
}

func TestLongMessages(t *testing.T) {
	for name, message := range map[string]string{
		"ascii":          strings.Repeat("a", 40000),
		"two bytes":      strings.Repeat("é", 20000),
		"two bytes, odd": "a" + strings.Repeat("é", 20000),
		"four bytes":     "abc" + strings.Repeat("🌍", 10000),
		"not UTF-8":      strings.Repeat("\xff", 20000),
	} {
		t.Run(name, func(t *testing.T) {
			got := condition.Merge(nil, condition.At{}, condition.True("Ready", "AllWell", message))[0].Message
			if len(got) > 32768 || len(got) < 32768-8 {
				t.Errorf("the message has %d bytes", len(got))
			}
			if !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
				t.Errorf("the message ends in %q", got[len(got)-12:])
			}
		})
	}
	just := strings.Repeat("a", 32768)
	if got := condition.Merge(nil, condition.At{}, condition.True("Ready", "AllWell", just))[0].Message; got != just {
		t.Errorf("a message that fits was cut to %d bytes", len(got))
	}
}

func TestReasons(t *testing.T) {
	for reason, valid := range map[condition.Reason]bool{
		"A": true, "AllWell": true, "HTTP2Refused": true, "Phase2": true,
		"": false, "allWell": false, "All Well": false, "All_Well": false, "2Phases": false, "Größe": false,
		"All-Well": false, "AllWell\n": false,
		condition.Reason(strings.Repeat("A", 64)): true, condition.Reason(strings.Repeat("A", 65)): false,
	} {
		if err := reason.Validate(); (err == nil) != valid {
			t.Errorf("%q: %v", reason, err)
		}
	}
}

func TestCatalogue(t *testing.T) {
	_, err := condition.NewCatalogue(
		condition.Entry{Reason: "Twice", Means: "One."}, condition.Entry{Reason: "bad", Means: "Lower case."},
		condition.Entry{Reason: "Twice", Means: "Two."}, condition.Entry{Reason: "Silent", Means: " \n"},
	)
	want := []string{
		"make a catalogue of reasons: the reason \"Silent\" is not documented",
		"the reason \"Twice\" is documented twice",
		"the reason \"bad\" is not a CamelCase word",
	}
	if err == nil {
		t.Fatal("a broken catalogue was made")
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Error(diff)
	}

	catalogue := condition.MustCatalogue(
		condition.Entry{Reason: "B", Means: "Second."}, condition.Entry{Reason: "A", Means: "First."})
	wantEntries := []condition.Entry{{Reason: "A", Means: "First."}, {Reason: "B", Means: "Second."}}
	if diff := cmp.Diff(wantEntries, catalogue.Entries()); diff != "" {
		t.Error(diff)
	}
	conditions := []metav1.Condition{{Reason: "C"}, {Reason: "A"}, {Reason: ""}}
	if diff := cmp.Diff([]condition.Reason{"C", ""}, catalogue.Unknown(conditions)); diff != "" {
		t.Error(diff)
	}
	if missing, orphaned := catalogue.Compare([]string{"B", "A"}); missing != nil || orphaned != nil {
		t.Errorf("missing %q, orphaned %q", missing, orphaned)
	}
}

func TestMustCataloguePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a broken catalogue was made")
		}
	}()
	condition.MustCatalogue(condition.Entry{})
}
