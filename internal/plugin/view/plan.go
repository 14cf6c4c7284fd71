package view

import (
	"fmt"
	"io"
	"slices"

	"meridian.dev/meridian/internal/database/change"
)

// Preview is what applying a manifest would do to one database. Scripts read it as JSON, so fields are added, never
// renamed.
type Preview struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// New says that the database does not exist yet.
	New     bool            `json:"new,omitempty"`
	Changes []PreviewChange `json:"changes"`
	Steps   []PreviewStep   `json:"steps"`
}

// PreviewChange is a field that differs.
type PreviewChange struct {
	Field string `json:"field"`
	From  string `json:"from,omitempty"`
	To    string `json:"to,omitempty"`
	Cost  string `json:"cost"`
}

// PreviewStep is something that is done, in order.
type PreviewStep struct {
	Instance string `json:"instance,omitempty"`
	Does     string `json:"does"`
	// Notice is what applications notice.
	Notice string `json:"notice,omitempty"`
}

// PreviewOf translates what internal/database/change says.
func PreviewOf(namespace, name string, changes []change.Changed, steps []change.Step) Preview {
	preview := Preview{Namespace: namespace, Name: name, Changes: []PreviewChange{}, Steps: []PreviewStep{}}
	for _, one := range changes {
		preview.Changes = append(preview.Changes, PreviewChange{
			Field: one.Field.Path, From: one.From, To: one.To, Cost: string(one.Class),
		})
	}
	for _, one := range steps {
		preview.Steps = append(preview.Steps, PreviewStep{Instance: one.Instance, Does: one.Does, Notice: one.Interrupts})
	}
	return preview
}

// Plan writes a preview.
func Plan(out io.Writer, style Style, of Preview) {
	title := style.paint(strong, "GeoDatabase "+of.Namespace+"/"+of.Name)
	switch {
	case of.New:
		fmt.Fprintf(out, "%s  does not exist and would be made\n", title)
		return
	case len(of.Changes) == 0:
		fmt.Fprintf(out, "%s  would not change\n", title)
		return
	}
	fmt.Fprintf(out, "%s  %s\n", title, plural(len(of.Changes), "change"))
	lines := &table{style: style, indent: "  "}
	lines.head("FIELD", "FROM", "TO", "COST")
	for _, one := range of.Changes {
		cost := cell{text: one.Cost}
		if one.Cost == string(change.Refused) {
			cost.tone = bad
		}
		lines.add(text("%s", one.Field), text("%s", dash(shorten(one.From, 40))), text("%s", dash(shorten(one.To, 40))), cost)
	}
	lines.write(out)
	fmt.Fprintln(out)
	if refused := slices.ContainsFunc(of.Changes, func(one PreviewChange) bool {
		return one.Cost == string(change.Refused)
	}); refused {
		fmt.Fprintln(out, "  A part of it is refused, so nothing would be done at all.")
		return
	}
	steps := &table{style: style, indent: "  "}
	for number, one := range of.Steps {
		notice := cell{text: "nobody notices", tone: faint}
		if one.Notice != "" {
			notice = cell{text: one.Notice, tone: busy}
		}
		steps.add(text("%d.", number+1), text("%s", dash(one.Instance)), text("%s", one.Does), notice)
	}
	steps.write(out)
}

// shorten keeps a value on its line.
func shorten(value string, most int) string {
	if runes := []rune(value); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return value
}
