package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/backend-skeleton/relay/internal/cli"
	"github.com/backend-skeleton/relay/internal/config"
	"github.com/backend-skeleton/relay/internal/schema"
	"github.com/backend-skeleton/relay/messaging"
)

func newSchemaCommand() *cobra.Command {
	return cli.Group("schema", "Check the schemas of the message catalogue", `Check schemas and golden messages without opening any connection.

`+exitCodes, newSchemaCheckCommand())
}

func newSchemaCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check", Short: "Hold every version of every message type against its compatibility mode", Args: cli.NoArgs,
		Long: `Read the catalogue of the file and, for each message type that names the directory of its schemas, check that every version
has a schema and a golden message, that each golden message is accepted or refused as it stands there, and that each
version may follow the older ones under the type's compatibility mode. Directories are relative to the file.

  schemas/order.created/v1/schema.json     the schema of version 1
  schemas/order.created/v1/valid.json      what it accepts; also valid.small.json and so on
  schemas/order.created/v1/invalid/x.json  what it refuses
  schemas/order.created/invalid/y.json     what every version refuses

No connection is opened and no secret is fetched, so it runs in a build.

Exit codes: 0 nothing was found; 2 usage; 3 the file is refused; 6 something was found.`,
	}
	file, output := addFile(cmd), cli.AddOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := file.load(cmd)
		if err != nil {
			return err
		}
		findings, checked := checkSchemas(c)
		if len(findings) == 0 {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%d of %d message types have schemas, and all of them hold\n", checked, len(c.Messaging.Catalogue))
			return err
		}
		rows := make([][]string, len(findings))
		for i, f := range findings {
			rows[i] = []string{string(f.Type), strconv.Itoa(f.Version), f.Where, f.Rule}
		}
		if err := output.Print(cmd.OutOrStdout(), findings, []string{"TYPE", "VERSION", "WHERE", "RULE"}, rows); err != nil {
			return err
		}
		return cli.Fail(cli.Found, "%d findings in the schemas of the catalogue", len(findings))
	}
	return cmd
}

// checkSchemas checks the types that name a directory, by name.
func checkSchemas(c *config.Config) (findings []schema.Finding, checked int) {
	for _, t := range c.Types() {
		if t.Schema == "" {
			continue
		}
		checked++
		dir := c.Path(t.Schema)
		versions := make([]messaging.SchemaVersion, len(t.Versions))
		for i, v := range t.Versions {
			versions[i] = messaging.SchemaVersion(v)
		}
		findings = append(findings, schema.Check(os.DirFS(filepath.Dir(dir)), schema.Type{
			Name: messaging.MessageType(t.Name), Dir: filepath.Base(dir), Versions: versions, Mode: schema.Mode(t.Compatible()),
		})...)
	}
	return findings, checked
}
