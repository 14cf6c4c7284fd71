// Package kind names the kinds of resources that have instances, for those who must tell their objects apart and know
// no loop. It decides nothing. Start reading at All.
package kind

// Labels by which the children of a resource are found. Each has the name of the resource.
const (
	LabelDatabase = "meridian.dev/database"
	LabelCache    = "meridian.dev/cache"
)

// Containers in which servers run, each beside its agent.
const (
	ContainerDatabase = "database"
	ContainerCache    = "cache"
)

// Kind is what the objects of a kind of resource are known by.
type Kind struct {
	// One is what persons call one of them, Many several.
	One, Many string
	// Label is that of its children, Container the one of its pods that the server runs in.
	Label, Container string
}

// The kinds.
var (
	Database = Kind{"database", "databases", LabelDatabase, ContainerDatabase}
	Cache    = Kind{"cache", "caches", LabelCache, ContainerCache}
)

// All are the kinds.
var All = []Kind{Database, Cache}
