package service

import "strings"

// Event is something that happened to a resource.
type Event struct {
	Warning bool
	// Reason and Action are CamelCase words, Note is one sentence.
	Reason, Action, Note string
}

// Tell adds an event to those of the same kind in a pass. Several at once that differ in their note alone would be
// taken for a series: the notes of all but the first would be lost, and writing the series races with its first event.
func Tell(told []Event, event Event) []Event {
	for i := range told {
		if told[i].Reason == event.Reason && told[i].Action == event.Action && told[i].Warning == event.Warning {
			told[i].Note += "; " + event.Note
			return told
		}
	}
	return append(told, event)
}

// Cut keeps each note within what the API server accepts; a longer one would be lost as a whole.
func Cut(told []Event) []Event {
	const most = 1000
	for i, event := range told {
		if len(event.Note) > most {
			told[i].Note = strings.ToValidUTF8(event.Note[:most], "") + "…"
		}
	}
	return told
}
