//go:build linux

package watchdog

import (
	"encoding/binary"
	"time"
)

// Messages are 16 bytes, so that the kernel never tears one apart: a number, and a moment. The program numbers its
// deadlines; the watchdog sends the same number back when it has understood, and 0 when it has begun to kill.
const messageSize = 16

type message struct {
	number uint64
	moment time.Duration
}

func (m message) encode() []byte {
	var bytes [messageSize]byte
	binary.LittleEndian.PutUint64(bytes[:8], m.number)
	binary.LittleEndian.PutUint64(bytes[8:], uint64(m.moment))
	return bytes[:]
}

func decode(bytes []byte) message {
	return message{
		number: binary.LittleEndian.Uint64(bytes[:8]),
		moment: time.Duration(binary.LittleEndian.Uint64(bytes[8:messageSize])),
	}
}
