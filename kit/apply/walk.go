package apply

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// comparison collects the operations that lead from a live tree to an intent, and the same as words.
type comparison struct {
	// secret hides values, unchanged means that the intent is the one written last.
	secret, unchanged bool
	// kind is that of the object.
	kind string

	operations []operation
	changes    []located
}

// located is a change together with its place, for asking later who owns the field.
type located struct {
	Change
	at path
}

// maps compares two maps. The fields that we wanted last time and no longer want are removed; everything else that
// only the live map has belongs to others, except in a selector, which is ours alone.
//
// A live structure that is empty counts as absent: a typed client writes {} for one that it did not get, so an
// operation inside it could fail. For the same reason fields are always set by "add", which needs no field to be
// there.
func (c *comparison) maps(at path, want, have map[string]any, last *fields) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		value := have[name]
		switch {
		case value != nil && !(bare(value) && !bare(want[name])):
			c.values(at.field(name), want[name], value, last.child(name))
		case !empty(want[name]):
			c.set(at.field(name), want[name], nil)
		}
	}
	if last != nil {
		for _, name := range slices.Sorted(maps.Keys(last.children)) {
			if _, wanted := want[name]; !wanted && have[name] != nil {
				c.unwanted(at.field(name), have[name], last.child(name))
			}
		}
	}
	if len(at) > 0 && closed(at[len(at)-1].name, want) {
		c.surplus(at, want, have, last)
	}
}

// unwanted removes a field that has left the intent. Where others may have entries beside ours, only ours go.
func (c *comparison) unwanted(at path, have any, last *fields) {
	name := at[len(at)-1].name
	switch have := have.(type) {
	case map[string]any:
		if slices.Contains(openMaps, name) {
			c.maps(at, nil, have, last)
			return
		}
		if bare(have) && len(last.children) > 0 {
			return
		}
	case []any:
		if keys, ok := keysOf(name, have); ok && last.children != nil {
			c.entries(at, entries{}, entries{have, keys}, last)
			return
		}
	}
	c.remove(at, have)
}

func (c *comparison) values(at path, want, have any, last *fields) {
	switch want := want.(type) {
	case map[string]any:
		if have, ok := have.(map[string]any); ok && !retyped(at, want, have) {
			c.maps(at, want, have, last)
			return
		}
	case []any:
		if have, ok := have.([]any); ok {
			c.lists(at, want, have, last)
			return
		}
	default:
		if equal(want, have) {
			return
		}
	}
	c.set(at, want, have)
}

func retyped(at path, want, have map[string]any) bool {
	return slices.Contains(unions, at[len(at)-1].name) && want["type"] != nil && !equal(want["type"], have["type"])
}

func (c *comparison) lists(at path, want, have []any, last *fields) {
	name := at[len(at)-1].name
	if c.isGrant(at) {
		if !exactly(want, have) {
			c.set(at, want, have)
		}
		return
	}
	wantKeys, wantOK := keysOf(name, want)
	haveKeys, haveOK := keysOf(name, have)
	if wantOK && haveOK {
		c.entries(at, entries{want, wantKeys}, entries{have, haveKeys}, last)
		return
	}
	// The list counts as a whole. As long as we want of it what we wanted before, additions by admission are welcome.
	changed := !c.unchanged && last != nil && last.digest != digest(want)
	if changed && !reflect.DeepEqual(want, have) || !changed && !within(want, have) {
		c.set(at, want, have)
	}
}

// entries are the entries of a list with their keys.
type entries struct {
	list []any
	keys []string
}

// entries compares two lists entry by entry. The operations address entries by index, which is safe because the patch
// tests the resourceVersion: first those inside entries, then removals from the end, then additions and
// moves in the order of the intent.
func (c *comparison) entries(at path, want, have entries, last *fields) {
	for i, key := range want.keys {
		if found := slices.Index(have.keys, key); found >= 0 {
			c.values(at.entry(found, key), want.list[i], have.list[found], last.child(key))
		}
	}
	present := slices.Clone(have.keys)
	for i := len(have.keys) - 1; i >= 0; i-- {
		key := have.keys[i]
		if last.child(key) != nil && !slices.Contains(want.keys, key) {
			c.remove(at.entry(i, key), have.list[i])
			present = slices.Delete(present, i, i+1)
		}
	}
	before := -1
	for i, key := range want.keys {
		found := slices.Index(present, key)
		switch {
		case found < 0:
			before++
			c.set(at.entry(before, key), want.list[i], nil)
			present = slices.Insert(present, before, key)
		case found > before:
			before = found
		default:
			// The entry stands before one that it should follow. Taking it out moves that one back by a place.
			c.move(at.entry(found, key), at.entry(before, key))
			present = slices.Insert(slices.Delete(present, found, found+1), before, key)
		}
	}
}

// set gives a field its value, or puts an entry that is missing at its place.
func (c *comparison) set(at path, want, have any) {
	c.operations = append(c.operations, operation{Op: "add", Path: at.pointer(), Value: want})
	c.note(at, c.show(at, have), c.show(at, want))
}

func (c *comparison) remove(at path, have any) {
	c.operations = append(c.operations, operation{Op: "remove", Path: at.pointer()})
	c.note(at, c.show(at, have), "")
}

func (c *comparison) move(from, to path) {
	c.operations = append(c.operations, operation{Op: "move", From: from.pointer(), Path: to.pointer()})
	c.note(to, "out of order", "in order")
}

func (c *comparison) note(at path, from, to string) {
	c.changes = append(c.changes, located{Change{Path: at.String(), From: from, To: to}, at})
}

// sorted returns the changes by path, nil if there are none.
func (c *comparison) sorted() []Change {
	var found []Change
	for _, change := range c.changes {
		found = append(found, change.Change)
	}
	slices.SortStableFunc(found, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return found
}

// within reports whether have contains want: maps by their fields, lists by their entries in order, all else by
// equality.
func within(want, have any) bool {
	switch want := want.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		for name, value := range want {
			if !ok || !within(value, have[name]) && !(have[name] == nil && empty(value)) ||
				hasSurplus(name, value, have[name]) {
				return false
			}
		}
		return ok
	case []any:
		have, ok := have.([]any)
		for _, value := range want {
			match := slices.IndexFunc(have, func(candidate any) bool { return within(value, candidate) })
			if match < 0 {
				return false
			}
			have = have[match+1:]
		}
		return ok
	default:
		return equal(want, have)
	}
}

// empty reports whether the absence of a field says the same as the value. That holds for an empty list, which the API
// server may leave out, and not for an empty structure: emptyDir: {} says something.
func empty(value any) bool {
	list, ok := value.([]any)
	return ok && len(list) == 0
}

// bare reports whether the value is a structure without fields.
func bare(value any) bool {
	children, ok := value.(map[string]any)
	return ok && len(children) == 0
}

// equal compares scalars. A number is a number, whether JSON made it an integer or a float.
func equal(want, have any) bool {
	if want == have {
		return true
	}
	left, ok := number(want)
	right, also := number(have)
	return ok && also && left == right
}

func number(value any) (float64, bool) {
	switch value := value.(type) {
	case int64:
		return float64(value), true
	case float64:
		return value, true
	default:
		return 0, false
	}
}
