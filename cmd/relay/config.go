package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/backend-skeleton/relay/internal/cli"
	"github.com/backend-skeleton/relay/internal/config"
)

// fileFlag is --config, which every command that reads the file has.
type fileFlag struct{ name string }

func addFile(cmd *cobra.Command) *fileFlag {
	f := &fileFlag{}
	cmd.Flags().StringVar(&f.name, "config", "", "the configuration file; default: the environment variable "+config.VariableFile)
	return f
}

// path is the file's name, from the flag or the environment.
func (f *fileFlag) path() string {
	if f.name != "" {
		return f.name
	}
	return os.Getenv(config.VariableFile)
}

// load reads file and environment; warnings go to standard error, findings into the error.
func (f *fileFlag) load(cmd *cobra.Command) (*config.Config, error) {
	if f.path() == "" {
		return nil, cli.Fail(cli.Usage, "no configuration file is named; use --config FILE or set %s", config.VariableFile)
	}
	c, warnings, err := config.Load(config.Options{File: f.path()})
	for _, w := range warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "relay: warning: %s\n", w)
	}
	return c, err
}

func newConfigCommand() *cobra.Command {
	return cli.Group("config", "Check and explain the configuration file", `Read the configuration file without opening any connection.

`+exitCodes, newConfigCheckCommand(), newConfigExplainCommand(), newConfigSchemaCommand())
}

func newConfigCheckCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "check", Short: "List everything that is wrong with the file", Args: cli.NoArgs,
		Long: `Read file and environment as 'relay run' does and list every finding at once, each with its YAML path, its line and the
rule it breaks. No connection is opened and no secret is fetched, so it runs anywhere, in a build too. 'relay check'
also asks database and brokers.

Exit codes: 0 the file is accepted; 2 usage; 3 it is refused.`,
	}
	file := addFile(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := file.load(cmd)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is accepted: environment %s, %d of %d destinations served\n",
			file.path(), c.Messaging.Environment, len(c.Served()), len(c.Registered()))
		return err
	}
	return cmd
}

func newConfigExplainCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "explain", Short: "Print every setting in force and where it comes from", Args: cli.NoArgs,
		Long: `Print every setting that is in force, one a line: its path, its value, and whether it comes from a line of the file, from
an environment variable or from the default; what follows from other settings is "derived". Secrets are shown as the
references they are.

Exit codes: 0 done; 2 usage; 3 the file is refused.`,
	}
	file, output := addFile(cmd), cli.AddOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := file.load(cmd)
		if err != nil {
			return err
		}
		settings := c.Explain()
		rows := make([][]string, len(settings))
		for i, s := range settings {
			rows[i] = []string{s.Path, s.Value, s.Source}
		}
		return output.Print(cmd.OutOrStdout(), settings, []string{"PATH", "VALUE", "SOURCE"}, rows)
	}
	return cmd
}

func newConfigSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of the file", Args: cli.NoArgs,
		Long: `Print the JSON Schema (draft 2020-12) of relay.yaml, for editors and other tools. It holds every key, its form and its
range; the rules between settings are held by 'relay config check' alone.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(config.FileSchema)
			return err
		},
	}
}
