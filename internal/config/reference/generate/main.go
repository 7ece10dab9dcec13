// Command generate writes relay.schema.json and docs/configuration.md. It runs in internal/config, by go generate.
package main

import (
	"fmt"
	"os"

	"github.com/backend-skeleton/relay/internal/config/reference"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run() error {
	comments, err := reference.ReadComments(".")
	if err != nil {
		return err
	}
	schema, err := reference.Schema(comments)
	if err != nil {
		return err
	}
	if err := os.WriteFile("relay.schema.json", schema, 0o644); err != nil {
		return err
	}
	return os.WriteFile("../../docs/configuration.md", reference.Markdown(comments), 0o644)
}
