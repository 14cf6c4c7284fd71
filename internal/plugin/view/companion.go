package view

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/kind"
)

// Companion is a resource that belongs to a database and is shown with it, such as a cache.
type Companion interface {
	client.Object
	// Kind is what its pods are known by.
	Kind() kind.Kind
	// Database is the name of that which it belongs to.
	Database() string
	// Members are its instances, as its status has them.
	Members() []v1alpha1.InstanceStatus

	state() subject
	// show fills in what only it can tell.
	show(Facts, *Shown)
}

// CompanionKind is a kind of them.
type CompanionKind struct {
	kind.Kind
	// List is what they are read into, and Of turns an object of that list into one.
	List func() client.ObjectList
	Of   func(client.Object) Companion
	// columns are those that only this kind has.
	columns []string
}

// Companions are all kinds, each in a file of its own.
var Companions = []CompanionKind{caches}

// Shown is one line about a companion.
type Shown struct {
	Kind       kind.Kind  `json:"-"`
	Name       string     `json:"name"`
	Verdict    Verdict    `json:"verdict"`
	Reason     string     `json:"reason,omitempty"`
	Message    string     `json:"message,omitempty"`
	Primary    string     `json:"primary,omitempty"`
	Ready      int32      `json:"ready"`
	Wanted     int32      `json:"wanted"`
	Engine     string     `json:"engine"`
	Version    string     `json:"version,omitempty"`
	Memory     string     `json:"memory,omitempty"`
	HitRatio   *float64   `json:"hitRatio,omitempty"`
	WaitingFor string     `json:"waitingFor,omitempty"`
	Instances  []Instance `json:"instances,omitempty"`

	cells []cell // For the columns of its kind.
}

// MarshalJSON has a list for each kind of companion.
func (o Overview) MarshalJSON() ([]byte, error) {
	type plain Overview
	return json.Marshal(struct {
		plain
		Caches []Shown `json:"caches,omitempty"`
	}{plain(o), o.companions(kind.Cache)})
}

// companions are those of a kind.
func (o Overview) companions(of kind.Kind) []Shown {
	return slices.DeleteFunc(slices.Clone(o.Companions), func(one Shown) bool { return one.Kind != of })
}

func shown(facts Facts, of Companion) Shown {
	shown := Shown{
		Kind: of.Kind(), Name: of.GetName(), Instances: instancesOf(facts, of.Kind().Label, of.GetName(), of.Members()),
	}
	shown.Verdict, shown.Reason, shown.Message = judge(of.state())
	of.show(facts, &shown)
	return shown
}

// writeCompanions writes a table for each kind that there is.
func writeCompanions(out io.Writer, style Style, of Overview) {
	for _, kind := range Companions {
		companions := of.companions(kind.Kind)
		if len(companions) == 0 {
			continue
		}
		lines := &table{style: style, indent: "  "}
		lines.head(slices.Concat([]string{strings.ToUpper(kind.One), "STATE", "PRIMARY", "READY"}, kind.columns,
			[]string{"SERVER", "REMARK"})...)
		for _, one := range companions {
			remark := ""
			if one.Verdict != Well {
				remark = withReason(one.Reason, one.Message)
			}
			lines.add(slices.Concat([]cell{
				text("%s", one.Name), {string(one.Verdict), toneOf(one.Verdict)}, text("%s", dash(one.Primary)),
				text("%d/%d", one.Ready, one.Wanted),
			}, one.cells, []cell{text("%s", strings.TrimSpace(one.Engine+" "+one.Version)), text("%s", remark)})...)
		}
		fmt.Fprintln(out)
		lines.write(out)
	}
}

// howMany says how many of them are well.
func howMany(companions []Shown) cell {
	well := 0
	for _, one := range companions {
		if one.Verdict == Well {
			well++
		}
	}
	return text("%d/%d well", well, len(companions))
}

func checkCompanions(of Overview) []Finding {
	var findings []Finding
	for _, one := range of.Companions {
		check := "the " + one.Kind.One + " " + one.Name + " is well"
		switch one.Verdict {
		case Well:
			findings = append(findings, passed(check)...)
		case Working, Paused, Deleting:
			findings = append(findings, passed(check, Finding{Outcome: Warned, Reason: one.Reason, Message: one.Message})...)
		default:
			findings = append(findings, passed(check, Finding{Outcome: Failed, Reason: one.Reason, Message: one.Message})...)
		}
	}
	return findings
}
