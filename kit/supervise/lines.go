package supervise

import (
	"bufio"
	"errors"
	"io"
)

// longestLine is where a longer line is cut: a server may not fill our memory by never ending a line. What follows up
// to its end is left out, because it must not be taken for a line: whoever chose the text would have chosen that line.
const longestLine = 64 << 10

// passLines reads until the last holder of the pipe is gone. Output that nobody wants is read all the same, because a
// full pipe would stop the writer.
func passLines(output io.ReadCloser, lines func([]byte)) {
	defer func() { _ = output.Close() }()
	reader := bufio.NewReaderSize(output, longestLine)
	cut := false
	for {
		line, err := reader.ReadSlice('\n')
		if len(line) > 0 && lines != nil && !cut {
			lines(trimEnd(line))
		}
		if cut = errors.Is(err, bufio.ErrBufferFull); err != nil && !cut {
			return
		}
	}
}

func trimEnd(line []byte) []byte {
	if end := len(line) - 1; line[end] == '\n' {
		line = line[:end]
	}
	if end := len(line) - 1; end >= 0 && line[end] == '\r' {
		line = line[:end]
	}
	return line
}
