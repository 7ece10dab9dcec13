package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

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

// buildInfo is what the program knows about itself.
type buildInfo struct {
	Module   string `json:"module"`
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
}

func build() buildInfo {
	b := buildInfo{Module: "github.com/backend-skeleton/relay", Version: version, Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Path != "" {
		b.Module = info.Main.Path
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "dev"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Revision = s.Value
		}
	}
	return b
}
