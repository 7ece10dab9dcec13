// Package transport is the port of a broker edge: what an adapter must offer to
// the relay, to direct publishing and to the consuming runtime, and the wire
// contract that all of them share. Optional abilities are one-method interfaces.
//
// An adapter maps an encoded message to its broker and back and says what the
// broker proved. It decodes no payload, adds no header of the msg. family and
// retries nothing under another id.
package transport
