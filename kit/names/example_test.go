package names_test

import (
	"fmt"
	"strings"

	"meridian.dev/meridian/kit/names"
)

func Example() {
	form := names.LetterLabel()
	fmt.Println(form.Child("cities", "rw"))
	fmt.Println(form.Child("3d-tiles", "rw")) // A Service must begin with a letter.
	// Output:
	// cities-rw
	// x3d-tiles-rw-cbkb8zshrfwb
}

// The joined text has one plain owner. Everyone else who would arrive at the
// same text is told apart by a suffix.
func ExampleForm_Child() {
	form := names.Label()
	fmt.Println(form.Child("a-b", "c"))
	fmt.Println(form.Child("a", "b-c"))
	fmt.Println(form.Child("a", "b", "c"))
	// Output:
	// a-b-c
	// a-b-c-47w7q6cqsvb9
	// a-b-c-pkbdkhcml9z2
}

// A name that is too long keeps its beginning and its role.
func ExampleForm_Within() {
	owner := "department-of-roads-and-bridges-production-maps"
	name := names.Label().Within(52).Child(owner, "primary")
	fmt.Println(name, len(name))
	// Output:
	// department-of-roads-and-bridges-primary-7gkmmtcl8gpp 52
}

func ExampleForm_Fit() {
	form := names.LabelValue()
	fmt.Println(form.Fit("cities"))
	fmt.Println(form.Fit("Städte & Orte"))
	fmt.Println(len(form.Fit(strings.Repeat("long", 50))))
	// Output:
	// cities
	// St-dte---Orte-b247tt28nhq6
	// 63
}
