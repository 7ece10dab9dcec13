// Package publish is the way of a message to a broker, one path for the relay and for direct publishing.
//
// The first half, [Complete] and [Encode], takes an envelope to bytes: validation, codec, limits. The outbox client takes
// it at the insert, a publisher at the call. The second half, [Do], takes encoded messages to one verdict each, in time:
// the relay starts there, with rows, and never decodes. Typed publishers ([New], [NewBatch], [NewDelayed],
// [NewRequester]) join both halves around the places for messages in flight.
//
// A broker may answer late or never, and an adapter waits for it as long as it can. The verdict does not: at its own
// deadline a message without answer is AMBIGUOUS. What the broker says after that is reported as late, and only then the
// message's place is free.
//
// Nothing here is retried: a message that was not confirmed is the caller's, under the id that it has.
package publish
