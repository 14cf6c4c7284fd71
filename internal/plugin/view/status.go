package view

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"meridian.dev/meridian/api/v1alpha1"
)

// Status writes a database on one screen.
func Status(out io.Writer, style Style, now time.Time, of Overview) {
	fmt.Fprintf(out, "%s  %s\n", style.paint(strong, "GeoDatabase "+of.Namespace+"/"+of.Name),
		style.paint(toneOf(of.Verdict), string(of.Verdict)))
	lines := &table{style: style, indent: "  "}
	if of.Verdict != Well {
		lines.add(cell{"Why", faint}, text("%s", withReason(of.Reason, of.Message)))
	}
	lines.add(cell{"Primary", faint}, text("%s", primaryLine(of)))
	lines.add(cell{"Lease", faint}, leaseCell(now, of.Lease))
	lines.add(cell{"Replicas", faint}, text("%s", replicasLine(of)))
	if of.Durability != "" {
		lines.add(cell{"Durability", faint}, text("%s", durabilityLine(of)))
	}
	lines.add(cell{"PostgreSQL", faint}, text("%s", dash(of.Version)))
	lines.write(out)
	fmt.Fprintln(out)
	writeInstances(out, style, now, of)
	writeCompanions(out, style, of)
	writeNews(out, style, now, of)
}

func primaryLine(of Overview) string {
	switch {
	case of.Primary == "" && of.Verdict == Unclear:
		return "nobody knows whether writes are accepted"
	case of.Primary == "":
		return "none accepts writes"
	}
	return of.Primary + " accepts writes"
}

func leaseCell(now time.Time, lease *Lease) cell {
	switch {
	case lease == nil:
		return cell{"not there, or not readable", busy}
	case lease.Problem != "":
		return cell{lease.Problem, bad}
	case lease.Holder == "":
		return text("nobody holds it (term %d)", lease.Term)
	}
	length := time.Duration(lease.Seconds) * time.Second
	line := cell{text: fmt.Sprintf("%s holds it at term %d, renewed %s ago", lease.Holder, lease.Term,
		ago(now, lease.Renewed))}
	if length > 0 && now.Sub(lease.Renewed) > length {
		line.text, line.tone = line.text+", which is more than its "+Span(length), bad
	}
	return line
}

func replicasLine(of Overview) string {
	line := dash(of.Replicas) + " ready"
	if of.Lag != "" {
		line += ", the slowest is " + of.Lag + " behind"
	}
	return line
}

func durabilityLine(of Overview) string {
	line := string(of.Durability)
	if of.Lease != nil && of.Lease.Copies > 0 {
		line += fmt.Sprintf(": each acknowledged write is on %d of %s", of.Lease.Copies,
			plural(len(of.Lease.Members), "member"))
	}
	return line
}

func writeInstances(out io.Writer, style Style, now time.Time, of Overview) {
	lines := &table{style: style, indent: "  "}
	lines.head("INSTANCE", "ROLE", "READY", "NODE", "LAG", "VOLUME", "RESTARTS", "AGE", "REMARK")
	for _, instance := range of.Instances {
		lag := "-"
		if instance.Lag != nil {
			lag = seconds(*instance.Lag)
		}
		remark := instance.Message
		if of.Lease != nil && len(of.Lease.Members) > 0 && !slices.Contains(of.Lease.Members, instance.Name) && remark == "" {
			remark = "not in the write quorum"
		}
		lines.add(text("%s", instance.Name), text("%s", instance.Role), readyCell(instance.Ready),
			text("%s", dash(instance.Node)), text("%s", lag), use(instance), text("%d", instance.Restarts),
			text("%s", ago(now, instance.Started)), text("%s", remark))
	}
	if len(of.Instances) == 0 {
		lines.add(cell{"none yet", faint})
	}
	lines.write(out)
}

func readyCell(ready bool) cell {
	if ready {
		return cell{"yes", good}
	}
	return cell{"no", bad}
}

// use is how full a volume or a memory is.
func use(instance Instance) cell {
	switch {
	case instance.Size == 0:
		return text("-")
	case instance.Used == 0:
		return text("%s", Size(instance.Size))
	}
	share := int(100 * instance.Used / instance.Size)
	line := text("%s of %s (%d%%)", Size(instance.Used), Size(instance.Size), share)
	if instance.Log {
		line.text += ", log"
	}
	if share >= 90 {
		line.tone = bad
	}
	return line
}

func writeNews(out io.Writer, style Style, now time.Time, of Overview) {
	fmt.Fprintln(out)
	lines := &table{style: style, indent: "  "}
	if change := of.LastChange; change != nil {
		lines.add(cell{"Last change", faint}, text("%s ago: %s", ago(now, change.At), withReason(change.Reason, change.Note)))
	}
	waiting := of.WaitingFor
	if waiting == "" {
		waiting = "nothing"
	}
	lines.add(cell{"Waiting for", faint}, text("%s", waiting))
	for _, pending := range of.Pending {
		lines.add(cell{"Pending", faint}, text("%s", pending))
	}
	for _, unread := range of.Unread {
		lines.add(cell{"Not seen", faint}, cell{unread, faint})
	}
	lines.write(out)
}

func withReason(reason, message string) string {
	if reason == "" {
		return message
	}
	return reason + ": " + message
}

// List writes one line for each database.
func List(out io.Writer, style Style, overviews []Overview) {
	lines := &table{style: style}
	head := []string{"NAMESPACE", "NAME", "STATE", "PRIMARY", "REPLICAS", "LAG"}
	for _, of := range Companions {
		head = append(head, strings.ToUpper(of.Many))
	}
	lines.head(append(head, "WAITING FOR")...)
	for _, of := range overviews {
		cells := []cell{
			text("%s", of.Namespace), text("%s", of.Name), {string(of.Verdict), toneOf(of.Verdict)},
			text("%s", dash(of.Primary)), text("%s", dash(of.Replicas)), text("%s", dash(of.Lag)),
		}
		for _, kind := range Companions {
			cells = append(cells, howMany(of.companions(kind.Kind)))
		}
		lines.add(append(cells, text("%s", of.WaitingFor))...)
	}
	lines.write(out)
}

// Roles are the instances by what they do, as their agents say on their pods.
func Roles(of Overview) map[string]string {
	roles := map[string]string{}
	for _, instance := range of.Instances {
		if instance.Role != v1alpha1.RoleUnknown && instance.Pod != "" {
			roles[instance.Pod] = strings.ToLower(string(instance.Role))
		}
	}
	return roles
}

// Line is a database in one line, for views that print a line for each change.
func Line(of Overview) string {
	ready := 0
	for _, instance := range of.Instances {
		if instance.Ready {
			ready++
		}
	}
	line := fmt.Sprintf("%s: %s, %s ready", of.Name, of.Verdict, plural(ready, "instance"))
	if of.Primary != "" {
		line += ", primary " + of.Primary
	}
	if of.WaitingFor != "" {
		line += "; waiting: " + shorten(of.WaitingFor, 80)
	}
	return line
}
