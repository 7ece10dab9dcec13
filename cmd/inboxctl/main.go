// Command inboxctl shows and keeps what is in the outbox and the inbox of a database.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/backend-skeleton/relay/internal/cli"
)

// version is set by the linker, as for the relay.
var version string

func main() { os.Exit(cli.Run(newRoot())) }

func newRoot() *cobra.Command {
	root := cli.Group("inboxctl", "Look into outbox and inbox", `inboxctl shows what is in the outbox and the inbox. It needs the database alone: the environment variable
RELAY_DATABASE_URL holds the connection string, or a reference to it (env:NAME, file:PATH). It works while relays, brokers
and their configuration do not.

Nothing but 'inbox prune' changes anything. No payload, header or key is ever shown.

`+exitCodes, newOutboxCommand(), newDestinationsCommand(), newInboxCommand())
	root.Version = cli.Build(version).Version
	return root
}

const exitCodes = `Exit codes:
  0  done
  1  failed while it ran
  2  usage: unknown command, flag or value
  3  RELAY_DATABASE_URL is missing or cannot be understood
  4  the database cannot be reached, or its schema is missing, older or newer`
