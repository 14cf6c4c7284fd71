package draft

import (
	"fmt"
	"slices"
	"strings"

	"meridian.dev/meridian/internal/database"
)

// WriteKind brings all children of a kind to what is wanted.
func (d *Draft) WriteKind(kind string, add func(database.Action)) {
	for _, child := range d.Children {
		if child.Kind == kind {
			d.WriteChild(child, add)
		}
	}
}

// WriteChild brings one child to what is wanted, if it is ours to write.
func (d *Draft) WriteChild(child database.Child, add func(database.Action)) {
	action := database.Action{
		Kind: child.Kind, Name: child.Name, UID: child.UID, ResourceVersion: child.ResourceVersion,
	}
	if d.Writes(child.Kind, child.Name) {
		return
	}
	switch child.State {
	case database.Absent:
		action.Do, action.Why = database.Create{}, "it is wanted and not there"
	case database.Changed:
		action.Do, action.Why = database.Update{}, "wanted: "+Summary(child.Changes)
	case database.Drifted:
		action.Do = database.Update{Repair: true}
		action.Why = "somebody else has changed it: " + Summary(child.Changes)
	case database.Terminating:
		d.Hold(database.Progressing, 0, "ChildTerminating", fmt.Sprintf(
			"the %s %s is being deleted and will be made again when it is gone", child.Kind, child.Name))
		return
	case database.Same, database.Foreign, database.Unreadable:
		return
	}
	add(action)
}

// Summary names some changes: a message is read by people.
func Summary(changes []string) string {
	const most = 3
	changes = slices.DeleteFunc(slices.Clone(changes), func(change string) bool {
		return strings.Contains(change, database.AnnotationTemplate) || strings.Contains(change, database.AnnotationWish)
	})
	if len(changes) == 0 {
		return "a mark of ours"
	}
	if len(changes) > most {
		return strings.Join(changes[:most], ", ") + fmt.Sprintf(" and %d more", len(changes)-most)
	}
	return strings.Join(changes, ", ")
}
