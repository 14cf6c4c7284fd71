package ship

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"meridian.dev/meridian/internal/backup"
	"meridian.dev/meridian/internal/backup/plan"
	"meridian.dev/meridian/internal/postgres/wal"
)

// Log is an instance's log.
type Log interface {
	// List tells what is there.
	List() ([]plan.LocalLog, error)
	// Open reads a segment between two offsets. The reader ends in an error if what it read may not be the log.
	Open(timeline int, number, from, to uint64) (io.ReadCloser, error)
	// History reads the history of a timeline.
	History(timeline int) ([]byte, error)
}

// Folder is PostgreSQL's own folder of the log, pg_wal. It is read only.
type Folder struct {
	Path  string
	Owner backup.Owner
}

var _ Log = Folder{}

// List implements Log.
func (f Folder) List() ([]plan.LocalLog, error) {
	entries, err := os.ReadDir(f.Path)
	if err != nil {
		return nil, fmt.Errorf("list the log: %w", err)
	}
	logs := map[int]*plan.LocalLog{}
	log := func(timeline int) *plan.LocalLog {
		if logs[timeline] == nil {
			logs[timeline] = &plan.LocalLog{Timeline: timeline}
		}
		return logs[timeline]
	}
	for _, entry := range entries {
		name := entry.Name()
		if timeline, number, ok := backup.ParseSegment(name, f.Owner.SegmentSize); ok {
			log(timeline).Segments = append(log(timeline).Segments, number)
		}
		var timeline int
		if rest, found := strings.CutSuffix(name, ".history"); found {
			if _, err := fmt.Sscanf(rest, "%08X", &timeline); err == nil && wal.HistoryName(timeline) == name {
				log(timeline).HasHistory = true
			}
		}
	}
	var sorted []plan.LocalLog
	for _, found := range logs {
		slices.Sort(found.Segments)
		sorted = append(sorted, *found)
	}
	slices.SortFunc(sorted, func(a, b plan.LocalLog) int { return a.Timeline - b.Timeline })
	return sorted, nil
}

// History implements Log.
func (f Folder) History(timeline int) ([]byte, error) {
	content, err := os.ReadFile(filepath.Join(f.Path, wal.HistoryName(timeline)))
	if err != nil {
		return nil, fmt.Errorf("read the history of timeline %d: %w", timeline, err)
	}
	return content, nil
}

// Open implements Log.
func (f Folder) Open(timeline int, number, from, to uint64) (io.ReadCloser, error) {
	path := filepath.Join(f.Path, backup.SegmentName(timeline, number, f.Owner.SegmentSize))
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	return &pages{file: file, path: path, begin: number * f.Owner.SegmentSize, at: from, to: to, owner: f.Owner}, nil
}

// pageSize is that of the log of every PostgreSQL that was built with the defaults, as all images are.
const pageSize = 8192

// errRecycled means that PostgreSQL uses the file for something else by now.
var errRecycled = errors.New("PostgreSQL has recycled it")

// pages reads a file of the log page by page, and looks at the address in each: a file that PostgreSQL has recycled
// holds the log of another place until it is overwritten.
type pages struct {
	file  *os.File
	path  string
	begin uint64 // Where the segment begins.
	at    uint64
	to    uint64
	owner backup.Owner

	page [pageSize]byte
	left []byte
}

func (p *pages) Read(buffer []byte) (int, error) {
	if len(p.left) == 0 {
		if p.at >= p.to {
			return 0, p.end()
		}
		if err := p.load(); err != nil {
			return 0, err
		}
	}
	count := copy(buffer, p.left)
	p.left = p.left[count:]
	return count, nil
}

func (p *pages) load() error {
	start := p.at / pageSize * pageSize
	if _, err := p.file.ReadAt(p.page[:], int64(start)); err != nil {
		return fmt.Errorf("read %s at %d: %w", filepath.Base(p.path), start, err)
	}
	// After a switch of the segment the rest of it is zeros.
	address := binary.LittleEndian.Uint64(p.page[8:])
	if address != p.begin+start && !slices.Equal(p.page[:16], make([]byte, 16)) {
		return fmt.Errorf("read %s at %d: %w: the page is one of %s",
			filepath.Base(p.path), start, errRecycled, backup.LSN(address))
	}
	if start == 0 {
		if system := fmt.Sprint(binary.LittleEndian.Uint64(p.page[24:])); system != p.owner.SystemIdentifier {
			return fmt.Errorf("read %s: it is the log of the system %s, not %s",
				filepath.Base(p.path), system, p.owner.SystemIdentifier)
		}
	}
	end := min(start+pageSize, p.to)
	p.left, p.at = p.page[p.at-start:end-start], end
	return nil
}

// end makes sure that the file still has its name: PostgreSQL renames before it writes anew, so then all of it was read
// before that.
func (p *pages) end() error {
	now, err := os.Stat(p.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the log: %w", err)
	}
	then, problem := p.file.Stat()
	if problem != nil || err != nil || !os.SameFile(now, then) {
		return fmt.Errorf("read %s: %w", filepath.Base(p.path), errRecycled)
	}
	return io.EOF
}

func (p *pages) Close() error { return p.file.Close() }
