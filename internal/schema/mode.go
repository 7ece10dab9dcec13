package schema

import "strings"

// Mode is a compatibility mode, by its word in the file.
type Mode string

// NoneExperimental asks for nothing between versions.
const NoneExperimental Mode = "NONE_EXPERIMENTAL"

// backward: new consumers read what old producers wrote.
func (m Mode) backward() bool {
	return strings.HasPrefix(string(m), "BACKWARD") || strings.HasPrefix(string(m), "FULL")
}

// forward: old consumers read what new producers write.
func (m Mode) forward() bool {
	return strings.HasPrefix(string(m), "FORWARD") || strings.HasPrefix(string(m), "FULL")
}

// transitive: against every older version, not the last one alone.
func (m Mode) transitive() bool { return strings.HasSuffix(string(m), "_TRANSITIVE") }
