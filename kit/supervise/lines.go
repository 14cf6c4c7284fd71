package supervise

import (
	"bufio"
	"errors"
	"io"
)

// longestLine is where a longer line is broken: a server may not fill our memory by never ending a line.
const longestLine = 64 << 10

// passLines reads until the last holder of the pipe is gone. Output that nobody wants is read all the same, because a
// full pipe would stop the writer.
func passLines(output io.ReadCloser, lines func([]byte)) {
	defer func() { _ = output.Close() }()
	reader := bufio.NewReaderSize(output, longestLine)
	for {
		line, err := reader.ReadSlice('\n')
		if len(line) > 0 && lines != nil {
			lines(trimEnd(line))
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
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
