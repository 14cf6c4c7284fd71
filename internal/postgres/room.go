package postgres

// Room is how much is on the volume and how much is free, in bytes; Size is 0 while unknown.
type Room struct {
	Size uint64 `json:"size,omitempty"`
	Free uint64 `json:"free,omitempty"`
	// LogSize and LogFree are those of the log, if it has a volume of its own.
	LogSize uint64 `json:"logSize,omitempty"`
	LogFree uint64 `json:"logFree,omitempty"`
	// Reserve is what a file holds that is given up when nothing else is left.
	Reserve uint64 `json:"reserve,omitempty"`
}

// Bounds of the room, in bytes. A file of the log has 16 MiB.
const (
	// ReserveSize is what is held back for the time when nothing else is left: enough to write the agent's own files, and
	// for a server to recover and to let people remove something.
	ReserveSize = 32 << 20
	// fullBelow is from where on a primary takes no writes: the log must never be what finds no room, because the server
	// ends then. It takes them again above roomAbove.
	fullBelow = 48 << 20
	roomAbove = 80 << 20
	// startAbove is what a server needs to recover.
	startAbove = 24 << 20
	// reserveAbove is from where on the reserve is held back again.
	reserveAbove = 160 << 20
)

// least is what is free where less is.
func (r Room) least() uint64 {
	if r.LogSize > 0 {
		return min(r.Free, r.LogFree)
	}
	return r.Free
}

// Full says that there is hardly room left. One that was full needs a little more than that.
func (r Room) Full(before bool) bool {
	bound := uint64(fullBelow)
	if before {
		bound = roomAbove
	}
	return r.Size > 0 && r.least() < bound
}

// Use is how full the fuller of the volumes is, in percent: 100 if it is Full, 0 while that is not known.
func (r Room) Use(before bool) int {
	switch {
	case r.Size == 0:
		return 0
	case r.Full(before):
		return 100
	}
	use := percent(r.Size, r.Free)
	if r.LogSize > 0 {
		use = max(use, percent(r.LogSize, r.LogFree))
	}
	return min(max(use, 1), 99)
}

func percent(size, free uint64) int { return int((size - min(free, size)) * 100 / size) }

// Starts says that a server finds the room to start, with the reserve if need be.
func (r Room) Starts() bool {
	if r.Size == 0 {
		return true
	}
	free := r.Free + r.Reserve
	if r.LogSize > 0 {
		free = min(free, r.LogFree)
	}
	return free >= startAbove
}

// Spare says that there is room for the reserve.
func (r Room) Spare() bool { return r.Size > 0 && r.Reserve == 0 && r.Free >= reserveAbove }
