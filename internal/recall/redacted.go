package recall

import (
	"encoding/json"
	"fmt"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/design"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/redact"
)

// Redacted takes secrets out of a snapshot and keeps what follows from it. Names that are made from the spec, such as
// that of a pod template, change with what is taken out of the spec: wherever an instance had the wanted one, it gets
// the one that is wanted now. An instance that had another one keeps it.
func Redacted(seen database.Snapshot) (database.Snapshot, error) {
	after, err := clone(seen)
	if err != nil {
		return seen, err
	}
	if after.Spec, err = redactedSpec(seen.Spec); err != nil {
		return seen, err
	}
	translate(&after, seen)
	for _, text := range sentences(&after) {
		*text = redact.Text(*text)
	}
	for i := range after.Instances {
		parameters := after.Instances[i].Report.Parameters
		for j := range parameters {
			if !redact.Parameter(parameters[j].Name) {
				parameters[j].Current, parameters[j].Wanted = "", ""
			}
		}
	}
	return after, nil
}

// clone is a copy that shares nothing with the original.
func clone(seen database.Snapshot) (database.Snapshot, error) {
	document, err := json.Marshal(seen)
	if err != nil {
		return seen, fmt.Errorf("encode the snapshot: %w", err)
	}
	var after database.Snapshot
	if err := json.Unmarshal(document, &after); err != nil {
		return seen, fmt.Errorf("decode the snapshot: %w", err)
	}
	return after, nil
}

func redactedSpec(spec v1alpha1.GeoDatabaseSpec) (v1alpha1.GeoDatabaseSpec, error) {
	tree, err := redact.Tree(spec)
	if err != nil {
		return spec, fmt.Errorf("redact the spec: %w", err)
	}
	document, err := json.Marshal(tree)
	if err != nil {
		return spec, fmt.Errorf("encode the spec: %w", err)
	}
	var after v1alpha1.GeoDatabaseSpec
	if err := json.Unmarshal(document, &after); err != nil {
		return spec, fmt.Errorf("decode the spec: %w", err)
	}
	return after, nil
}

// translate gives the snapshot the names that follow from its own spec.
func translate(after *database.Snapshot, seen database.Snapshot) {
	names := map[string]string{}
	was, is := design.Of(seen), design.Of(*after)
	for index, hash := range settingsHashes(was) {
		names[hash] = settingsHashes(is)[index]
	}
	for index, instance := range was.Instances {
		names[instance.Template] = is.Instances[index].Template
	}
	delete(names, "")
	follow := func(texts ...*string) {
		for _, text := range texts {
			if name, found := names[*text]; found {
				*text = name
			}
		}
	}
	wish := func(text *string) {
		if render.SameWish(seen.Spec, *text) {
			*text = render.Wish(after.Spec)
		}
	}
	follow(&after.Settings.Hash)
	if after.Trial != nil {
		follow(&after.Trial.Template)
	}
	for i := range after.Instances {
		instance := &after.Instances[i]
		follow(&instance.Report.SettingsHash)
		if instance.Set != nil {
			follow(&instance.Set.Template)
			wish(&instance.Set.Wish)
		}
		if instance.Pod != nil {
			follow(&instance.Pod.Template, &instance.Pod.Settings)
			wish(&instance.Pod.Wish)
			instance.Pod.Metadata = metadata(instance.Pod.Metadata, seen.Spec, after.Spec)
		}
	}
}

// settingsHashes are those with the record of the first initialisation, and those without.
func settingsHashes(design database.Design) []string {
	with := render.Settings(design).Hash()
	design.Record = database.Record{}
	return []string{with, render.Settings(design).Hash()}
}

// metadata is what a pod was given, without values of annotations. What differed from the spec still does.
func metadata(given string, seen, after v1alpha1.GeoDatabaseSpec) string {
	if given == render.Metadata(seen) {
		return render.Metadata(after)
	}
	var tree any
	if json.Unmarshal([]byte(given), &tree) != nil {
		return "{}"
	}
	cleaned, err := redact.Tree(tree)
	if err != nil {
		return "{}"
	}
	document, _ := json.Marshal(cleaned) // It came as JSON.
	if string(document) == render.Metadata(after) {
		return string(document) + " "
	}
	return string(document)
}

// sentences are the texts that others have written.
func sentences(seen *database.Snapshot) []*string {
	texts := []*string{
		&seen.Problem, &seen.Settings.Problem, &seen.Lease.Problem, &seen.Lease.Foreign, &seen.Fleet.Held,
		&seen.Binding.Foreign, &seen.Certificates.Problem, &seen.Certificates.Authority.Foreign,
		&seen.Certificates.Leaf.Foreign,
	}
	for i := range seen.Certificates.Own {
		texts = append(texts, &seen.Certificates.Own[i].Foreign)
	}
	if seen.Trial != nil {
		texts = append(texts, &seen.Trial.Refusal, &seen.Trial.Unknown)
	}
	for i := range seen.Refusals {
		texts = append(texts, &seen.Refusals[i].Why)
	}
	for _, children := range [][]database.Child{seen.Children, seen.Surplus} {
		for i := range children {
			texts = append(texts, &children[i].Problem)
			for j := range children[i].Changes {
				texts = append(texts, &children[i].Changes[j])
			}
		}
	}
	for i := range seen.Instances {
		instance := &seen.Instances[i]
		texts = append(texts, &instance.Report.Problem, &instance.Report.Message)
		if instance.Claim != nil {
			texts = append(texts, &instance.Claim.Message)
		}
		if instance.LogClaim != nil {
			texts = append(texts, &instance.LogClaim.Message)
		}
		if instance.Pod != nil {
			texts = append(texts, &instance.Pod.Stuck, &instance.Pod.ResizeMessage)
		}
	}
	return texts
}
