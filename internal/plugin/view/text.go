package view

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// Style says how texts may look.
type Style struct {
	// Colour is for terminals alone.
	Colour bool
}

// tone is what a colour means.
type tone int

const (
	plain tone = iota
	good
	busy
	bad
	faint
	strong
)

var escapes = map[tone]string{good: "\x1b[32m", busy: "\x1b[33m", bad: "\x1b[31m", faint: "\x1b[2m", strong: "\x1b[1m"}

func (s Style) paint(tone tone, text string) string {
	if escape := escapes[tone]; s.Colour && escape != "" && text != "" {
		return escape + text + "\x1b[0m"
	}
	return text
}

func toneOf(verdict Verdict) tone {
	switch verdict {
	case Well:
		return good
	case Stalled, Down, Unclear:
		return bad
	default:
		return busy
	}
}

// cell is one field of a table.
type cell struct {
	text string
	tone tone
}

func text(format string, args ...any) cell { return cell{text: fmt.Sprintf(format, args...)} }

// table is aligned by what is seen, and not by the bytes of colours.
type table struct {
	style Style
	// indent is before each line.
	indent string
	rows   [][]cell
}

func (t *table) add(row ...cell) { t.rows = append(t.rows, row) }

func (t *table) head(names ...string) {
	var row []cell
	for _, name := range names {
		row = append(row, cell{text: name, tone: faint})
	}
	t.add(row...)
}

func (t *table) write(out io.Writer) {
	var widths []int
	for _, row := range t.rows {
		for index, cell := range row {
			if index == len(widths) {
				widths = append(widths, 0)
			}
			widths[index] = max(widths[index], utf8.RuneCountInString(cell.text))
		}
	}
	for _, row := range t.rows {
		var line strings.Builder
		for index, cell := range row {
			line.WriteString(t.style.paint(cell.tone, cell.text))
			if index < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[index]-utf8.RuneCountInString(cell.text)+2))
			}
		}
		fmt.Fprintln(out, t.indent+strings.TrimRight(line.String(), " "))
	}
}

// dash stands for what is not known.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// ago is how long something is past, as coarse as a person would say it.
func ago(now, then time.Time) string {
	if then.IsZero() {
		return "-"
	}
	return Span(now.Sub(then))
}

// Span is a duration as coarse as a person would say it.
func Span(span time.Duration) string {
	switch {
	case span < time.Second:
		return "0s"
	case span < 2*time.Minute:
		return fmt.Sprintf("%ds", int(span.Seconds()))
	case span < 2*time.Hour:
		return fmt.Sprintf("%dm", int(span.Minutes()))
	case span < 48*time.Hour:
		return fmt.Sprintf("%dh", int(span.Hours()))
	default:
		return fmt.Sprintf("%dd", int(span.Hours())/24)
	}
}

// Size is a number of bytes with three digits at most.
func Size(bytes int64) string {
	units := []string{"B", "Ki", "Mi", "Gi", "Ti", "Pi"}
	value, unit := float64(bytes), 0
	for value >= 1000 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	if value < 10 && unit > 0 && value != float64(int(value)) {
		return fmt.Sprintf("%.1f%s", value, units[unit])
	}
	return fmt.Sprintf("%.0f%s", value, units[unit])
}

func seconds(value float64) string {
	if value < 1 {
		return fmt.Sprintf("%dms", int(value*1000))
	}
	return Span(time.Duration(value * float64(time.Second)))
}

func plural(count int, one string) string {
	if count == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", count, one)
}
