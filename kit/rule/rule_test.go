package rule_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/kit/rule"
)

func TestRunEndsWithTheStepThatEndsThePlan(t *testing.T) {
	var did []string
	step := func(id string, end bool) rule.Step[*[]string] {
		return rule.Do(id, func(draft *[]string) bool {
			*draft = append(*draft, id)
			return end
		}, "it is a test")
	}
	rule.Run([]rule.Step[*[]string]{step("a.one", false), step("a.two", true), step("a.three", false)}, &did)
	if diff := cmp.Diff([]string{"a.one", "a.two"}, did); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestProblems(t *testing.T) {
	for name, test := range map[string]struct {
		rules []rule.Rule
		want  []string
	}{
		"sound":     {[]rule.Rule{{ID: "a.one", Why: "w"}, {ID: "b.one", Why: "w", Was: []string{"A1"}}}, nil},
		"twice":     {[]rule.Rule{{ID: "a.one", Why: "w"}, {ID: "a.one", Why: "v"}}, []string{"a.one: the id is used twice"}},
		"no reason": {[]rule.Rule{{ID: "a.one", Why: " "}}, []string{"a.one: has no reason"}},
		"no loop":   {[]rule.Rule{{ID: "V7", Why: "w"}}, []string{`"V7": an id is loop.words-of-the-rule`}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, rule.Problems(test.rules)); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}
