package view

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/kit/condition"
)

// Outcome is how a check ended.
type Outcome string

// The outcomes of checks.
const (
	Passed  Outcome = "passed"
	Warned  Outcome = "warning"
	Failed  Outcome = "failed"
	Unknown Outcome = "unknown"
)

// Finding is one check with its outcome. Scripts read it as JSON, so fields are added, never renamed.
type Finding struct {
	// Check is the question that was asked, as a short sentence that is true when it passes.
	Check   string  `json:"check"`
	Outcome Outcome `json:"outcome"`
	// Reason has a page in the runbook, Message is one sentence.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// Page is the runbook's page of the reason.
	Page string `json:"page,omitempty"`
}

// Limits beyond which a check does not pass.
const (
	fullShare     = 0.85
	manyRestarts  = 3
	recentWarning = 15 * time.Minute
	operatorSlack = time.Minute
)

// Diagnose asks everything that can be asked of the facts. pages are the reasons that have a page in the runbook.
func Diagnose(facts Facts, pages []string) []Finding {
	of := Of(facts)
	findings := slices.Concat(
		checkOperator(facts),
		checkConditions(facts),
		checkLease(facts.Now, of),
		checkInstances(of),
		checkVersion(of),
		checkVolumes(of),
		checkCompanions(of),
		checkPending(of),
		checkWarnings(facts),
	)
	for i, finding := range findings {
		if finding.Reason != "" && slices.Contains(pages, finding.Reason) {
			findings[i].Page = "docs/runbook/" + finding.Reason + ".md"
		}
	}
	return findings
}

func passed(check string, failures ...Finding) []Finding {
	if len(failures) == 0 {
		return []Finding{{Check: check, Outcome: Passed}}
	}
	for i := range failures {
		failures[i].Check = check
	}
	return failures
}

func checkOperator(facts Facts) []Finding {
	const check = "an operator looks after it"
	generation := facts.Database.Generation
	switch operator := facts.Operator; {
	case operator == nil:
		return passed(check, Finding{Outcome: Unknown, Message: "you may not look at the operator, or it is elsewhere"})
	case operator.Ready == 0:
		return passed(check, Finding{Outcome: Failed, Message: fmt.Sprintf(
			"no replica of the operator is ready in the namespace %s; failover goes on without it, changes do not",
			operator.Namespace)})
	case len(operator.Namespaces) > 0 && !slices.Contains(operator.Namespaces, facts.Database.Namespace):
		return passed(check, Finding{Outcome: Failed, Message: fmt.Sprintf("the operator in %s works in %s only",
			operator.Namespace, strings.Join(operator.Namespaces, ", "))})
	case !operator.Renewed.IsZero() && facts.Now.Sub(operator.Renewed) > operatorSlack:
		return passed(check, Finding{Outcome: Failed, Message: "no replica of the operator has acted for " +
			ago(facts.Now, operator.Renewed)})
	case facts.Database.Status.ObservedGeneration != generation:
		return passed(check, Finding{Outcome: Warned, Message: fmt.Sprintf(
			"generation %d of the spec was not looked at yet, the latest is %d", generation,
			facts.Database.Status.ObservedGeneration)})
	}
	return passed(check)
}

// checkConditions repeats what the operator itself says.
func checkConditions(facts Facts) []Finding {
	var findings []Finding
	for _, question := range []struct {
		typ, good, check string
		outcome          Outcome
	}{
		{v1alpha1.ConditionServing, "True", "writes are accepted", Failed},
		{v1alpha1.ConditionStalled, "False", "no human is needed", Failed},
		{v1alpha1.ConditionDegraded, "False", "nothing that was promised is missing", Failed},
		{v1alpha1.ConditionProgressing, "False", "no change is under way", Warned},
	} {
		switch found := condition.Find(facts.Database.Status.Conditions, question.typ); {
		case found == nil:
			findings = append(findings, Finding{Check: question.check, Outcome: Unknown,
				Message: "the status does not say it yet"})
		case string(found.Status) != question.good:
			findings = append(findings, Finding{Check: question.check, Outcome: question.outcome, Reason: found.Reason,
				Message: found.Message + " (for " + ago(facts.Now, found.LastTransitionTime.Time) + ")"})
		default:
			findings = append(findings, Finding{Check: question.check, Outcome: Passed})
		}
	}
	// This one is there only while there is something to warn of.
	if filling := condition.Find(facts.Database.Status.Conditions, v1alpha1.ConditionFilling); filling != nil {
		findings = append(findings, Finding{Check: "the volumes have room", Outcome: Warned, Reason: filling.Reason,
			Message: filling.Message})
	}
	return findings
}

func checkLease(now time.Time, of Overview) []Finding {
	const check = "the lease is held and renewed"
	lease := of.Lease
	switch {
	case lease == nil:
		return passed(check, Finding{Outcome: Unknown, Message: "the lease could not be read"})
	case lease.Problem != "":
		return passed(check, Finding{Outcome: Failed, Reason: "LeaseUnreadable", Message: lease.Problem})
	case lease.Holder == "":
		return passed(check, Finding{Outcome: Failed, Reason: "NoPrimary", Message: "nobody holds the lease"})
	case lease.Seconds > 0 && now.Sub(lease.Renewed) > time.Duration(lease.Seconds)*time.Second:
		return passed(check, Finding{Outcome: Failed, Reason: "LeaseExpired", Message: fmt.Sprintf(
			"%s has not renewed it for %s, by the clock of this machine", lease.Holder, ago(now, lease.Renewed))})
	}
	return passed(check)
}

func checkInstances(of Overview) []Finding {
	var failures []Finding
	for _, instance := range of.Instances {
		switch {
		case !instance.Ready:
			failures = append(failures, Finding{Outcome: Failed, Message: instance.Name + " is not ready: " +
				dash(instance.Message)})
		case instance.Restarts >= manyRestarts:
			failures = append(failures, Finding{Outcome: Warned, Message: fmt.Sprintf(
				"%s has been restarted %d times; look at: kubectl logs %s --previous", instance.Name, instance.Restarts,
				instance.Pod)})
		}
	}
	if len(of.Instances) == 0 {
		failures = append(failures, Finding{Outcome: Failed, Message: "there are none"})
	}
	return passed("every instance does its work", failures...)
}

// fixed are, by major version, the first minors in which pg_basebackup and pg_rewind, which make our copies, do not
// follow a link that a damaged or hostile source puts in their way. They were released together.
var fixed = map[int]int{14: 23, 15: 18, 16: 14, 17: 10, 18: 4}

func checkVersion(of Overview) []Finding {
	const check = "PostgreSQL has the fixes that copies rely on"
	var major, minor int
	if _, err := fmt.Sscanf(of.Version, "%d.%d", &major, &minor); err != nil {
		return passed(check, Finding{Outcome: Unknown, Message: "the status does not tell the version"})
	}
	if first, known := fixed[major]; known && minor < first {
		return passed(check, Finding{Outcome: Warned, Message: fmt.Sprintf(
			"%s lacks them, %d.%d is the first that has them; set spec.image to a newer minor version", of.Version, major,
			first)})
	}
	return passed(check)
}

func checkVolumes(of Overview) []Finding {
	var failures []Finding
	known := false
	for _, instance := range of.Instances {
		known = known || instance.Used > 0
		if instance.Size > 0 && float64(instance.Used) > fullShare*float64(instance.Size) {
			what, field := "the volume", "spec.storage.size"
			if instance.Log {
				what, field = "the WAL volume", "spec.storage.walSize"
			}
			failures = append(failures, Finding{Outcome: Failed, Message: fmt.Sprintf("%s of %s has %s of %s in use; raise %s",
				what, instance.Name, Size(instance.Used), Size(instance.Size), field)})
		}
	}
	if !known && len(failures) == 0 {
		failures = append(failures, Finding{Outcome: Unknown, Message: "the figures of the agents could not be read"})
	}
	return passed("there is room on the volumes", failures...)
}

func checkPending(of Overview) []Finding {
	var failures []Finding
	for _, pending := range of.Pending {
		failures = append(failures, Finding{Outcome: Warned, Message: pending})
	}
	return passed("no change waits to be carried out", failures...)
}

// checkWarnings tells the latest warning of each kind; older ones are history.
func checkWarnings(facts Facts) []Finding {
	var failures []Finding
	changes := Changes(facts, "")
	slices.Reverse(changes)
	for _, change := range changes {
		known := slices.ContainsFunc(failures, func(f Finding) bool { return f.Reason == change.Reason })
		if change.Warning && !known && facts.Now.Sub(change.At) < recentWarning {
			failures = append(failures, Finding{Outcome: Warned, Reason: change.Reason,
				Message: ago(facts.Now, change.At) + " ago, " + change.Object + ": " + change.Note})
		}
	}
	return passed("no warning in the last "+Span(recentWarning), failures...)
}

// Sound says that no check failed.
func Sound(findings []Finding) bool {
	return !slices.ContainsFunc(findings, func(f Finding) bool { return f.Outcome == Failed })
}

// Check writes the findings: first what failed, each with its page.
func Check(out io.Writer, style Style, name string, findings []Finding) {
	counts := map[Outcome]int{}
	for _, finding := range findings {
		counts[finding.Outcome]++
	}
	for _, part := range []struct {
		outcome Outcome
		mark    string
		tone    tone
	}{{Failed, "FAILED ", bad}, {Warned, "WARNING", busy}, {Unknown, "UNKNOWN", faint}, {Passed, "ok     ", good}} {
		for _, finding := range findings {
			if finding.Outcome != part.outcome {
				continue
			}
			fmt.Fprintf(out, "%s  %s\n", style.paint(part.tone, part.mark), finding.Check)
			if finding.Message != "" {
				fmt.Fprintf(out, "         %s\n", withReason(finding.Reason, finding.Message))
			}
			if finding.Page != "" {
				fmt.Fprintf(out, "         %s\n", style.paint(faint, "see "+finding.Page+
					", or: kubectl meridian runbook "+finding.Reason))
			}
		}
	}
	fmt.Fprintf(out, "\n%s: %d failed, %s, %d unknown, %d ok\n", name, counts[Failed],
		plural(counts[Warned], "warning"), counts[Unknown], counts[Passed])
}
