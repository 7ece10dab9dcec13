// Command relay publishes the rows of a PostgreSQL outbox to Kafka and RabbitMQ, and keeps the schema they live in.
//
// Exit codes: 0 done; 1 failed while running; 2 usage; 3 configuration refused; 4 database unreachable or schema wrong;
// 5 broker unreachable; 6 something found. One SIGTERM or SIGINT stops in order and ends with 0, a second one at once
// with 128 + signal.
package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/backend-skeleton/relay/internal/cli"
)

// version is set by the linker; otherwise the module's own version counts.
var version string

func main() { os.Exit(cli.Run(newRoot())) }

func newRoot() *cobra.Command {
	return cli.Group("relay", "Publish a PostgreSQL outbox to Kafka and RabbitMQ", `relay publishes what services have written into messaging_outbox, under the message id it was written with, and records
what each broker proved: CONFIRMED, AMBIGUOUS or REJECTED.

A first run:
  export RELAY_DATABASE_URL='postgres://user@host:5432/orders'
  relay migrate up
  relay check --config relay.yaml
  relay run --config relay.yaml

Environment: RELAY_CONFIG names the file where --config does not; RELAY_ and the path of a setting overrides it
(RELAY_RELAY_LEASE=10s). docs/configuration.md lists them all.

`+exitCodes, newRunCommand(), newMigrateCommand(), newCheckCommand(), newDoctorCommand(), newConfigCommand(), newSchemaCommand(), newBenchCommand(),
		newVersionCommand())
}

const exitCodes = `Exit codes:
  0  done; also after a stop by one SIGTERM or SIGINT (a second one ends at once, 128 + signal)
  1  failed while it ran
  2  usage: unknown command or flag
  3  the configuration is refused
  4  the database cannot be reached, or its schema is missing, older or newer
  5  a broker cannot be reached (check)
  6  something was found (check, doctor), or rows were left (run --until-empty)`
