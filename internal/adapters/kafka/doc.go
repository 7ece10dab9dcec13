// Package kafka is the edge to Apache Kafka: it maps encoded messages to records
// and tells, for each, what the broker proved.
//
// # How a message travels
//
// Publish puts each message into the queue of its partition. One goroutine per
// busy partition takes what is waiting, up to the batch limit, encodes it as one
// record batch, and gives it to the sender of the partition's leader, which joins
// the batches of several partitions into one produce request. The next batch of a
// partition begins when the former is resolved. A broker appends a batch whole or
// not at all, so of the messages of one key a prefix is stored, in order; that is
// the promise of [Publisher.KeyPrefix].
//
// # What is proof
//
// The produce requests are this package's own; franz-go carries them (dialling,
// TLS, SASL, versions, framing, metadata). So three facts are known per batch and
// not guessed per client: whether its bytes were ever handed to a connection,
// whether each of its writes was answered, and by what code. A batch whose answer
// is lost is written again under the same producer id, epoch and sequence, which
// the broker recognises; when that ends without an answer the messages are
// AMBIGUOUS and the partition goes on under a higher epoch, which fences the old
// batch off. An idempotent producer, acks=all and one batch in flight per
// partition are not options but the way the requests are built.
//
// docs/evidence.md lists each case with its verdict and its test.
package kafka
