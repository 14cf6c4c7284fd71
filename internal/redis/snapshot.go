package redis

import (
	"time"

	"meridian.dev/meridian/internal/tenure"
	"meridian.dev/meridian/internal/wire"
)

// Snapshot is everything that one pass knows. It holds no secret: passwords and keys are compared where they are read,
// and only the result is a fact.
type Snapshot struct {
	Now      time.Time `json:"now"`
	Instance string    `json:"instance"`
	// Stopping says that the pod was told to end.
	Stopping bool `json:"stopping,omitempty"`

	// Standing is what the instance is told to be, and Fenced the number of the last standing that a fence has cut off
	// from every primary.
	Standing tenure.Standing `json:"standing"`
	Fenced   uint64          `json:"fenced,omitempty"`
	// Copy is the data in the server.
	Copy Copy `json:"copy,omitzero"`
	// Flush is the request to empty the cache that is to be carried out, and Emptied the last that was, by this server as
	// a primary. The lease tells which is recorded: see Standing.
	Flush   string       `json:"flush,omitempty"`
	Emptied wire.Emptied `json:"emptied,omitzero"`

	Settings    Settings    `json:"settings"`
	Certificate Certificate `json:"certificate"`
	Container   Container   `json:"container"`
	Process     Process     `json:"process"`
	Server      Server      `json:"server"`
	// Fixed names parameters that a server has refused to change while it runs, in the life of this agent, sorted.
	Fixed []string `json:"fixed,omitempty"`
	// NoPassword says why the mounted password cannot be used, empty if it can.
	NoPassword string `json:"noPassword,omitempty"`
	// Turns counts the passwords of replication that other instances may have: those of before count for a while.
	Turns int `json:"turns,omitempty"`
	// Rotation is the number of the application's password that is mounted, and Replication says that a password of
	// replication is.
	Rotation    int64 `json:"rotation,omitempty"`
	Replication bool  `json:"replication,omitempty"`
}

// Settings is what the operator wants.
type Settings struct {
	// Wanted are the settings that are mounted now, or those that were the last time they could be read; nil if there
	// were none yet.
	Wanted *wire.CacheSettings `json:"wanted,omitempty"`
	// Hash identifies them. It is made once in a pass: reports are asked for more often.
	Hash string `json:"hash,omitempty"`
	// Problem says why those that are mounted now cannot be used, empty if they can.
	Problem string `json:"problem,omitempty"`
}

// Certificate is what the server shall present.
type Certificate struct {
	// Mounted identifies what is mounted, empty if it cannot be used; Problem says why.
	Mounted string `json:"mounted,omitempty"`
	Problem string `json:"problem,omitempty"`
	// Installed identifies the copy that the server reads, and Leaf the certificate in it that clients get to see.
	Installed string `json:"installed,omitempty"`
	Leaf      string `json:"leaf,omitempty"`
}

// Container is the room that the server has.
type Container struct {
	// Limit is the memory of the container in bytes as the kernel enforces it, 0 if there is none or it is not known.
	Limit int64 `json:"limit,omitempty"`
}

// Process is the server's process.
type Process struct {
	Running bool `json:"running,omitempty"`
	// Incarnation is the copy that it was started with; of a server that has ended, the one that ended with it, also if
	// that was before a restart of the agent.
	Incarnation string `json:"incarnation,omitempty"`
	// Leftover counts processes of an ended server that still live.
	Leftover int `json:"leftover,omitempty"`
	// Failures counts the ends in a row that nobody asked for, each soon after the start.
	Failures int `json:"failures,omitempty"`
	// Fixed are the parameters that it was started with.
	Fixed []wire.Parameter `json:"fixed,omitempty"`
	// Unfit are parameters with which a server has ended before it ever answered.
	Unfit []wire.Parameter `json:"unfit,omitempty"`
	// Ended is when the last one ended, Exit how, and LastWords what it said, for people.
	Ended     time.Time `json:"ended,omitzero"`
	Exit      string    `json:"exit,omitempty"`
	LastWords string    `json:"lastWords,omitempty"`
}

// Server is what the server says of itself.
type Server struct {
	// Reachable says that it answers on its socket. No other fact here holds without it.
	Reachable   bool   `json:"reachable,omitempty"`
	Problem     string `json:"problem,omitempty"`
	Version     string `json:"version,omitempty"`
	Replication `json:",inline"`
	// MaxMemory and Policy are in force.
	MaxMemory int64  `json:"maxMemory,omitempty"`
	Policy    string `json:"policy,omitempty"`
	// Waiting is how much may wait for a replica before that is given up.
	Waiting int64 `json:"waiting,omitempty"`
	// Used is the memory that counts against MaxMemory, Resident what the process takes from the container.
	Used     int64 `json:"used,omitempty"`
	Resident int64 `json:"resident,omitempty"`
	// Loose is what it holds of that without a use for it.
	Loose   int64 `json:"loose,omitempty"`
	Clients int64 `json:"clients,omitempty"`
	Hits    int64 `json:"hits,omitempty"`
	Misses  int64 `json:"misses,omitempty"`
	Evicted int64 `json:"evicted,omitempty"`
	// Loaded identifies the copy of the certificate that it was last told to read, and Presented what it shows to whoever
	// connects, empty if that is not known.
	Loaded    string `json:"loaded,omitempty"`
	Presented string `json:"presented,omitempty"`
	// Open says that the application can log in, Matches that it can with the mounted passwords and no
	// others, and as the settings say with scripts or without.
	Open    bool `json:"open,omitempty"`
	Matches bool `json:"matches,omitempty"`
	// Parameters are those that are wanted or were set before, sorted by name.
	Parameters []Parameter `json:"parameters,omitempty"`
}

// Replication is what a server says of whom it follows and who follows it.
type Replication struct {
	Replica bool `json:"replica,omitempty"`
	// Host is whom it follows, empty for nobody. Up says that it takes the writes from there, and Quiet how long ago it
	// last heard of it.
	Host  string        `json:"host,omitempty"`
	Up    bool          `json:"up,omitempty"`
	Quiet time.Duration `json:"quiet,omitempty"`
	// Syncing says that all of the data is on its way, or is being read.
	Syncing bool `json:"syncing,omitempty"`
	// Offset is how far the writes have come here.
	Offset int64 `json:"offset,omitempty"`
	// Sent are those that follow it.
	Sent []Sent `json:"sent,omitempty"`
	// Admits says that replicas of this copy are let in, with the passwords that count and no others.
	Admits bool `json:"admits,omitempty"`
	// Knows says that it would log in to whom it follows with the first of the passwords.
	Knows bool `json:"knows,omitempty"`
}

// Sent is a replica that takes the writes of this server.
type Sent struct {
	Member wire.Member `json:"member"`
	Online bool        `json:"online,omitempty"`
	Offset int64       `json:"offset,omitempty"`
	// Quiet is how long ago it last said how far it has come. It does so each second.
	Quiet time.Duration `json:"quiet,omitempty"`
}

// Parameter is one parameter of a running server.
type Parameter struct {
	Name string `json:"name"`
	// Set is the text that it was last set to in the life of this server, empty if never. InForce says that it still has
	// the value that it had right after that.
	Set     string `json:"set,omitempty"`
	InForce bool   `json:"inForce,omitempty"`
	// Refused is what the server said to the text Tried, empty if it was accepted.
	Tried   string `json:"tried,omitempty"`
	Refused string `json:"refused,omitempty"`
}

// Parameter returns the parameter of that name.
func (s Server) Parameter(name string) Parameter {
	for _, parameter := range s.Parameters {
		if parameter.Name == name {
			return parameter
		}
	}
	return Parameter{Name: name}
}
