package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// apiPackage is what the reference needs to know of the API types.
type apiPackage struct {
	structs map[string]apiStruct
	enums   map[string]string // the allowed values of a named string type
}

// apiStruct is one type with fields.
type apiStruct struct {
	name   string
	remark remark
	fields []apiField
}

// apiField is one field as a user writes it.
type apiField struct {
	name     string // its JSON name
	goType   ast.Expr
	optional bool
	remark   remark
}

// remark is a comment, taken apart into sentences for people and markers for tools.
type remark struct {
	text    string
	markers []string // without the plus sign
}

// parseAPI reads the API types from the Go files of one folder.
func parseAPI(folder fs.FS) (*apiPackage, error) {
	names, err := fs.Glob(folder, "*.go")
	if err != nil {
		return nil, err
	}
	api := &apiPackage{structs: map[string]apiStruct{}, enums: map[string]string{}}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(filepath.Base(name), "zz_generated") {
			continue
		}
		content, err := fs.ReadFile(folder, name)
		if err != nil {
			return nil, err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("parse: %w", err)
		}
		api.addTypes(file)
	}
	return api, nil
}

func (api *apiPackage) addTypes(file *ast.File) {
	for _, declaration := range file.Decls {
		general, ok := declaration.(*ast.GenDecl)
		if !ok || general.Tok != token.TYPE {
			continue
		}
		for _, spec := range general.Specs {
			spec := spec.(*ast.TypeSpec)
			about := remarkOf(general.Doc)
			if structure, ok := spec.Type.(*ast.StructType); ok {
				api.structs[spec.Name.Name] = apiStruct{
					name: spec.Name.Name, remark: about, fields: fieldsOf(structure),
				}
			} else if values, ok := about.marker("kubebuilder:validation:Enum="); ok {
				api.enums[spec.Name.Name] = values
			}
		}
	}
}

func fieldsOf(structure *ast.StructType) []apiField {
	var fields []apiField
	for _, field := range structure.Fields.List {
		if len(field.Names) == 0 || field.Tag == nil {
			continue
		}
		tag, err := strconv.Unquote(field.Tag.Value)
		if err != nil {
			continue
		}
		name, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		about := remarkOf(field.Doc)
		fields = append(fields, apiField{
			name:     name,
			goType:   field.Type,
			optional: strings.Contains(options, "omitempty") || slices.Contains(about.markers, "optional"),
			remark:   about,
		})
	}
	return fields
}

func remarkOf(group *ast.CommentGroup) remark {
	var about remark
	var text []string
	for line := range strings.Lines(group.Text()) {
		line = strings.TrimSpace(line)
		if marker, ok := strings.CutPrefix(line, "+"); ok {
			about.markers = append(about.markers, lists.Replace(marker))
		} else {
			text = append(text, line)
		}
	}
	about.text = strings.TrimSpace(strings.Join(text, "\n"))
	return about
}

// marker returns what follows a prefix in the first marker that has it.
func (r remark) marker(prefix string) (string, bool) {
	for _, marker := range r.markers {
		if value, ok := strings.CutPrefix(marker, prefix); ok {
			return value, true
		}
	}
	return "", false
}

var (
	ruleMessage  = regexp.MustCompile(`,message="([^"]*)"(,messageExpression=".*")?$`)
	refusedNames = regexp.MustCompile(`all\(key, !key\.matches\('\^\(([^']+)\)\$'\)`)
	allowedNames = regexp.MustCompile(`all\(key, key\.matches\('\^\(([^']+)\)\$'\)`)
)

// rules returns the message of each validation rule.
func (r remark) rules() []string {
	var messages []string
	for _, marker := range r.markers {
		if !strings.HasPrefix(marker, "kubebuilder:validation:XValidation:") {
			continue
		}
		if found := ruleMessage.FindStringSubmatch(marker); found != nil {
			messages = append(messages, found[1])
		}
	}
	return messages
}

// refused returns the names that a rule on the keys of a map refuses, sorted. A star stands for any ending.
func (r remark) refused() []string { return r.names(refusedNames) }

// allowed returns the names that a rule on the keys of a map allows, sorted, and none if there is no such rule.
func (r remark) allowed() []string { return r.names(allowedNames) }

func (r remark) names(rule *regexp.Regexp) []string {
	names := map[string]bool{}
	for _, marker := range r.markers {
		for _, found := range rule.FindAllStringSubmatch(marker, -1) {
			for name := range strings.SplitSeq(found[1], "|") {
				names[strings.ReplaceAll(name, ".*", "*")] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}
