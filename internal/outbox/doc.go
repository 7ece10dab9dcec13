// Package outbox keeps the rows of the outbox: it leases lanes, claims rows, records what the broker proved and gives
// lanes back. It decides nothing about brokers; it is the only place that changes a row.
//
// A lane is a sixteenth of a destination. Its owner alone reads it, in seq order, without writing to the rows: before
// anything is published, the claim writes the lane's window, which says what may be on the wire now. Every outcome is
// fenced by owner and epoch. Only the database clock decides leases, availability and backoff.
package outbox
