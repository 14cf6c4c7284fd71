package plan

import (
	"fmt"
	"time"

	"meridian.dev/meridian/internal/postgres"
	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// A full volume is no failure of the server. While there is a little room, a primary takes no writes, so that the log,
// which ends the server when it finds none, always does. A server that has ended all the same gets the reserve for its
// next start; when that is used up as well, it is not started before there is room.

// roomPause is between two looks at a volume that has no room.
const roomPause = 2 * time.Second

func waitForRoom(s postgres.Snapshot, plan *draft) bool {
	room := s.Volume.Room
	if s.Process.Running || !room.Full(false) {
		return false
	}
	if !room.Starts() {
		plan.wait(postgres.Hold{
			Reason: wire.ReasonVolumeFull, Recheck: roomPause,
			Detail: "there is no room for a server on the volume" + figures(room) +
				": it starts as soon as there is; raise " + sizeField(room),
		})
		return true
	}
	if room.Reserve > 0 {
		plan.do(postgres.SpendReserve{Why: "the volume is full, and the server needs a little room to start"})
	}
	return false
}

// figures has no number that changes with each look: a report that changes is written down each time.
func figures(room postgres.Room) string {
	if room.LogSize > 0 && room.LogFree < room.Free {
		return fmt.Sprintf(" of WAL, which has %d MiB", room.LogSize>>20)
	}
	return fmt.Sprintf(", which has %d MiB", room.Size>>20)
}

// sizeField is what a user raises.
func sizeField(room postgres.Room) string {
	if room.LogSize > 0 && room.LogFree < room.Free {
		return "spec.storage.walSize"
	}
	return "spec.storage.size"
}

func tellOfRoom(s postgres.Snapshot, plan *draft) bool {
	room := s.Volume.Room
	if !room.Full(s.Server.Full) {
		return false
	}
	detail := "there is hardly room on the volume" + figures(room) + "; raise " + sizeField(room)
	if s.Standing.Role == tenure.RoleLead {
		detail += ": until then transactions are read-only, unless a session sets transaction_read_only to off"
	}
	plan.wait(postgres.Hold{Reason: wire.ReasonVolumeFull, Detail: detail})
	return false
}

// keepAReserve holds room back while there is plenty.
func keepAReserve(s postgres.Snapshot, plan *draft) bool {
	if s.Volume.Room.Spare() {
		plan.do(postgres.KeepReserve{Why: "on a full volume, there must still be room for the next start of the server"})
	}
	return false
}
