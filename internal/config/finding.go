package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Finding is one thing that is wrong: where, and which rule it breaks.
type Finding struct {
	// Path is the YAML path, such as messaging.destinations.order-events.producer.timeout. Empty: the whole file.
	Path string
	// Line is the line in the file, from 1; 0 where the value does not come from the file. For a missing key it is
	// the line of the nearest key around it.
	Line int
	// Variable is the environment variable that the value comes from; empty for the file.
	Variable string
	// Message is the value, where it is no secret, and the rule.
	Message string
}

// String is the finding on one line: path, place, rule.
func (f Finding) String() string {
	path := f.Path
	if path == "" {
		path = "the file"
	}
	switch {
	case f.Variable != "":
		return fmt.Sprintf("%s (%s): %s", path, f.Variable, f.Message)
	case f.Line > 0:
		return fmt.Sprintf("%s (line %d): %s", path, f.Line, f.Message)
	}
	return path + ": " + f.Message
}

// Error is every finding of one configuration. It is the error that Load returns for a refused configuration.
type Error struct {
	// File is the file as it was named.
	File string
	// Findings are sorted by line and path; there is at least one.
	Findings []Finding
}

// Error lists the findings, one a line.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is refused, %s:", e.File, plural(len(e.Findings), "finding"))
	for _, f := range e.Findings {
		b.WriteString("\n  ")
		b.WriteString(f.String())
	}
	return b.String()
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func sortFindings(fs []Finding) {
	slices.SortStableFunc(fs, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Path, b.Path))
	})
}
