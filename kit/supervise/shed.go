//go:build linux

package supervise

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Shed lets go of the pages of the program's own file that only its start has needed. A large program runs the
// beginnings of all of its packages, and then few of them: what it needs again comes back from the file when it is
// touched. Only pages are let go that nobody can have written to.
func Shed() error {
	ranges, err := ownPages()
	if err != nil {
		return fmt.Errorf("let go of the pages of the start: %w", err)
	}
	var failed []error
	for _, r := range ranges {
		// The range is a mapping of this process, as the kernel has just listed it.
		if _, _, code := unix.Syscall(unix.SYS_MADVISE, r.start, r.size, unix.MADV_DONTNEED); code != 0 {
			failed = append(failed, fmt.Errorf("let go of the pages of the start: %w", code))
		}
	}
	return errors.Join(failed...)
}

// pages is a mapping.
type pages struct{ start, size uintptr }

// ownPages lists the mappings of the program's file that cannot be written to and never were: a page that was changed
// before it was protected would come back as it is in the file.
func ownPages() ([]pages, error) {
	own, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	table, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return nil, err
	}
	var found []pages
	var current *pages
	for scanner := bufio.NewScanner(bytes.NewReader(table)); scanner.Scan(); {
		words := strings.Fields(scanner.Text())
		switch {
		case len(words) >= 5 && strings.Contains(words[0], "-"):
			current = nil
			if strings.HasSuffix(scanner.Text(), " "+own) && !strings.Contains(words[1], "w") {
				current = parseRange(words[0])
			}
		case current != nil && len(words) == 3 && words[0] == "Anonymous:" && words[1] == "0":
			found, current = append(found, *current), nil
		}
	}
	return found, nil
}

func parseRange(text string) *pages {
	low, high, _ := strings.Cut(text, "-")
	start, err := strconv.ParseUint(low, 16, 64)
	end, err2 := strconv.ParseUint(high, 16, 64)
	if err != nil || err2 != nil || end <= start {
		return nil
	}
	return &pages{start: uintptr(start), size: uintptr(end - start)}
}
