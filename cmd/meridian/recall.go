package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"meridian.dev/meridian/internal/recall"
)

func recallCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "recall BUNDLE",
		Short: "Decide again on what was seen: the file that `kubectl meridian snapshot` has written",
		Long: "Decide again on what was seen: the file that `kubectl meridian snapshot` has written, or the replay.txtar\n" +
			"in it. It prints what this version of the operator would do and wait for, and whether its invariants hold.\n" +
			"Nothing is read but the file, and nothing is changed.",
		Example: "  meridian recall maps-cities-20260301-120000.tar.gz",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			file, err := os.Open(args[0])
			if err != nil {
				return fmt.Errorf("open the bundle: %w", err)
			}
			defer func() { _ = file.Close() }()
			story, err := recall.Open(file)
			if err != nil {
				return err
			}
			return recall.Print(cmd.OutOrStdout(), story, recall.Play(story))
		},
	}
}
