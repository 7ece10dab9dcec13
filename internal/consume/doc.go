// Package consume is the consuming runtime: it takes the deliveries of an adapter, runs handlers within their bounds and
// their order, decides what becomes of a failure, hands messages over, and settles.
//
// One consumer is one dispatcher goroutine, which owns all of its state, at most Concurrency goroutines that run handlers,
// and at most Handovers that publish to retry stages, dead-letter queues and parking places. A message takes one way:
//
//	adapter -> queue of its ordering unit -> headers -> payload -> handler -> decision -> hand-over -> settlement
//
// Nothing is settled before the handler has succeeded, or the hand-over is confirmed. Only AT_MOST_ONCE settles first.
package consume
