package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/backend-skeleton/relay/internal/cli"
)

func newVersionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version of this program", Args: cli.NoArgs,
		Long: "Print the module, its version, the revision it was built from where that is known, and the Go version.",
	}
	output := cli.AddOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		b := build()
		if *output == cli.JSON {
			return output.Print(cmd.OutOrStdout(), b, nil, nil)
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s %s\n", b.Module, b.Version, b.Go)
		return err
	}
	return cmd
}

// build is what this program knows about itself.
func build() cli.BuildInfo { return cli.Build(version) }
