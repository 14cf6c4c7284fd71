package scenario_test

import (
	"fmt"
	"strings"
	"testing"

	"meridian.dev/meridian/kit/scenario"
)

type Guests struct {
	Language string   `json:"language,omitempty"`
	Names    []string `json:"names"`
}

type Remark struct {
	Alone bool `json:"alone"`
}

// greet is a function under test, wrapped for scenarios: a line for each file.
func greet(in scenario.Files) (out scenario.Files) {
	var guests Guests
	in.YAML("guests.yaml", &guests)
	var greeting strings.Builder
	for _, name := range guests.Names {
		fmt.Fprintln(&greeting, "Hello", name)
	}
	out.SetText("greeting.txt", greeting.String())
	if len(guests.Names) == 0 {
		out.SetYAML("remark.yaml", Remark{Alone: true})
	}
	return out
}

// TestGreet is what a test with scenarios looks like.
func TestGreet(t *testing.T) {
	scenario.Run(t, "testdata/*.txtar", greet)
}

// Play needs no test: a program can replay a scenario that someone has sent.
func ExamplePlay() {
	story := `One guest arrives, and is not expected to be greeted twice.
-- guests.yaml --
names: [Ada]
-- want/greeting.txt --
Hello Ada
Hello Ada
`
	result := scenario.Play([]byte(story), greet)
	fmt.Println("passed:", result.Passed())
	fmt.Printf("after an update:\n%s", result.Updated)
	// Output:
	// passed: false
	// after an update:
	// One guest arrives, and is not expected to be greeted twice.
	// -- guests.yaml --
	// names: [Ada]
	// -- want/greeting.txt --
	// Hello Ada
}

// A misspelt field is a failure, not a default.
func ExampleFiles_YAML() {
	story := `A guest arrives whose name is in the wrong place.
-- guests.yaml --
Names: [Ada]
`
	for _, problem := range scenario.Play([]byte(story), greet).Problems {
		fmt.Println(problem)
	}
	// Output:
	// decode guests.yaml: unknown field "Names"
}
