package admit

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"meridian.dev/meridian/api/v1alpha1"
)

// Problem is one reason to refuse an object.
type Problem struct {
	// Field is the path of the field in the object, such as spec.parameters.work_mem.
	Field string
	// Detail says what is wrong with it and what to do instead.
	Detail string
}

func (p Problem) String() string { return p.Field + ": " + p.Detail }

// Message is all problems in one text for a condition or a refusal, empty if there is none.
func Message(problems []Problem) string {
	lines := make([]string, 0, len(problems))
	for _, problem := range problems {
		lines = append(lines, problem.String())
	}
	return strings.Join(lines, "\n")
}

// Facts is what has to be known about the cluster. The zero value knows nothing, and then nothing is judged by it.
type Facts struct {
	// Classes are the storage classes of the cluster, nil if they are not known.
	Classes []StorageClass
	// Claims are the claims that the database has already. A class that is gone does no harm to a database that
	// needs no new volume, so the existence of a class is judged only without claims.
	Claims []Claim
	// Now is when it is asked, zero if that is of no account: what was taken once is not judged by the clock again.
	Now time.Time
}

// StorageClass is what a rule needs to know about a storage class.
type StorageClass struct {
	Name       string
	Default    bool
	Expandable bool
}

// Claim is a volume claim that belongs to a database.
type Claim struct {
	Name  string
	Class string
	// Size is what the claim asks for now, WAL tells the claim of the log from that of the data.
	Size resource.Quantity
	WAL  bool
}

// databaseRules are asked in this order, and all of them: a user should not have to repair one field to hear about the
// next. No rule relies on another having passed.
var databaseRules = []func(database *v1alpha1.GeoDatabase, facts Facts) []Problem{
	refuseOddImage,              // an image that no runtime can name
	refuseManagedParameters,     // what Meridian sets itself, or what endangers the data
	refuseUnwritableValues,      // text that does not survive a line of postgresql.conf
	refuseUnknownParameters,     // names that this major version does not have
	refuseMalformedValues,       // type, unit, range and choices, as the server itself would judge
	refuseTrappedValues,         // values that the server takes and that break it at its next start
	refuseUnevenSizes,           // single numbers that the server judges by more than a range
	refuseImpossibleConnections, // slots for connections that do not add up
	refuseTooFewSenders,         // replicas that could not connect
	refuseBuffersBeyondMemory,   // buffers that do not fit into the pod
	refuseWALBeyondVolume,       // WAL that is always kept and does not fit beside the rest
	refuseUnknownExtensions,     // names that Meridian's image does not have
	refuseBrokenTemplate,        // changes to the pods that break an instance or leave the level restricted
	refuseUnknownClass,          // a storage class that does not exist
	refuseImpossibleSizes,       // claims that would have to shrink, or that cannot grow
	refuseImpossibleWindow,      // a maintenance window that never opens, or times of no zone
	refuseAutoGrowOfFixedClass,  // growth by itself where volumes cannot grow
	refuseImpossibleBackup,      // a schedule that is none, times of no zone, a window beyond all measure
	refuseTargetInTheFuture,     // a restore to a moment that nobody has seen
	refuseOwnRepositoryAsSource, // a database that is to begin as a clone of itself
}

var cacheRules = []func(cache *v1alpha1.GeoCache) []Problem{
	refuseForeignDatabase,      // a database of another namespace, or no name at all
	refuseOddCacheImage,        // an image that no runtime can name
	refuseUnwritableCacheValue, // text that does not survive a line of the server's file
	refuseOtherCacheNames,      // what is not on the list of settings that a cache may have
	refuseBrokenCacheTemplate,  // changes to the pods that break an instance or leave the level restricted
}

// Database returns what is wrong with a database. With old, the object as it is stored, only what the change brings in
// is a problem: an object that was taken by an older version of Meridian can still be repaired step by step, and be
// deleted. Without old, everything that is wrong is returned.
func Database(wanted, old *v1alpha1.GeoDatabase, facts Facts) []Problem {
	judge := func(database *v1alpha1.GeoDatabase) []Problem {
		var problems []Problem
		for _, rule := range databaseRules {
			problems = append(problems, rule(database, facts)...)
		}
		return problems
	}
	problems := judge(wanted)
	if old != nil {
		problems = append(without(problems, judge(old)), refuseGrowthOfFixedClass(wanted, old, facts)...)
	}
	return sorted(problems)
}

// Cache returns what is wrong with a cache, in the way of Database.
func Cache(wanted, old *v1alpha1.GeoCache, _ Facts) []Problem {
	judge := func(cache *v1alpha1.GeoCache) []Problem {
		var problems []Problem
		for _, rule := range cacheRules {
			problems = append(problems, rule(cache)...)
		}
		return problems
	}
	problems := judge(wanted)
	if old != nil {
		problems = without(problems, judge(old))
	}
	return sorted(problems)
}

// without returns the problems that were not there before.
func without(problems, before []Problem) []Problem {
	return slices.DeleteFunc(problems, func(problem Problem) bool { return slices.Contains(before, problem) })
}

// sorted brings problems into the order of their fields, and says the same thing once.
func sorted(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int { return strings.Compare(a.Field, b.Field) })
	return slices.Compact(problems)
}
