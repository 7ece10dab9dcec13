// Package cli is what the commands relay and inboxctl have in common: exit codes, signals, usage errors, opening the
// database with an explanation that holds no password, and tables that are also JSON.
package cli
