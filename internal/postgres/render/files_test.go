package render_test

import (
	"strings"
	"testing"

	"meridian.dev/meridian/internal/postgres/render"
	"meridian.dev/meridian/internal/wire"
	"meridian.dev/meridian/kit/scenario"
)

type input struct {
	Settings    wire.Settings `json:"settings"`
	User        string        `json:"user"`
	Runtime     string        `json:"runtime"`
	Refused     []string      `json:"refused,omitempty"`
	Certificate string        `json:"certificate"`
}

func TestFiles(t *testing.T) {
	scenario.Run(t, "testdata/*.txtar", func(in scenario.Files) (out scenario.Files) {
		var given input
		in.YAML("input.yaml", &given)
		files, _ := render.Files(render.Input(given))
		for index, file := range files {
			if file.Name != render.Names()[index] {
				t.Errorf("file %d is %s, announced as %s", index, file.Name, render.Names()[index])
			}
			out.SetText(file.Name, file.Text)
		}
		return out
	})
}

func TestMarkFollowsEverything(t *testing.T) {
	base := render.Input{Settings: wire.Settings{Major: 17}, User: "postgres", Runtime: "/run", Certificate: "c1"}
	marks := map[string]string{}
	for name, change := range map[string]func(*render.Input){
		"nothing":     func(*render.Input) {},
		"certificate": func(in *render.Input) { in.Certificate = "c2" },
		"user":        func(in *render.Input) { in.User = "other" },
		"runtime":     func(in *render.Input) { in.Runtime = "/other" },
		"parameters": func(in *render.Input) {
			in.Settings.Parameters = []wire.Parameter{{Name: "work_mem", Value: "1MB"}}
		},
		"extensions": func(in *render.Input) { in.Settings.Extensions = []string{"postgis"} },
	} {
		in := base
		change(&in)
		files, mark := render.Files(in)
		for other, same := range marks {
			if same == mark {
				t.Errorf("a change of %s has the same mark as %s", name, other)
			}
		}
		marks[name] = mark
		if !strings.Contains(files[2].Text, render.MarkParameter+" = '"+mark+"'") {
			t.Errorf("%s: the mark is not in the file", name)
		}
	}
}
