package publish

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Destination is one destination as its publishers see it, with every setting resolved. It is safe for concurrent use;
// its fields are not changed after the first publish.
type Destination struct {
	Name     messaging.DestinationName
	Broker   *Broker
	Endpoint transport.Endpoint
	// Rules of the first half; Type and Version are each publisher's own.
	Rules Rules
	// Timeout of a publish, 5 s for 0.
	Timeout time.Duration
	// Required is the level that the profile asks for.
	Required messaging.ConfirmationLevel
	// Ordered keeps the order of keys within a stream and within a batch.
	Ordered bool
	// BatchMessages and BatchBytes bound one batch, 500 and 4 MiB for 0.
	BatchMessages, BatchBytes int
	// Granted tells whether the profile opens an ability, by the word of the file; nil grants nothing.
	Granted func(grant string) bool
	// Able is what the broker can do, as far as it was asked.
	Able func() (able messaging.Capabilities, known bool)

	weak atomic.Bool // something was confirmed below Required
}

// Grants of publishing, by the words of the file.
const (
	GrantBatch   = "BATCH_PUBLISH"
	GrantDelayed = "DELAYED_PUBLISH"
	GrantRequest = "REQUEST_REPLY"
	GrantRaw     = "RAW_BYTES"
	GrantNull    = "KAFKA_TOMBSTONE"
)

// hintGrants are the grants of hints by the kind of their broker.
var hintGrants = map[string]string{"kafka": "KAFKA_HINTS", "rabbitmq": "RABBIT_HINTS"}

func (d *Destination) granted(grant string) bool { return d.Granted != nil && d.Granted(grant) }

// able is what the broker can do; nothing as long as it could not be asked.
func (d *Destination) able() messaging.Capabilities {
	if d.Able == nil {
		return messaging.Capabilities{}
	}
	able, _ := d.Able()
	return able
}

// unasked tells that the broker's abilities are asked for and not known yet.
func (d *Destination) unasked() bool {
	if d.Able == nil {
		return false
	}
	_, known := d.Able()
	return !known
}

// Proved lifts the stop after a weak confirmation: the broker proves the level again.
func (d *Destination) Proved() { d.weak.Store(false) }

// Weak tells whether publishing is stopped for want of proof.
func (d *Destination) Weak() bool { return d.weak.Load() }

func unavailable(text string) error {
	return &messaging.Error{
		Op: "publish", Kind: messaging.ErrCapabilityUnavailable,
		Failure: messaging.NewFailure(messaging.CategoryConfiguration, messaging.CodeCapabilityUnavailable, text),
	}
}

func notSent(c messaging.Category, code, text string) error {
	return messaging.NewFailure(c, code, text)
}

// request is what one call asks for, options and profile put together.
type request struct {
	timeout  time.Duration
	required messaging.ConfirmationLevel
	delay    time.Duration
	replyTo  string
	hint     messaging.Hint
}

// maxTimeout is the longest wait for one verdict.
const maxTimeout = 10 * time.Minute

// resolve puts options and profile together, and refuses what the destination cannot do.
func (d *Destination) resolve(o *messaging.PublishOptions) (request, error) {
	r := request{timeout: cmp.Or(d.Timeout, 5*time.Second), required: max(d.Required, messaging.LevelNone)}
	if d.weak.Load() {
		return r, notSent(messaging.CategoryConfiguration, messaging.CodeProofLost, "the broker proved less than the profile requires")
	}
	if o == nil {
		return r, nil
	}
	if o.Timeout < 0 || o.Timeout > maxTimeout {
		return r, invalid(fmt.Sprintf("the timeout is not within 0 and %v", maxTimeout))
	}
	r.timeout = cmp.Or(o.Timeout, r.timeout)
	r.required = max(o.Confirmation, r.required)
	if o.Confirmation > d.Required && o.Confirmation == messaging.LevelReplicationOrPersistenceAck && !d.able().ReplicationOrPersistenceEvidence {
		return r, unavailable("the broker does not prove the confirmation that the call requires")
	}
	if o.Deduplicate && !d.able().DeduplicatedPublish {
		return r, unavailable("the broker does not deduplicate")
	}
	if o.Hint != nil {
		grant := hintGrants[o.Hint.BrokerKind()]
		if grant == "" || !d.granted(grant) {
			return r, unavailable("hints are not granted")
		}
		r.hint = o.Hint
	}
	return r, nil
}

// fields are an envelope's part of the wire contract.
func fields[T any](e *messaging.Envelope[T], contentType string) transport.WireFields {
	return transport.WireFields{
		ID: e.ID, Type: e.Type, SchemaVersion: e.Version, Producer: e.Producer, ProducedAt: e.ProducedAt, ContentType: contentType,
		OccurredAt: e.OccurredAt, Correlation: e.Correlation, Causation: e.Causation, Tenant: e.Tenant,
		PartitionKey: e.PartitionKey, OrderingKey: e.OrderingKey, Trace: e.Trace, Headers: e.Headers,
	}
}

// render makes the flight's message, its headers in the flight's own memory.
func (f *flight) render(w transport.WireFields, p Payload, r request) error {
	if p.Schema != nil {
		text, err := json.Marshal(p.Schema)
		if err != nil {
			return serialization(err)
		}
		w.SchemaReference = string(text)
	}
	if err := w.Check(); err != nil {
		return err
	}
	m := &f.message[0]
	*m = transport.Message{
		ID: w.ID, Value: p.Bytes, NullValue: p.Null, Header: transport.AppendHeaders(f.headers[:0], f.arena[:0], &w), Delay: r.delay, ReplyTo: r.replyTo,
	}
	m.Key, m.NullKey = recordKey(m.Header)
	return nil
}

// recordKey finds the record's key among the headers, which hold its bytes already.
func recordKey(headers []transport.Header) (key []byte, null bool) {
	null = true
	for _, h := range headers {
		switch h.Name {
		case transport.HeaderPartitionKey:
			key, null = h.Value, false
		case transport.HeaderOrderingKey: // it comes after the partition key, and decides
			return h.Value, false
		}
	}
	return key, null
}

// hint lets the adapter write a broker-specific option into the message.
func (d *Destination) hint(m *transport.Message, h messaging.Hint) error {
	if h == nil {
		return nil
	}
	hinter, ok := d.Broker.publisher.(transport.Hinter)
	if !ok {
		return unavailable("the adapter knows no hints")
	}
	return hinter.Hint(d.Endpoint, m, h)
}

// admit waits for places, at most the time of one publish. The error is the failure of a message that was not sent.
func (d *Destination) admit(ctx context.Context, n int, timeout time.Duration) error {
	err := d.Broker.acquire(ctx, n, timeout)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, messaging.ErrBackpressure):
		return notSent(messaging.CategoryThrottled, messaging.CodeBackpressure, "the places for messages in flight stayed taken")
	default:
		return errNotSent
	}
}
