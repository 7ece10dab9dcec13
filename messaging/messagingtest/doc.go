// Package messagingtest gives tests a broker in memory, and every adapter the
// suite that it has to pass.
//
// [Broker] is a whole adapter: places with partitions or queues, keys,
// redelivery with counts, delays, prefetch, pause, assignment and loss of units
// in epochs. It declares the capabilities that a test gives it and refuses the
// others, and [Broker.Inject] makes it fail on purpose: acknowledgements that get
// lost or come late, refusals, cuts, duplicates, settlements that nobody answers.
// What it holds is read by [Broker.Stored], [Broker.Left] and [Broker.InFlight];
// a test waits for it by [Broker.Await] and never sleeps. Where time matters, a
// [ManualClock] or a testing/synctest bubble holds it.
//
//	broker := messagingtest.NewBroker(messagingtest.Everything)
//	undo := broker.Inject(messagingtest.Fault{Kind: messagingtest.DropAck, Count: 1})
//
// [RunContract] runs the contract over any adapter, this one included.
package messagingtest
