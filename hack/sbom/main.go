// Command sbom says what is in a program or an image: a bill of materials in SPDX 2.3, as JSON. It reads what Go writes
// into every program, and the list of packages that Debian's tools keep in an image; nothing is downloaded and nothing
// is guessed.
//
//	go run ./hack/sbom -out FOLDER FILE…     one FILE.spdx.json for each program or image file
//	go run ./hack/sbom -list FILE…           names and versions alone, as a page in Markdown
//
// SOURCE_DATE_EPOCH says which moment the documents name, so that they can be made again byte for byte.
//
// Start reading at inspect.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

func main() {
	out := flag.String("out", ".", "folder for the documents")
	list := flag.Bool("list", false, "print names and versions as Markdown, and write no document")
	flag.Parse()
	if err := run(flag.Args(), *out, *list, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "sbom: %v\n", err)
		os.Exit(1)
	}
}

func run(files []string, out string, list bool, report io.Writer) error {
	now, err := created(os.Getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		return err
	}
	if list {
		if _, err := fmt.Fprintf(report, "# Versions of %s\n", now.Format(time.DateOnly)); err != nil {
			return err
		}
	}
	for _, file := range files {
		found, err := inspect(file)
		if err != nil {
			return fmt.Errorf("look into %s: %w", file, err)
		}
		if list {
			if err := printList(report, title(file), found); err != nil {
				return err
			}
			continue
		}
		text, err := document(title(file), found, now)
		if err != nil {
			return err
		}
		target := filepath.Join(out, title(file)+".spdx.json")
		if err := os.WriteFile(target, text, 0o644); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(report, "%s: %d parts\n", target, len(found)); err != nil {
			return err
		}
	}
	return nil
}

// created is the moment that documents name, in seconds since 1970: the same parts at the same moment give the same
// bytes. Without one it is now.
func created(epoch string) (time.Time, error) {
	if epoch == "" {
		return time.Now().UTC().Truncate(time.Second), nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: must be seconds since 1970, such as 1763424000: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// part is one module or package.
type part struct {
	Name, Version string
	// URL names it for everybody: https://github.com/package-url/purl-spec.
	URL string
	// Supplier is who has made it, as far as it is told.
	Supplier string
}

// sorted returns each part once.
func sorted(parts []part) []part {
	slices.SortFunc(parts, func(a, b part) int {
		return slices.Compare([]string{a.URL, a.Version, a.Supplier}, []string{b.URL, b.Version, b.Supplier})
	})
	return slices.Compact(parts)
}

func printList(out io.Writer, title string, parts []part) error {
	if _, err := fmt.Fprintf(out, "\n## %s\n\n| part | version |\n| --- | --- |\n", title); err != nil {
		return err
	}
	for _, one := range parts {
		if _, err := fmt.Fprintf(out, "| %s | %s |\n", one.Name, one.Version); err != nil {
			return err
		}
	}
	return nil
}
