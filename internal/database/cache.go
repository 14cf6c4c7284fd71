package database

// Caches is what a database knows of the caches that name it. Nothing about the database itself ever depends on them.
type Caches struct {
	// Problem is why nobody knows which there are. What was written about them stays as it is then.
	Problem string `json:"problem,omitempty"`
	// List is sorted by name.
	List []Cache `json:"list,omitempty"`
	// Unbound are the keys of the Secret for applications that are to be written or taken away, so that it leads to the
	// caches that there are: such as +CACHE_URL, -CACHE_URL, and ~CACHE_URL for one that leads elsewhere.
	Unbound []string `json:"unbound,omitempty"`
}

// Cache is one that names this database.
type Cache struct {
	Name string `json:"name"`
	// Ready is what its own status says.
	Ready bool `json:"ready,omitempty"`
	// Deleting says that somebody has deleted it.
	Deleting bool `json:"deleting,omitempty"`
	// Problem is why its addresses cannot be read. Those that were written before stay.
	Problem string `json:"problem,omitempty"`
}
