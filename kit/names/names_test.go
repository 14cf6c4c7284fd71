package names_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"

	"meridian.dev/meridian/kit/names"
)

// forms pairs each form with the judgement of Kubernetes about it.
var forms = map[string]struct {
	form  names.Form
	judge func(string) []string
}{
	"label":             {names.Label(), validation.IsDNS1123Label},
	"label within 16":   {names.Label().Within(16), validation.IsDNS1123Label},
	"label within 52":   {names.Label().Within(52), validation.IsDNS1123Label},
	"letter label":      {names.LetterLabel(), validation.IsDNS1035Label},
	"letter within 17":  {names.LetterLabel().Within(17), validation.IsDNS1035Label},
	"subdomain":         {names.Subdomain(), validation.IsDNS1123Subdomain},
	"subdomain 20":      {names.Subdomain().Within(20), validation.IsDNS1123Subdomain},
	"label value":       {names.LabelValue(), validation.IsValidLabelValue},
	"label value in 30": {names.LabelValue().Within(30), validation.IsValidLabelValue},
}

// TestGolden pins names for ever. A change here renames objects in running
// clusters, which orphans the old ones: it is never a harmless change.
func TestGolden(t *testing.T) {
	long := strings.Repeat("abcdefghi-", 30)
	for name, test := range map[string]struct{ got, want string }{
		"plain":                  {names.Label().Child("cities", "rw"), "cities-rw"},
		"owner with hyphens":     {names.Label().Child("old-town", "rw"), "old-town-rw"},
		"number as role":         {names.Label().Child("cities", "3"), "cities-3"},
		"role with a hyphen":     {names.Label().Child("cities", "read-only"), "cities-read-only-r9wr5kqnnlwj"},
		"three parts":            {names.Label().Child("cities", "1", "data"), "cities-1-data-j4pwrpvhdvrw"},
		"long":                   {names.Label().Within(40).Child(long, "rw"), "abcdefghi-abcdefghi-abcd-rw-rg24m8x77tr7"},
		"long role":              {names.Label().Within(40).Child("cities", long), "cities-abcdefghi-abcdefghi-prhg4scblbqt"},
		"upper case":             {names.Label().Child("Cities", "rw"), "cities-rw-fr96c2h27bq8"},
		"dots in a label":        {names.Label().Child("a.b", "rw"), "a-b-rw-5czr56v4c8rs"},
		"dots in a subdomain":    {names.Subdomain().Child("a.b", "rw"), "a.b-rw"},
		"bad dots":               {names.Subdomain().Child("a..b.", "rw"), "a--b-rw-hh7p9c2ncv6w"},
		"digit first":            {names.LetterLabel().Child("9", "rw"), "x9-rw-7zlsmzf79r78"},
		"nothing":                {names.Label().Child("", ""), "x-x4672k8x5ftl"},
		"nothing but bad":        {names.Label().Child("---", "é"), "x-2j6tzs9vf68f"},
		"role like a suffix":     {names.Label().Child("a", "bcdfghjklmnp"), "a-bcdfghjklmnp-tqwlklszrkrp"},
		"fit plain":              {names.LabelValue().Fit("Old_Town.1"), "Old_Town.1"},
		"fit blank label value":  {names.LabelValue().Fit(""), ""},
		"fit blank label":        {names.Label().Fit(""), "x-29pvv595b6q7"},
		"fit cut at a separator": {names.Label().Within(23).Fit(long), "abcdefghi-4f9j2447phzb"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAmbiguousReadings takes every way to split one text into owner and roles:
// all of them must have names of their own, and exactly one is the plain text.
func TestAmbiguousReadings(t *testing.T) {
	words := []string{"a", "b", "c", "d", "e"}
	text := strings.Join(words, "-")
	seen := map[string][]string{}
	for mask := 1; mask < 1<<(len(words)-1); mask++ {
		parts := []string{words[0]}
		for i, word := range words[1:] {
			if mask>>i&1 == 1 {
				parts = append(parts, word)
			} else {
				parts[len(parts)-1] += "-" + word
			}
		}
		name := names.Label().Child(parts[0], parts[1], parts[2:]...)
		if other, taken := seen[name]; taken {
			t.Errorf("%q and %q are both named %s", other, parts, name)
		}
		seen[name] = parts
	}
	if diff := cmp.Diff([]string{"a-b-c-d", "e"}, seen[text]); diff != "" {
		t.Errorf("wrong parts have the plain name:\n%s", diff)
	}
	if len(seen) != 1<<(len(words)-1)-1 {
		t.Errorf("looked at %d readings", len(seen))
	}
}

// TestNamesOfNames shows that a name made here does not become plain again, or
// meet the name of what it was made from.
func TestNamesOfNames(t *testing.T) {
	long := strings.Repeat("z", 300)
	once := names.Label().Fit(long)
	if twice := names.Label().Fit(once); twice == once {
		t.Errorf("%q is the name of two texts", once)
	}
	cut := names.Label().Child(long, "rw")
	at := strings.LastIndex(cut, "-")
	if again := names.Label().Child(cut[:at], cut[at+1:]); again == cut {
		t.Errorf("%q is the name of two children", cut)
	}
}

func TestTooLowLimitPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a limit of 15 was taken")
		}
	}()
	names.Label().Within(15)
}

func TestHigherLimitIsIgnored(t *testing.T) {
	if got := names.Label().Within(1000).Limit(); got != 63 {
		t.Errorf("limit is %d", got)
	}
}

// TestCrowd names many children of owners that differ only where they are cut
// off, in all forms, and expects no two equal names.
func TestCrowd(t *testing.T) {
	for name, test := range forms {
		t.Run(name, func(t *testing.T) {
			seen := map[string]string{}
			for i := range 8000 {
				owner := strings.Repeat("a", 260) + fmt.Sprint(i/4)
				role := []string{"rw", "ro", "r-w", strings.Repeat("r", 200)}[i%4]
				child := test.form.Child(owner, role)
				if other, taken := seen[child]; taken {
					t.Fatalf("%s is the name of %s and %s", child, other, owner+" "+role)
				}
				seen[child] = owner + " " + role
			}
		})
	}
}

// TestRandomParts draws parts from an alphabet of trouble.
func TestRandomParts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	draw := func() string {
		const trouble = "aaabz09--..__AZé \x00/\xff"
		out := make([]byte, random.IntN([]int{3, 20, 80, 300}[random.IntN(4)]))
		for i := range out {
			out[i] = trouble[random.IntN(len(trouble))]
		}
		return string(out)
	}
	for range 4000 {
		first, second := []string{draw(), draw()}, []string{draw(), draw()}
		if random.IntN(2) == 0 {
			second = append(second, draw())
		}
		checkPair(t, first, second)
	}
}

func FuzzChild(f *testing.F) {
	f.Add("a-b", "c", "a", "b-c")
	f.Add("a", "b", "a", "b")
	f.Add(strings.Repeat("a", 300), "b", strings.Repeat("a", 301), "b")
	f.Add("3d", "rw", "x3d", "rw")
	f.Add("a.", ".b", "a-", "-b")
	f.Fuzz(func(t *testing.T, owner, role, owner2, role2 string) {
		checkPair(t, []string{owner, role}, []string{owner2, role2})
		checkPair(t, []string{owner, role, role2}, []string{owner, role + "-" + role2})
		checkPair(t, []string{owner, role, role2}, []string{owner + "-" + role, role2})
	})
}

// checkPair states all that the package promises, about two lists of parts.
func checkPair(t *testing.T, first, second []string) {
	t.Helper()
	for name, form := range forms {
		one := form.form.Child(first[0], first[1], first[2:]...)
		two := form.form.Child(second[0], second[1], second[2:]...)
		checkName(t, name, one)
		if again := form.form.Child(first[0], first[1], first[2:]...); again != one {
			t.Errorf("%s: %q is named %q, then %q", name, first, one, again)
		}
		if same := slices.Equal(first, second); same != (one == two) {
			t.Errorf("%s: %q is named %q, %q is named %q", name, first, one, second, two)
		}
		fitOne, fitTwo := form.form.Fit(first[0]), form.form.Fit(second[0])
		checkName(t, name, fitOne)
		if (first[0] == second[0]) != (fitOne == fitTwo) {
			t.Errorf("%s: %q fits as %q, %q as %q", name, first[0], fitOne, second[0], fitTwo)
		}
	}
}

func checkName(t *testing.T, form, name string) {
	t.Helper()
	if problems := forms[form].judge(name); len(problems) > 0 {
		t.Errorf("%s: %q is not valid: %s", form, name, strings.Join(problems, "; "))
	}
	if limit := forms[form].form.Limit(); len(name) > limit {
		t.Errorf("%s: %q has %d characters, limit %d", form, name, len(name), limit)
	}
}

// TestValidStaysPlain checks the other direction: what has one reading and is
// valid is never suffixed, because people type these names.
func TestValidStaysPlain(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	const letters = "abcxyz089-"
	kept := 0
	for range 20000 {
		owner := make([]byte, 1+random.IntN(70))
		for i := range owner {
			owner[i] = letters[random.IntN(len(letters))]
		}
		plain := string(owner) + "-role"
		if len(validation.IsDNS1123Label(plain)) > 0 {
			continue
		}
		kept++
		if got := names.Label().Child(string(owner), "role"); got != plain {
			t.Errorf("%q is valid, but named %q", plain, got)
		}
	}
	if kept < 5000 {
		t.Errorf("only %d names were valid", kept)
	}
}
