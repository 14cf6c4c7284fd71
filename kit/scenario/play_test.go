package scenario_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"meridian.dev/meridian/kit/scenario"
)

// copyAll gives back every file under the same name.
func copyAll(in scenario.Files) (out scenario.Files) {
	for _, name := range in.Names() {
		out.SetText(name, in.Text(name))
	}
	return out
}

func TestPlay(t *testing.T) {
	calls := 0
	type outcome struct {
		Problems, Differences []string // By their beginnings.
		Updated               string
	}
	for name, test := range map[string]struct {
		story    string
		function func(in scenario.Files) (out scenario.Files)
		want     outcome
	}{
		"passes": {
			"S.\n-- a --\n1\n-- want/a --\n1\n", copyAll,
			outcome{Updated: "S.\n-- a --\n1\n-- want/a --\n1\n"},
		},
		"an update keeps the story, the given files and the places": {
			"S.\n\n-- want/b --\n0\n-- b --\n2\n\n-- want/gone --\nx\n-- a --\n1\n", copyAll,
			outcome{
				Differences: []string{"want/b differs", "want/gone is wanted, but did not", "want/a came out, but is not"},
				Updated:     "S.\n\n-- want/b --\n2\n\n-- b --\n2\n\n-- a --\n1\n-- want/a --\n1\n",
			},
		},
		"no story":        {" \n-- a --\n1\n", copyAll, outcome{Problems: []string{"the scenario has no story"}}},
		"a file twice":    {"S.\n-- a --\n-- a --\n", copyAll, outcome{Problems: []string{"the file a is there twice"}}},
		"a want twice":    {"S.\n-- want/a --\n-- want/a --\n", copyAll, outcome{Problems: []string{"the file want/a is"}}},
		"nothing at all":  {"S.\n", copyAll, outcome{Problems: []string{"nothing came out"}}},
		"no want, no out": {"S.\n-- a --\n", readAll, outcome{Problems: []string{"nothing came out"}}},
		"a given file is not read": {
			"S.\n-- a --\n-- b --\n", func(in scenario.Files) (out scenario.Files) {
				out.SetText("x", in.Text("b"))
				return out
			}, outcome{Problems: []string{"the given file a is never read"}},
		},
		"having is not reading": {
			"S.\n-- a --\n", func(in scenario.Files) (out scenario.Files) {
				if in.Has("a") && !in.Has("b") && !in.Has("want/a") {
					out.SetText("x", "y")
				}
				return out
			}, outcome{Problems: []string{"the given file a is never read"}},
		},
		"wanted files are not given": {
			"S.\n-- a --\n-- want/b --\n", func(in scenario.Files) (out scenario.Files) {
				return setText("x", in.Text("want/b"))
			}, outcome{Problems: []string{`the scenario has no file "want/b", only ["a"]`}},
		},
		"the function fails": {
			"S.\n-- a --\n", func(in scenario.Files) (out scenario.Files) {
				in.Fail(errors.New("out of luck"))
				return out
			}, outcome{Problems: []string{"out of luck"}},
		},
		"not the same twice": {
			"S.\n-- a --\n", func(in scenario.Files) (out scenario.Files) {
				calls++
				return setText("x", in.Text("a")+strings.Repeat("x", calls))
			}, outcome{Problems: []string{"two plays of the same files differ"}},
		},
		"set twice": {
			"S.\n-- a --\n", func(in scenario.Files) (out scenario.Files) {
				out.SetText("x", in.Text("a"))
				out.SetText("x", in.Text("a"))
				return out
			}, outcome{Problems: []string{`the file "x" is set twice`}},
		},
		"not encodable": {
			"S.\n-- a --\n", func(in scenario.Files) (out scenario.Files) {
				out.SetYAML("x", in.Text("a"), func() {})
				return out
			}, outcome{Problems: []string{"encode x: "}},
		},
		"a result that breaks the format": {
			"S.\n-- a --\n", func(in scenario.Files) (out scenario.Files) {
				return setText("x", in.Text("a")+"1\n-- b --\n2")
			}, outcome{Problems: []string{`the resulting file "x" cannot be kept in a scenario: a line of it`}},
		},
		"a name that breaks the format": {
			"S.\n-- a --\n", func(in scenario.Files) (out scenario.Files) { return setText(" ", in.Text("a")) },
			outcome{Problems: []string{`the resulting file " " cannot be kept in a scenario: the name`}},
		},
		"several documents": {
			"S.\n-- a --\n-- want/x --\n1\n---\nb: 2\n", func(in scenario.Files) (out scenario.Files) {
				_ = in.Text("a")
				out.SetYAML("x", 1, map[string]int{"b": 2})
				return out
			}, outcome{Updated: "S.\n-- a --\n-- want/x --\n1\n---\nb: 2\n"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			result := scenario.Play([]byte(test.story), test.function)
			got := outcome{shorten(result.Problems, test.want.Problems),
				shorten(result.Differences, test.want.Differences), string(result.Updated)}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if passed := len(got.Problems)+len(got.Differences) == 0; passed != result.Passed() {
				t.Errorf("passed is %t", result.Passed())
			}
			checkUpdate(t, result, test.function)
		})
	}
}

func readAll(in scenario.Files) (out scenario.Files) {
	copyAll(in)
	return out
}

func setText(name, text string) (out scenario.Files) {
	out.SetText(name, text)
	return out
}

// shorten cuts each text to the length of its counterpart, so that a table need
// not repeat a whole diff.
func shorten(texts, like []string) []string {
	var short []string
	for i, text := range texts {
		if i < len(like) && strings.HasPrefix(text, like[i]) {
			text = like[i]
		}
		short = append(short, text)
	}
	return short
}

// checkUpdate states that an updated scenario passes.
func checkUpdate(t *testing.T, result scenario.Result, function func(scenario.Files) scenario.Files) {
	t.Helper()
	if result.Updated == nil {
		return
	}
	if again := scenario.Play(result.Updated, function); !again.Passed() {
		t.Errorf("after the update: %q %q", again.Problems, again.Differences)
	}
}

func TestOtherPanicsPass(t *testing.T) {
	defer func() {
		if reason := recover(); reason != "a bug" {
			t.Errorf("recovered %v", reason)
		}
	}()
	scenario.Play([]byte("S.\n-- a --\n"), func(scenario.Files) scenario.Files { panic("a bug") })
}

func TestStrictDecoding(t *testing.T) {
	type document struct {
		Size  int             `json:"size"`
		Inner struct{ A int } `json:"inner"`
		Free  map[string]any  `json:"free"`
	}
	for name, test := range map[string]struct{ text, want string }{
		"good":               {"# A remark.\n---\nsize: 3\ninner: {A: 1}\nfree: {x: 1}\n", ""},
		"unknown":            {"sise: 3\n", `unknown field "sise"`},
		"unknown inside":     {"inner: {B: 3}\n", `unknown field "inner.B"`},
		"in other letters":   {"Size: 3\n", `unknown field "Size"`},
		"twice":              {"size: 3\nsize: 4\n", "already set in map"},
		"wrong type":         {"size: three\n", "cannot unmarshal string"},
		"two documents":      {"size: 3\n---\nsize: 4\n", "more than one document"},
		"empty":              {"", "the file is empty"},
		"nothing but remark": {"# size: 3\n\n---\n", "the file is empty"},
		"not YAML":           {"{", "did not find expected"},
		"braces are enough":  {"{}\n", ""},
		"marker in a text":   {"free:\n  x: |\n    ---\n    a\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			checkDecoding(t, test.text, test.want, func(in scenario.Files) {
				var into document
				in.YAML("f", &into)
			})
		})
	}
	for name, test := range map[string]struct{ text, want string }{
		"good":             {`{"size": 3}`, ""},
		"unknown":          {`{"sise": 3}`, `unknown field "sise"`},
		"in other letters": {`{"Size": 3}`, `unknown field "Size"`},
		"twice":            {`{"size": 3, "size": 4}`, `duplicate field "size"`},
		"more behind":      {`{"size": 3} {}`, "after top-level value"},
		"empty":            {``, "unexpected end of JSON input"},
	} {
		t.Run("JSON "+name, func(t *testing.T) {
			checkDecoding(t, test.text, test.want, func(in scenario.Files) {
				var into document
				in.JSON("f", &into)
			})
		})
	}
}

func checkDecoding(t *testing.T, text, want string, read func(scenario.Files)) {
	t.Helper()
	result := scenario.Play([]byte("S.\n-- f --\n"+text), func(in scenario.Files) scenario.Files {
		read(in)
		return setText("x", "y")
	})
	got := strings.Join(result.Problems, "\n")
	if want == "" && got != "" || !strings.Contains(got, want) {
		t.Errorf("got problems %q, want %q", got, want)
	}
}

// FuzzPlay plays arbitrary archives and states that whatever has no problems
// passes after one update, and that a second update changes nothing.
func FuzzPlay(f *testing.F) {
	f.Add([]byte("S.\n-- a --\n1\n-- want/a --\n1\n"))
	f.Add([]byte("S.\n-- want/ --\n-- a -- \n\n-- a --\r\n"))
	f.Fuzz(func(t *testing.T, archive []byte) {
		result := scenario.Play(archive, copyAll)
		if (result.Updated == nil) != (len(result.Problems) > 0) {
			t.Fatalf("problems %q with an update %q", result.Problems, result.Updated)
		}
		checkUpdate(t, result, copyAll)
		if result.Updated != nil {
			if again := scenario.Play(result.Updated, copyAll); string(again.Updated) != string(result.Updated) {
				t.Errorf("a second update gives %q after %q", again.Updated, result.Updated)
			}
		}
	})
}
