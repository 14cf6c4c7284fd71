package plan

// Same says whether two standings are the same.
var Same = same
