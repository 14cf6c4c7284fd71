package arch

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Repo is the source tree as the rules see it: everything that a commit would hold.
type Repo struct {
	Files    []File    // sorted by path
	Folders  []Folder  // sorted by path, without the root
	Packages []Package // sorted by folder
	fset     *token.FileSet
}

// File is one file of the tree.
type File struct {
	Path    string
	Content []byte
}

// Folder is one folder of the tree. Empty means that no file lies in it or below it.
type Folder struct {
	Path  string
	Empty bool
}

// Package is the Go files of one folder, tests included.
type Package struct {
	Folder string
	Files  []GoFile
}

// GoFile is one parsed Go file.
type GoFile struct {
	Path      string
	Lines     []string
	Syntax    *ast.File
	Test      bool
	Generated bool
}

// Load reads the tree. Folders that .gitignore names as a whole, such as /bin/, are no part of it.
func Load(tree fs.FS) (*Repo, error) {
	repo := &Repo{fset: token.NewFileSet()}
	ignored := ignoredFolders(tree)
	filled := map[string]bool{}
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && ignored[name]:
			return fs.SkipDir
		case entry.IsDir():
			repo.Folders = append(repo.Folders, Folder{Path: name})
			return nil
		case !entry.Type().IsRegular():
			return nil
		}
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			filled[dir] = true
		}
		return repo.add(tree, name)
	})
	if err != nil {
		return nil, err
	}
	repo.Folders = slices.DeleteFunc(repo.Folders, func(f Folder) bool { return f.Path == "." })
	for i := range repo.Folders {
		repo.Folders[i].Empty = !filled[repo.Folders[i].Path]
	}
	slices.SortFunc(repo.Packages, func(a, b Package) int { return strings.Compare(a.Folder, b.Folder) })
	return repo, nil
}

func ignoredFolders(tree fs.FS) map[string]bool {
	ignored := map[string]bool{".git": true}
	content, err := fs.ReadFile(tree, ".gitignore")
	if err != nil {
		return ignored
	}
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "/") && strings.HasSuffix(line, "/") {
			ignored[strings.Trim(line, "/")] = true
		}
	}
	return ignored
}

func (r *Repo) add(tree fs.FS, name string) error {
	content, err := fs.ReadFile(tree, name)
	if err != nil {
		return err
	}
	r.Files = append(r.Files, File{Path: name, Content: content})
	if path.Ext(name) != ".go" || strings.Contains("/"+name, "/testdata/") {
		return nil
	}
	syntax, err := parser.ParseFile(r.fset, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse: %w", err)
	}
	file := GoFile{
		Path:      name,
		Lines:     splitLines(content),
		Syntax:    syntax,
		Test:      strings.HasSuffix(name, "_test.go"),
		Generated: ast.IsGenerated(syntax),
	}
	folder := path.Dir(name)
	for i := range r.Packages {
		if r.Packages[i].Folder == folder {
			r.Packages[i].Files = append(r.Packages[i].Files, file)
			return nil
		}
	}
	r.Packages = append(r.Packages, Package{Folder: folder, Files: []GoFile{file}})
	return nil
}

// file returns the content of a file, and whether it exists.
func (r *Repo) file(name string) ([]byte, bool) {
	for _, file := range r.Files {
		if file.Path == name {
			return file.Content, true
		}
	}
	return nil, false
}

// at names a place in a file the way compilers do, so that editors can jump to it.
func (r *Repo) at(pos token.Pos) string {
	position := r.fset.Position(pos)
	return position.Filename + ":" + strconv.Itoa(position.Line)
}

func (r *Repo) lineOf(pos token.Pos) int { return r.fset.Position(pos).Line }

// sources are the files that people wrote and that end in a binary.
func (p Package) sources() []GoFile {
	return slices.DeleteFunc(slices.Clone(p.Files), func(f GoFile) bool { return f.Test || f.Generated })
}

func splitLines(content []byte) []string {
	return strings.Split(string(bytes.TrimSuffix(content, []byte("\n"))), "\n")
}

// within tells whether a path is the folder or lies below it.
func within(name, folder string) bool {
	return name == folder || strings.HasPrefix(name, folder+"/")
}

// matches compares a folder with a pattern in which a star stands for one whole part, and with its sub-folders.
func matches(folder, pattern string) bool {
	parts, want := strings.Split(folder, "/"), strings.Split(pattern, "/")
	if len(parts) < len(want) {
		return false
	}
	ok, err := path.Match(pattern, strings.Join(parts[:len(want)], "/"))
	return ok && err == nil
}
