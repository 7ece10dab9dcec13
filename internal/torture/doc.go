// Package torture proves what a fleet of relays promises while everything around it breaks. Writers keep a history of
// what they committed, captures keep what the brokers delivered, a trigger keeps every change that the relays make to
// a row, and [Check] compares them. [Run] lets a seeded nemesis kill, pause, cut and slow four relays, their database
// and both brokers meanwhile. It is for tests alone.
//
// That the checker can fail is shown twice: by histories made by hand, and by mutants of the relay, each a patch under
// mutants that takes one of its safeguards away.
package torture
