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
	writeCaches(out, style, of.Caches)
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

func writeCaches(out io.Writer, style Style, caches []Cache) {
	if len(caches) == 0 {
		return
	}
	lines := &table{style: style, indent: "  "}
	lines.head("CACHE", "STATE", "PRIMARY", "READY", "MEMORY", "HITS", "SERVER", "REMARK")
	for _, cache := range caches {
		var used int64
		for _, instance := range cache.Instances {
			used = max(used, instance.Used)
		}
		memory := dash(cache.Memory)
		if used > 0 && cache.Memory != "" {
			memory = Size(used) + " of " + cache.Memory
		}
		hits := "-"
		if cache.HitRatio != nil {
			hits = fmt.Sprintf("%.0f%%", 100**cache.HitRatio)
		}
		remark := ""
		if cache.Verdict != Well {
			remark = withReason(cache.Reason, cache.Message)
		}
		lines.add(text("%s", cache.Name), cell{string(cache.Verdict), toneOf(cache.Verdict)}, text("%s", dash(cache.Primary)),
			text("%d/%d", cache.Ready, cache.Wanted), text("%s", memory), text("%s", hits),
			text("%s", strings.TrimSpace(cache.Engine+" "+cache.Version)), text("%s", remark))
	}
	fmt.Fprintln(out)
	lines.write(out)
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
	lines.head("NAMESPACE", "NAME", "STATE", "PRIMARY", "REPLICAS", "LAG", "CACHES", "WAITING FOR")
	for _, of := range overviews {
		caches, well := len(of.Caches), 0
		for _, cache := range of.Caches {
			if cache.Verdict == Well {
				well++
			}
		}
		lines.add(text("%s", of.Namespace), text("%s", of.Name), cell{string(of.Verdict), toneOf(of.Verdict)},
			text("%s", dash(of.Primary)), text("%s", dash(of.Replicas)), text("%s", dash(of.Lag)),
			text("%d/%d well", well, caches), text("%s", of.WaitingFor))
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
