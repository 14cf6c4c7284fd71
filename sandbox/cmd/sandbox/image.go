package main

import (
	"fmt"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"meridian.dev/meridian/sandbox/image"
	"meridian.dev/meridian/sandbox/preflight"
)

func imageCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "image", Short: "Build images without Docker and load them into the nodes"}
	cmd.AddCommand(imageLoadCommand(), imageBuildCommand())
	return cmd
}

func imageLoadCommand() *cobra.Command {
	return &cobra.Command{
		Use: "load FILE…", Short: "Load image files into every node that is on", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			for _, file := range files {
				if err := open().LoadImage(cmd.Context(), file); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func imageBuildCommand() *cobra.Command {
	options := image.Options{}
	load := false
	cmd := &cobra.Command{
		Use: "build [NAME…]", Short: "Build the named images, or all, and print where they are",
		RunE: func(cmd *cobra.Command, names []string) error {
			dir, err := cacheDir()
			if err != nil {
				return err
			}
			options.CacheDir, options.Progress = filepath.Join(dir, "images"), teller()
			if err := preflight.ForImages(cmd.Context(), options.Progress); err != nil {
				return err
			}
			built, err := image.Build(cmd.Context(), options, names...)
			if err != nil {
				return err
			}
			table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 3, ' ', 0)
			fmt.Fprintln(table, "IMAGE\tSIZE\tFILE")
			for _, one := range built {
				fmt.Fprintf(table, "%s\t%d MiB\t%s\n", one.Ref, one.Size>>20, one.Path)
				if load {
					if err := open().LoadImage(cmd.Context(), one.Path); err != nil {
						return err
					}
				}
			}
			return table.Flush()
		},
	}
	cmd.Flags().StringVar(&options.RecipesDir, "images", "images", "folder with the recipes")
	cmd.Flags().BoolVar(&options.Rebuild, "rebuild", false, "build again, to take in newer Debian packages")
	cmd.Flags().BoolVar(&load, "load", false, "load them into the nodes too")
	return cmd
}
