package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// Output is the form of a result: a table for people or JSON for programs.
type Output string

// The forms.
const (
	Table Output = "table"
	JSON  Output = "json"
)

// Set reads the flag's value.
func (o *Output) Set(text string) error {
	if text != string(Table) && text != string(JSON) {
		return fmt.Errorf("must be table or json")
	}
	*o = Output(text)
	return nil
}

// String is the flag's value.
func (o *Output) String() string { return string(*o) }

// Type is the flag's value for the help text.
func (*Output) Type() string { return "table|json" }

// AddOutput gives a command the flag -o.
func AddOutput(cmd *cobra.Command) *Output {
	o := Table
	cmd.Flags().VarP(&o, "output", "o", "form of the result: table or json")
	return &o
}

// Print writes rows as a table with a header, or value as JSON.
func (o Output) Print(w io.Writer, value any, header []string, rows [][]string) error {
	if o == JSON {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(value)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(header, "\t"))
	for _, row := range rows {
		for i, cell := range row {
			if cell == "" {
				row[i] = "-"
			}
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	return t.Flush()
}
