// Package config is the one reader of relay.yaml, of the RELAY_ environment variables and of secrets.
//
// Load answers with the whole configuration, or with every finding at once: each names the YAML path, the line and
// the rule. Nothing is guessed: an unknown key, a key written twice, a zero or a negative number where a limit is
// asked for, a duration without unit, a value of the wrong type are findings, and so is every combination of
// settings that could not keep what the file promises. No finding, warning or printed configuration holds a secret.
//
// The same file is read by the relay and by the services that consume, so the whole tree is checked here, also the
// parts that this process does not use. A feature that this version does not have is refused when it is switched on.
package config

//go:generate go run ./reference/generate
