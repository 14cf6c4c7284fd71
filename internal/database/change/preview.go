package change

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/admit"
	"meridian.dev/meridian/internal/database/render"
)

// Facts is what has to be known of a running database.
type Facts struct {
	// Instances are those that have a copy, in the order of their numbers; Primary is one of them, or empty.
	Instances []string
	Primary   string
}

// Changed is one field that differs.
type Changed struct {
	Field    Field
	From, To string
	Class    Class
}

// Step is something that happens to an instance, or, without a name, to the database.
type Step struct {
	Instance string
	Does     string
	// Interrupts is what an application notices, empty for nothing.
	Interrupts string
}

// Preview says which fields differ and what the change does, in the order in which it is done. A change of which a part
// is refused does nothing at all.
func Preview(before, after v1alpha1.GeoDatabaseSpec, facts Facts) ([]Changed, []Step) {
	changes := Compare(before, after)
	if slices.ContainsFunc(changes, func(one Changed) bool { return one.Class == Refused }) {
		return changes, nil
	}
	p := &preview{before: before, after: after, facts: facts, changes: changes}
	if after.Paused {
		p.add("", "the database is paused: everything below waits until spec.paused is false", "")
	}
	p.inPlace()
	p.roll()
	p.others()
	return changes, p.steps
}

// Compare finds the fields that differ, in the order of the table.
func Compare(before, after v1alpha1.GeoDatabaseSpec) []Changed {
	was, is := values(before), values(after)
	var changes []Changed
	for _, field := range Table {
		if was[field.Path] == is[field.Path] {
			continue
		}
		one := Changed{Field: field, From: was[field.Path], To: is[field.Path]}
		one.Class = classOf(field, before, after)
		changes = append(changes, one)
	}
	return changes
}

// classOf chooses among the classes that a field may have.
func classOf(field Field, before, after v1alpha1.GeoDatabaseSpec) Class {
	reloaded, restarted := parameters(before, after)
	switch field.Path {
	case "spec.storage.size":
		if after.Storage.Size.Cmp(before.Storage.Size) < 0 {
			return Refused
		}
	case "spec.storage.walSize":
		was, is := before.Storage.WALSize, after.Storage.WALSize
		if was == nil || is == nil || is.Cmp(*was) < 0 {
			return Refused
		}
	case "spec.parameters", "spec.profile", "spec.resources.memory":
		switch {
		case refused(after):
			return Refused
		case len(restarted) > 0:
			return Restart
		case len(reloaded) > 0:
			return Reload
		default:
			return Live
		}
	case "spec.backup.repository":
		if render.ClaimOf(before) != render.ClaimOf(after) {
			return Replace
		}
	case "spec.restart":
		if after.Restart == "" {
			return Live
		}
	}
	return field.Classes[0]
}

func refused(spec v1alpha1.GeoDatabaseSpec) bool {
	return slices.ContainsFunc(admit.Database(&v1alpha1.GeoDatabase{Spec: spec}, nil, admit.Facts{}),
		func(problem admit.Problem) bool { return strings.HasPrefix(problem.Field, "spec.parameters") })
}

// parameters are those whose value changes, by what that takes.
func parameters(before, after v1alpha1.GeoDatabaseSpec) (reloaded, restarted []string) {
	was, is := render.Parameters(before), render.Parameters(after)
	names := slices.Sorted(maps.Keys(was))
	for _, name := range slices.Sorted(maps.Keys(is)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if was[name] == is[name] {
			continue
		}
		if parameter, _ := admit.Find(after.Version, name); parameter.Restart() {
			restarted = append(restarted, name)
		} else {
			reloaded = append(reloaded, name)
		}
	}
	return reloaded, restarted
}

type preview struct {
	before, after v1alpha1.GeoDatabaseSpec
	facts         Facts
	changes       []Changed
	steps         []Step
}

func (p *preview) add(instance, does, interrupts string) {
	p.steps = append(p.steps, Step{Instance: instance, Does: does, Interrupts: interrupts})
}

func (p *preview) changed(path string) bool {
	return slices.ContainsFunc(p.changes, func(one Changed) bool { return one.Field.Path == path })
}

// inPlace is what is done while everything runs.
func (p *preview) inPlace() {
	for _, name := range p.facts.Instances {
		if p.changed("spec.storage.size") {
			p.add(name, "its volume grows to "+p.after.Storage.Size.String(), "")
		}
		if size := p.after.Storage.WALSize; p.changed("spec.storage.walSize") && size != nil {
			p.add(name, "the volume of its log grows to "+size.String(), "")
		}
		if p.changed("spec.resources.cpu") || p.changed("spec.resources.memory") {
			p.add(name, "its container gets another size, in place", "")
		}
		if p.changed("spec.podTemplate.metadata.labels") || p.changed("spec.podTemplate.metadata.annotations") {
			p.add(name, "its pod gets other labels and annotations", "")
		}
		if reloaded, _ := parameters(p.before, p.after); len(reloaded) > 0 {
			p.add(name, "its server reloads "+strings.Join(reloaded, ", "), "")
		}
	}
}

// roll is the order of the plan: replicas from the newest on, then the primary moves, and the old one is the last.
func (p *preview) roll() {
	_, restarted := parameters(p.before, p.after)
	replaced := slices.ContainsFunc(p.changes, func(one Changed) bool { return one.Class == Replace })
	does := "its pod is replaced"
	switch {
	case replaced:
	case len(restarted) > 0:
		does = "its server restarts for " + strings.Join(restarted, ", ")
	default:
		return
	}
	if p.after.Hibernated || p.before.Hibernated {
		return
	}
	for _, name := range slices.Backward(p.facts.Instances) {
		if name != p.facts.Primary {
			p.add(name, does, "reads through the read address go to other instances")
		}
	}
	switch {
	case p.facts.Primary == "":
	case len(p.facts.Instances) == 1:
		p.add(p.facts.Primary, does, "nothing is served until it is back")
	default:
		p.add(p.facts.Primary, "it hands over to a replica", "writes wait for about a second; open sessions end")
		p.add(p.facts.Primary, does, "")
	}
}

// others is what happens to the database as a whole.
func (p *preview) others() {
	for _, one := range p.changes {
		switch one.Field.Path {
		case "spec.instances":
			p.add("", fmt.Sprintf("instances go from %s to %s", one.From, one.To), "")
		case "spec.hibernated":
			if p.after.Hibernated {
				p.add("", "all instances stop, replicas first; volumes stay", "nothing is served")
			} else {
				p.add("", "all instances start", "")
			}
		default:
			if one.Class == Live && !inPlaceFields[one.Field.Path] {
				p.add("", one.Field.Path+": "+one.Field.Does, "")
			}
		}
	}
}

// inPlaceFields are those that inPlace tells of.
var inPlaceFields = map[string]bool{
	"spec.storage.size": true, "spec.storage.walSize": true, "spec.resources.cpu": true, "spec.resources.memory": true,
	"spec.podTemplate.metadata.labels": true, "spec.podTemplate.metadata.annotations": true,
}

// values are the fields of a spec as JSON, by path.
func values(spec v1alpha1.GeoDatabaseSpec) map[string]string {
	found := map[string]string{}
	collect("spec", reflect.ValueOf(spec), found)
	return found
}

// collect goes into the structs of the API and stops at everything else.
func collect(path string, value reflect.Value, into map[string]string) {
	for value.Kind() == reflect.Pointer && value.Type().Elem().Kind() == reflect.Struct && ours(value.Type().Elem()) {
		if value.IsNil() {
			value = reflect.Zero(value.Type().Elem())
			break
		}
		value = value.Elem()
	}
	if value.Kind() != reflect.Struct || !ours(value.Type()) {
		if !value.IsZero() {
			document, _ := json.Marshal(value.Interface())
			into[path] = strings.Trim(string(document), `"`)
		}
		return
	}
	for i := range value.NumField() {
		name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
		collect(path+"."+name, value.Field(i), into)
	}
}

// ours says that a type has fields of its own in the table. What counts as a whole has one row.
func ours(of reflect.Type) bool {
	whole := of == reflect.TypeFor[v1alpha1.Repository]() || of == reflect.TypeFor[v1alpha1.Restore]()
	return !whole && of.PkgPath() == reflect.TypeFor[v1alpha1.GeoDatabaseSpec]().PkgPath()
}

// Paths are all fields of a spec, sorted.
func Paths() []string {
	var paths []string
	var walk func(path string, of reflect.Type)
	walk = func(path string, of reflect.Type) {
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		if of.Kind() != reflect.Struct || !ours(of) {
			paths = append(paths, path)
			return
		}
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			walk(path+"."+name, of.Field(i).Type)
		}
	}
	walk("spec", reflect.TypeFor[v1alpha1.GeoDatabaseSpec]())
	slices.Sort(paths)
	return paths
}
