package arch_test

// inSpec is a field of a spec, and inStatus one of a status.
func inSpec(field string) files {
	return files{"api/v1alpha1/a.go": "package v1alpha1\n\ntype ASpec struct {\n" + field + "\n}\n"}
}

func inStatus(field string) files {
	return files{"api/v1alpha1/a.go": "package v1alpha1\n\ntype AStatus struct {\n" + field + "\n}\n"}
}

var apiCases = map[string]ruleCase{
	"as it should be": {files: files{"api/v1alpha1/a.go": `package v1alpha1

// ASpec is what the user wants.
type ASpec struct {
	// Name of it.
	// +kubebuilder:validation:MaxLength=40
	Name string ` + "`json:\"name\"`" + `
	// Mode of it.
	// +optional
	Mode Mode ` + "`json:\"mode,omitempty\"`" + `
	// Parts of it.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=3
	Parts []Part ` + "`json:\"parts,omitempty\"`" + `
}

// Mode of it.
// +kubebuilder:validation:Enum=Fast;VerySlow
type Mode string

// Part of it.
type Part struct {
	// Count of it.
	Count int32 ` + "`json:\"count\"`" + `
}

// Engine has words of another program.
// +kubebuilder:validation:Enum=redis
type Engine string

// AStatus is written by the operator alone.
type AStatus struct {
	// Text without bounds.
	// +optional
	Text string ` + "`json:\"text,omitempty\"`" + `
}
`}},
	"elsewhere": {files: files{"api/v2/a.go": "package v2\n\ntype ASpec struct { Count int }"}},
	"no tag": {files: inStatus("// Count.\nCount int32"), want: []string{
		"api/v1alpha1/a.go:5: AStatus.Count: has no json tag"}},
	"no comment": {files: inStatus("// +optional\nCount int32 `json:\"count,omitempty\"`"), want: []string{
		"api/v1alpha1/a.go:5: AStatus.Count: has no comment, and a user reads nothing in kubectl explain"}},
	"a name": {files: inStatus("// Count.\nCount int32 `json:\"Count_of\"`"), want: []string{
		`api/v1alpha1/a.go:5: AStatus.Count: its json name "Count_of" is not in camelCase`}},
	"a phase": {files: inStatus("// Phase.\nPhase string `json:\"phase\"`"), want: []string{
		"api/v1alpha1/a.go:5: AStatus.Phase: a phase cannot say two things at once; use conditions"}},
	"optional and always there": {files: inStatus("// Count.\n// +optional\nCount int32 `json:\"count\"`"), want: []string{
		"api/v1alpha1/a.go:6: AStatus.Count: is optional, so its tag needs omitempty or omitzero"}},
	"required and left out": {files: inStatus("// Count.\nCount int32 `json:\"count,omitempty\"`"), want: []string{
		"api/v1alpha1/a.go:5: AStatus.Count: its tag has omitempty, so it needs the marker +optional"}},
	"a number": {files: inStatus("// Count.\nCount *int `json:\"count\"`"), want: []string{
		"api/v1alpha1/a.go:5: AStatus.Count: is of the type int; the API has int32, int64 and resource.Quantity"}},
	"a list without its type": {files: inStatus("// All.\nAll []string `json:\"all\"`"), want: []string{
		"api/v1alpha1/a.go:5: AStatus.All: a list needs +listType, or a server-side apply replaces it as a whole"}},
	"a list without its key": {files: inStatus("// All.\n// +listType=map\nAll []string `json:\"all\"`"), want: []string{
		"api/v1alpha1/a.go:6: AStatus.All: a list of the type map needs +listMapKey"}},
	"conditions": {files: inStatus("// All.\n// +listType=atomic\nConditions []string `json:\"conditions\"`"),
		want: []string{
			"api/v1alpha1/a.go:6: AStatus.Conditions: conditions are a list of the type map"}},
	"texts without bounds": {files: inSpec("// Name.\nName string `json:\"name\"`"), want: []string{
		"api/v1alpha1/a.go:5: ASpec.Name: a text that users write needs MaxLength or Enum: rules about it have no bound"}},
	"lists without bounds": {files: inSpec("// All.\n// +listType=set\nAll []int32 `json:\"all\"`"), want: []string{
		"api/v1alpha1/a.go:6: ASpec.All: a list that users write needs MaxItems: rules about it have no bound"}},
	"maps without bounds": {files: inSpec("// All.\nAll map[string]int32 `json:\"all\"`"), want: []string{
		"api/v1alpha1/a.go:5: ASpec.All: a map that users write needs MaxProperties: rules about it have no bound"}},
	"the words of an enum": {
		files: files{
			"api/v1alpha1/a.go": "package v1alpha1\n\n// +kubebuilder:validation:Enum=Fast;slow\ntype Mode string\n",
		},
		want: []string{"api/v1alpha1/a.go:4: Mode: the value slow of an enum is not in PascalCase"},
	},
	"an exception that is none": {
		files: files{"api/v1alpha1/a.go": "package v1alpha1\n\ntype CacheUse struct {\n// Evicted.\n// +optional\n" +
			"Evicted int64 `json:\"evicted\"`\n}\n"},
		want: []string{`internal/arch/api.go: the exception "CacheUse.Clients: is optional, so its tag needs omitempty or ` +
			`omitzero" is none any more; remove it`},
	},
}
