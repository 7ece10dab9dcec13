package main

import (
	"github.com/spf13/cobra"

	"github.com/backend-skeleton/relay/internal/cli"
)

func newRunCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "run", Short: "Publish the outbox", Args: cli.NoArgs}
	return cmd
}
