// Package relay is the process that moves messages from the outbox to their brokers.
//
// A scout looks for lanes with work, takes what is free or expired up to a fair share, and wakes the pumps. There is
// one pump per served destination, so that a slow or broken destination holds up nobody: it claims rows of its lanes,
// publishes them and records what the broker proved, the three overlapping. A renewer keeps the leases and shows that
// the process lives. Breakers, one per broker and one per destination, stop claiming where it would be in vain; what
// was claimed and never sent stays as it was.
//
// A pump is one goroutine that owns all state of its lanes. Adapters, the recorder and the scout talk to it through a
// mailbox that never blocks them. While a row is in its hands, from the claim until its outcome is committed, the
// pump does not read it again: that, and not the database, keeps one process from sending a row twice.
package relay
