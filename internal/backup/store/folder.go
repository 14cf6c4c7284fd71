package store

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Folder is a store in a folder, such as a volume that all instances mount. An object is written beside its place,
// synced, and linked to its name: link refuses a name that is taken, on local file systems and on NFS alike.
type Folder struct {
	Path string
	// PageSize is how many objects a page has, 1000 if it is 0.
	PageSize int
}

// drafts is where objects are written before they get their name. What a crash leaves there is never read.
const drafts = ".drafts"

var _ Store = Folder{}

func (f Folder) file(name string) string { return filepath.Join(f.Path, filepath.FromSlash(name)) }

// PutIfAbsent implements Store.
func (f Folder) PutIfAbsent(ctx context.Context, name string, content io.Reader) error {
	doing := "write " + name
	if !fs.ValidPath(name) {
		return &Error{Class: Away, Doing: doing, Err: fs.ErrInvalid}
	}
	if err := os.MkdirAll(filepath.Join(f.Path, drafts), 0o750); err != nil {
		return failed(doing, err)
	}
	draft, err := os.CreateTemp(filepath.Join(f.Path, drafts), "*")
	if err != nil {
		return failed(doing, err)
	}
	defer func() { _ = os.Remove(draft.Name()) }()
	// Not through ReadFrom of the file, which would copy in the kernel and could not be ended.
	_, err = io.Copy(struct{ io.Writer }{draft}, contextReader{ctx, content})
	for _, problem := range []error{err, draft.Chmod(0o640), draft.Sync(), draft.Close()} {
		if problem != nil {
			return failed(doing, problem)
		}
	}
	place := f.file(name)
	if err := f.makeFolders(filepath.Dir(place)); err != nil {
		return failed(doing, err)
	}
	err = os.Link(draft.Name(), place)
	if errors.Is(err, fs.ErrExist) {
		// Who wrote it may have crashed before the name was safe, and we rely on the name from now on.
		if err := syncFolder(filepath.Dir(place)); err != nil {
			return failed(doing, err)
		}
		return &Error{Class: Exists, Doing: doing}
	}
	if err != nil {
		return failed(doing, err)
	}
	return failed(doing, syncFolder(filepath.Dir(place)))
}

// makeFolders makes a folder and those above it, each of which outlives a loss of power.
func (f Folder) makeFolders(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if path == f.Path {
		return os.Mkdir(path, 0o750)
	}
	above := filepath.Dir(path)
	if err := f.makeFolders(above); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(above)
}

func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Get implements Store.
func (f Folder) Get(ctx context.Context, name string) (io.ReadCloser, error) {
	if _, err := f.Head(ctx, name); err != nil {
		return nil, err
	}
	file, err := os.Open(f.file(name))
	if err != nil {
		return nil, failed("read "+name, err)
	}
	return file, nil
}

// Head implements Store.
func (f Folder) Head(_ context.Context, name string) (Object, error) {
	info, err := os.Stat(f.file(name))
	if err == nil && info.IsDir() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return Object{}, failed("look at "+name, err)
	}
	return Object{Name: name, Size: info.Size(), At: info.ModTime().UTC()}, nil
}

// List implements Store. The token is the last name of the page before.
func (f Folder) List(_ context.Context, prefix, token string) (Page, error) {
	var all []Object
	// Only the folder that the prefix names has to be walked.
	start := strings.TrimSuffix(prefix[:strings.LastIndex(prefix, "/")+1], "/")
	if _, err := os.ReadDir(f.Path); err != nil {
		return Page{}, failed("list "+prefix, err) // A volume that is not mounted is not an empty one.
	}
	err := filepath.WalkDir(f.file(start), func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(f.Path, path)
		name := filepath.ToSlash(relative)
		if err != nil || entry.IsDir() && name == drafts {
			return cmp.Or(err, fs.SkipDir)
		}
		if entry.IsDir() || !strings.HasPrefix(name, prefix) || name <= token {
			return nil
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil // It was deleted meanwhile.
		}
		if err == nil {
			all = append(all, Object{Name: name, Size: info.Size(), At: info.ModTime().UTC()})
		}
		return err
	})
	if err != nil {
		return Page{}, failed("list "+prefix, err)
	}
	slices.SortFunc(all, func(a, b Object) int { return strings.Compare(a.Name, b.Name) })
	size := cmp.Or(f.PageSize, 1000)
	if len(all) <= size {
		return Page{Objects: all}, nil
	}
	return Page{Objects: all[:size], Next: all[size-1].Name}, nil
}

// Delete implements Store.
func (f Folder) Delete(_ context.Context, name string) error {
	err := os.Remove(f.file(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if errors.Is(err, syscall.EPERM) {
		return &Error{Class: Locked, Doing: "delete " + name, Err: err} // As after chattr +i.
	}
	if err != nil {
		return failed("delete "+name, err)
	}
	return failed("delete "+name, syncFolder(filepath.Dir(f.file(name))))
}

func failed(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return &Error{Class: NotFound, Doing: doing, Err: err}
	case errors.Is(err, fs.ErrPermission):
		return &Error{Class: CredentialsRefused, Doing: doing, Err: err}
	}
	return &Error{Class: Away, Doing: doing, Err: err}
}

// contextReader ends a copy when its context does.
type contextReader struct {
	context.Context
	from io.Reader
}

func (r contextReader) Read(buffer []byte) (int, error) {
	if err := r.Err(); err != nil {
		return 0, err
	}
	return r.from.Read(buffer)
}
