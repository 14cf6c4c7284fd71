package arch

import (
	"go/ast"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// apiFolder is where the types lie that users write. The conventions that are checked are those of Kubernetes
// (sig-architecture, api-conventions.md), as far as they are ours. Not adopted, on purpose:
//
//   - A comment begins with the name of its field. Ours are read below that name, in kubectl explain and in the
//     reference, and say what the field is.
//   - A bool is an enum. Ours have two states that stay two: paused, hibernated, ready.
//   - A field of the status has bounds. The operator alone writes them.
const apiFolder = "api/v1alpha1"

// apiExceptions are breaches that stay, each with the reason. One that is none any more is a finding too.
var apiExceptions = map[string]string{
	"CacheUse.Evicted: is optional, so its tag needs omitempty or omitzero": "0 is a figure, and a column shows it",
	"CacheUse.Clients: is optional, so its tag needs omitempty or omitzero": "0 is a figure, and a column shows it",
}

// apiWords are enums in the words of another program, which a user knows from there.
var apiWords = map[string]string{
	"EvictionPolicy": "the values of maxmemory-policy of Redis",
	"Engine":         "the names of programs",
	"Profile":        "released in lower case; another spelling would refuse manifests that there are",
}

var (
	camelCase  = regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`)
	pascalCase = regexp.MustCompile(`^[A-Z][a-zA-Z0-9]*$`)
	apiNumbers = []string{
		"int", "int8", "int16", "uint", "uint8", "uint16", "uint32", "uint64", "uintptr", "float32", "float64",
		"byte", "rune",
	}
)

// apiType is a type of the API, with the markers of the code generator.
type apiType struct {
	name    string
	spec    *ast.TypeSpec
	markers []string
	asked   bool // Users write it: it is a spec, or a part of one.
}

func checkAPI(repo *Repo) []Finding {
	types := apiTypes(repo)
	used := map[string]bool{}
	var findings []Finding
	add := func(node ast.Node, key string) {
		if used[key] = true; apiExceptions[key] == "" {
			findings = append(findings, finding(repo.at(node.Pos()), "%s", key))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		t := types[name]
		if what := t.enumProblem(); what != "" {
			add(t.spec, t.name+": "+what)
		}
		fields, isStruct := t.spec.Type.(*ast.StructType)
		if !isStruct {
			continue
		}
		for _, field := range fields.Fields.List {
			for _, problem := range t.fieldProblems(field, types) {
				add(field, t.name+"."+nameOf(field)+": "+problem)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(apiExceptions)) {
		if typ, _, _ := strings.Cut(key, "."); types[typ] != nil && !used[key] {
			findings = append(findings, finding("internal/arch/api.go", "the exception %q is none any more; remove it", key))
		}
	}
	return sorted(findings)
}

// apiTypes are the types of the folder, by name.
func apiTypes(repo *Repo) map[string]*apiType {
	types := map[string]*apiType{}
	for _, pkg := range repo.Packages {
		if pkg.Folder != apiFolder {
			continue
		}
		for _, file := range pkg.sources() {
			ast.Inspect(file.Syntax, func(node ast.Node) bool {
				decl, ok := node.(*ast.GenDecl)
				if !ok {
					return true
				}
				for _, spec := range decl.Specs {
					if declared, ok := spec.(*ast.TypeSpec); ok {
						doc := declared.Doc
						if doc == nil {
							doc = decl.Doc
						}
						types[declared.Name.Name] = &apiType{name: declared.Name.Name, spec: declared, markers: markersOf(doc)}
					}
				}
				return false
			})
		}
	}
	for name, t := range types {
		if strings.HasSuffix(name, "Spec") {
			t.ask(types)
		}
	}
	return types
}

// ask marks a type, and what it is made of, as written by users.
func (t *apiType) ask(types map[string]*apiType) {
	if t.asked {
		return
	}
	t.asked = true
	ast.Inspect(t.spec.Type, func(node ast.Node) bool {
		if name, ok := node.(*ast.Ident); ok && types[name.Name] != nil {
			types[name.Name].ask(types)
		}
		return true
	})
}

// enumProblem says what is wrong with the values of an enum.
func (t *apiType) enumProblem() string {
	values, found := marker(t.markers, "+kubebuilder:validation:Enum=")
	if !found || apiWords[t.name] != "" {
		return ""
	}
	for value := range strings.SplitSeq(values, ";") {
		if value = strings.Trim(value, `"`); !pascalCase.MatchString(value) {
			return "the value " + value + " of an enum is not in PascalCase"
		}
	}
	return ""
}

// fieldProblems says what is wrong with one field.
func (t *apiType) fieldProblems(field *ast.Field, types map[string]*apiType) []string {
	if len(field.Names) == 0 {
		return nil // Metadata, and what is embedded: its own type has the fields.
	}
	if field.Tag == nil {
		return []string{"has no json tag"}
	}
	var problems []string
	text, _ := strconv.Unquote(field.Tag.Value)
	name, options, _ := strings.Cut(reflect.StructTag(text).Get("json"), ",")
	markers := markersOf(field.Doc)
	_, optional := marker(markers, "+optional")
	omits := strings.Contains(options, "omitempty") || strings.Contains(options, "omitzero")
	switch {
	case !camelCase.MatchString(name):
		problems = append(problems, "its json name "+strconv.Quote(name)+" is not in camelCase")
	case strings.EqualFold(name, "phase"):
		problems = append(problems, "a phase cannot say two things at once; use conditions")
	}
	if said := strings.TrimSpace(field.Doc.Text()); (said == "" || said[0] == '+') && name != "items" {
		problems = append(problems, "has no comment, and a user reads nothing in kubectl explain")
	}
	switch {
	case optional && !omits:
		problems = append(problems, "is optional, so its tag needs omitempty or omitzero")
	case !optional && omits:
		problems = append(problems, "its tag has "+options+", so it needs the marker +optional")
	}
	return append(problems, t.typeProblems(field, markers, types)...)
}

// typeProblems says what is wrong with the type of a field, and with its bounds if users write it.
func (t *apiType) typeProblems(field *ast.Field, markers []string, types map[string]*apiType) []string {
	typ := field.Type
	if pointer, ok := typ.(*ast.StarExpr); ok {
		typ = pointer.X
	}
	var problems []string
	switch typ := typ.(type) {
	case *ast.Ident:
		named := types[typ.Name]
		text := typ.Name == "string" || named != nil && isText(named.spec.Type)
		if slices.Contains(apiNumbers, typ.Name) {
			problems = append(problems, "is of the type "+typ.Name+"; the API has int32, int64 and resource.Quantity")
		}
		if named != nil {
			markers = append(slices.Clone(markers), named.markers...)
		}
		if t.asked && text && !bounded(markers, "MaxLength=", "Enum=") {
			problems = append(problems, "a text that users write needs MaxLength or Enum: rules about it have no bound")
		}
	case *ast.ArrayType:
		problems = listProblems(nameOf(field), markers)
		if t.asked && !bounded(markers, "MaxItems=") {
			problems = append(problems, "a list that users write needs MaxItems: rules about it have no bound")
		}
	case *ast.MapType:
		if t.asked && !bounded(markers, "MaxProperties=") {
			problems = append(problems, "a map that users write needs MaxProperties: rules about it have no bound")
		}
	}
	return problems
}

// listProblems says how a list leaves open what a server-side apply does with it.
func listProblems(name string, markers []string) []string {
	kind, listed := marker(markers, "+listType=")
	_, keyed := marker(markers, "+listMapKey=")
	var problems []string
	if !listed && name != "Items" {
		problems = append(problems, "a list needs +listType, or a server-side apply replaces it as a whole")
	}
	if kind == "map" && !keyed {
		problems = append(problems, "a list of the type map needs +listMapKey")
	}
	if name == "Conditions" && kind != "map" {
		problems = append(problems, "conditions are a list of the type map")
	}
	return problems
}

// bounded says that one of the validations is among the markers.
func bounded(markers []string, validations ...string) bool {
	return slices.ContainsFunc(validations, func(name string) bool {
		_, found := marker(markers, "+kubebuilder:validation:"+name)
		return found
	})
}

func isText(typ ast.Expr) bool {
	name, ok := typ.(*ast.Ident)
	return ok && name.Name == "string"
}

func nameOf(field *ast.Field) string { return field.Names[0].Name }

// markersOf are the lines of a comment that speak to code generators.
func markersOf(doc *ast.CommentGroup) []string {
	var markers []string
	if doc != nil {
		for _, line := range doc.List {
			if text := strings.TrimSpace(strings.TrimPrefix(line.Text, "//")); strings.HasPrefix(text, "+") {
				markers = append(markers, text)
			}
		}
	}
	return markers
}

// marker is what follows the prefix of a marker.
func marker(markers []string, prefix string) (string, bool) {
	for _, one := range markers {
		if value, found := strings.CutPrefix(one, prefix); found {
			return value, true
		}
	}
	return "", false
}
