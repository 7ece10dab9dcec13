// Package rabbitmq is the RabbitMQ edge: it maps encoded messages to AMQP 0-9-1
// and says what the broker proved about each.
//
// How a publish finds its verdict, from the outside in:
//
//   - [Adapter] owns one connection, kept by a link that dials one address at a
//     time with growing pauses. Between the client library and the socket stands
//     a wire: it writes for all channels in few system calls, never lets the
//     library block, and knows for every message whether a single byte of it was
//     offered to the socket.
//   - [Publisher] has a few pipes per endpoint, one channel each. A key always
//     takes the same pipe, so its messages stay in order.
//   - A pipe opens a channel when it is needed and looks for the exchange before
//     anything is published on it. The first message of a channel goes alone, so
//     that a missing right is pinned on nobody else.
//   - A channel instance owns a ledger: delivery tags start at 1 with every
//     instance and no answer ever crosses from one instance to the next. One
//     goroutine reads returns, confirms and the end of the channel, in the order
//     in which the broker sent them.
//
// What was unanswered when a channel or connection ended is ambiguous, except
// what was provably never offered to the socket, and the one message that can
// only have caused the channel exception because nothing else was open.
package rabbitmq
