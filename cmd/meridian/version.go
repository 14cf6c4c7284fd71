package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker (see the Makefile). Without it, what Go recorded in the binary is used.
var version string

// buildFacts is what `meridian version -o json` prints. Scripts read it, so fields are added, never renamed.
type buildFacts struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, _ := debug.ReadBuildInfo()
			return printFacts(cmd.OutOrStdout(), output, factsOf(version, info))
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "format of the output: text or json")
	return cmd
}

// factsOf prefers the linked version over the recorded one: a release build is made from a tag that Go cannot
// see when version control is switched off. A nil info, as in a stripped binary, is no error.
func factsOf(linked string, info *debug.BuildInfo) buildFacts {
	facts := buildFacts{
		Version:  linked,
		Go:       runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if info != nil {
		if facts.Version == "" {
			facts.Version = info.Main.Version
		}
		for _, setting := range info.Settings {
			switch setting.Key {
			case "vcs.revision":
				facts.Commit = setting.Value
			case "vcs.modified":
				facts.Modified = setting.Value == "true"
			}
		}
	}
	if facts.Version == "" || facts.Version == "(devel)" {
		facts.Version = "devel"
	}
	return facts
}

func printFacts(out io.Writer, format string, facts buildFacts) error {
	switch format {
	case "text":
		_, err := fmt.Fprintf(out, "meridian %s %s %s\n", facts.Version, facts.Go, facts.Platform)
		return err
	case "json":
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(facts)
	default:
		return fmt.Errorf("unknown output format %q: use text or json", format)
	}
}
