// Package rule gives every decision and every prohibition of a control loop a name that can be looked up.
//
// A planner is a list of steps, applied in order until one ends the plan. What a plan must never do is a list of
// invariants, written independently of the steps and checked before anything is carried out. Both are values with an
// id, a name and a reason, so that a page of documentation can be generated from them, and a violation, a log line and
// a test can name them. The package is pure: it runs functions that it is given and does nothing else.
//
// Start reading at Rule.
package rule

import (
	"fmt"
	"regexp"
	"strings"
)

// Rule is what a loop does, or never does, and why.
type Rule struct {
	// ID names the loop and the rule in it: tenure.fence-before-answering. It is unique over all loops, and it stays:
	// people search for it in logs and pages.
	ID string
	// Why is the reason, or what always holds, as half a sentence.
	Why string
	// Was are the ids that the rule had before, so that old records can be read. Several rules may have had the same.
	Was []string
}

// Name is the rule as an imperative sentence.
func (r Rule) Name() string {
	_, name, _ := strings.Cut(r.ID, ".")
	return strings.ReplaceAll(name, "-", " ")
}

// Loop is the part of the id before the dot.
func (r Rule) Loop() string {
	loop, _, _ := strings.Cut(r.ID, ".")
	return loop
}

// Step is a rule of a planner. Apply adds to a plan in the making, and reports whether the plan ends with it.
type Step[Draft any] struct {
	Rule
	Apply func(Draft) (end bool)
}

// Do is the step of that id.
func Do[Draft any](id string, apply func(Draft) (end bool), why string, was ...string) Step[Draft] {
	return Step[Draft]{Rule: Rule{ID: id, Why: why, Was: was}, Apply: apply}
}

// Run applies the steps in order, up to the first that ends the plan.
func Run[Draft any](steps []Step[Draft], draft Draft) {
	for _, step := range steps {
		if step.Apply(draft) {
			return
		}
	}
}

// Invariant is a rule that no plan may break. Broken says how it would be broken, empty if it would not. What it is
// asked about is up to the loop: a single action or a whole plan.
type Invariant[World, Act any] struct {
	Rule
	Broken func(World, Act) string
}

// Never is the invariant of that id.
func Never[World, Act any](id string, broken func(World, Act) string, why string, was ...string) Invariant[World, Act] {
	return Invariant[World, Act]{Rule: Rule{ID: id, Why: why, Was: was}, Broken: broken}
}

// Violation is an invariant that a plan would break.
type Violation struct {
	// Rule is the id of the invariant.
	Rule string
	// Detail is one sentence for a user.
	Detail string
}

func (v Violation) String() string { return v.Rule + ": " + v.Detail }

// Check returns the invariants that would be broken. A plan with a violation is refused as a whole.
func Check[World, Act any](invariants []Invariant[World, Act], world World, act Act) []Violation {
	var violations []Violation
	for _, invariant := range invariants {
		if detail := invariant.Broken(world, act); detail != "" {
			violations = append(violations, Violation{Rule: invariant.ID, Detail: detail})
		}
	}
	return violations
}

// Steps are the rules of steps, for a page about them.
func Steps[Draft any](steps []Step[Draft]) []Rule {
	rules := make([]Rule, 0, len(steps))
	for _, step := range steps {
		rules = append(rules, step.Rule)
	}
	return rules
}

// Invariants are the rules of invariants, for a page about them.
func Invariants[World, Act any](invariants []Invariant[World, Act]) []Rule {
	rules := make([]Rule, 0, len(invariants))
	for _, invariant := range invariants {
		rules = append(rules, invariant.Rule)
	}
	return rules
}

var form = regexp.MustCompile(`^[a-z]+\.[a-z]+(-[a-z0-9]+)*$`)

// Problems says what is wrong with a list of rules: an id of another form, one that is used twice, a missing reason.
func Problems(rules []Rule) []string {
	var problems []string
	seen := map[string]bool{}
	for _, rule := range rules {
		switch {
		case !form.MatchString(rule.ID):
			problems = append(problems, fmt.Sprintf("%q: an id is loop.words-of-the-rule", rule.ID))
		case seen[rule.ID]:
			problems = append(problems, rule.ID+": the id is used twice")
		case strings.TrimSpace(rule.Why) == "":
			problems = append(problems, rule.ID+": has no reason")
		}
		seen[rule.ID] = true
	}
	return problems
}
