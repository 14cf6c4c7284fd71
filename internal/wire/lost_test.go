package wire_test

import (
	"fmt"
	"slices"
	"testing"

	"meridian.dev/meridian/internal/wire"
)

func TestLostBefore(t *testing.T) {
	var many []string
	for number := range 40 {
		many = append(many, fmt.Sprintf("uid-%d", number))
	}
	cases := map[string]struct {
		present string
		lists   [][]string
		want    []string
	}{
		"none is known":            {"c", nil, nil},
		"each is named once":       {"c", [][]string{{"a"}, {"a", "b"}}, []string{"a", "b"}},
		"the present one is not":   {"c", [][]string{{"a", "c"}}, []string{"a"}},
		"what says nothing is not": {"c", [][]string{{"", "a"}}, []string{"a"}},
		"the oldest are dropped":   {"c", [][]string{many}, many[8:]},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			got := wire.LostBefore(test.present, test.lists...)
			if !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
			if back := wire.ParseLost(wire.FormatLost(got)); !slices.Equal(back, got) {
				t.Errorf("read again as %v", back)
			}
		})
	}
}
