// Package publish is the last part of the way to a broker, the same for the relay and for direct publishing: encoded
// messages in, one verdict per message out, in time.
//
// A broker may answer late or never, and an adapter waits for it as long as it can. The verdict does not: at its own
// deadline a message without answer is AMBIGUOUS. What the broker says after that is reported as late.
package publish
