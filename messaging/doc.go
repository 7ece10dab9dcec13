// Package messaging is the vocabulary of relay: identifiers, envelopes,
// headers, destinations, what a broker proved about a publish, failures and
// errors. It is broker-neutral and imports nothing but the standard library and
// a UUID library; adapters, the outbox client and the relay all speak it.
//
// Three rules shape the package. A message keeps the one [MessageID] it was
// written with through every retry, redelivery and redrive. What is not known
// about a publish is [Ambiguous], never guessed. And no error text of this
// package quotes an id, a key, a header value or a payload.
package messaging
