package client

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/backend-skeleton/relay/client/internal/clientdb"
	"github.com/backend-skeleton/relay/messaging"
)

const opEnqueue = "enqueue"

var errNotPrepared = errors.New("a message was not prepared")

// EnqueueBatch inserts prepared messages, of any types and destinations, by one statement in the caller's transaction.
// Messages of one key keep the order of the arguments. None is no error.
func (c *Client) EnqueueBatch(ctx context.Context, tx pgx.Tx, ps ...Prepared) error {
	q := clientdb.New(tx)
	var err error
	switch rows, valid := rowsOf(ps); {
	case !valid:
		return refused(opEnqueue, messaging.ErrValidation, "", errNotPrepared)
	case len(rows) == 0:
		return nil
	case len(rows) == 1: // the common case, and a plain VALUES is cheaper
		err = q.MessageInsert(ctx, rows[0].params())
	default:
		err = q.MessagesInsert(ctx, arrays(rows))
	}
	if err != nil {
		return refused(opEnqueue, nil, destinationOf(ps), err)
	}
	return nil
}

// LockKey makes the writers of one ordering key take turns, from the call until the transaction ends. It is needed only
// where they do not take turns anyway by updating the same row; call it before the insert. Whoever needs several keys
// locks them in sorted order.
func (c *Client) LockKey(ctx context.Context, tx pgx.Tx, d messaging.DestinationName, key string) error {
	if err := clientdb.New(tx).KeyLock(ctx, clientdb.KeyLockParams{Destination: string(d), OrderingKey: key}); err != nil {
		return refused("lock key", nil, d, err)
	}
	return nil
}

func rowsOf(ps []Prepared) (rows []*row, valid bool) {
	rows = make([]*row, len(ps))
	for i, p := range ps {
		if p.row == nil {
			return nil, false
		}
		rows[i] = p.row
	}
	return rows, true
}

// destinationOf names the destination in an error, where there is one.
func destinationOf(ps []Prepared) messaging.DestinationName {
	for _, p := range ps[1:] {
		if p.row.destination != ps[0].row.destination {
			return ""
		}
	}
	return messaging.DestinationName(ps[0].row.destination)
}

func (r *row) params() clientdb.MessageInsertParams {
	return clientdb.MessageInsertParams{
		MessageID: r.id.String(), Destination: r.destination, MessageType: r.typ, SchemaVersion: r.version,
		ContentType: r.contentType, Producer: r.producer, OrderingKey: r.orderingKey, PartitionKey: r.partitionKey,
		AggregateType: r.aggregateType, AggregateID: r.aggregateID, CorrelationID: r.correlation, CausationID: r.causation,
		Tenant: r.tenant, Traceparent: r.trace.Parent, Tracestate: r.trace.State, Baggage: r.trace.Baggage,
		SchemaRef: r.schemaRef, Headers: r.headers, Payload: bytesOf(r.payload),
		OccurredAt: pointerTo(r.occurredAt), AvailableAt: pointerTo(r.availableAt),
	}
}

func arrays(rows []*row) clientdb.MessagesInsertParams {
	var p clientdb.MessagesInsertParams
	for _, r := range rows {
		p.MessageIds = append(p.MessageIds, r.id.String())
		p.Destinations = append(p.Destinations, r.destination)
		p.MessageTypes = append(p.MessageTypes, r.typ)
		p.SchemaVersions = append(p.SchemaVersions, r.version)
		p.ContentTypes = append(p.ContentTypes, r.contentType)
		p.Producers = append(p.Producers, r.producer)
		p.OrderingKeys = append(p.OrderingKeys, r.orderingKey)
		p.PartitionKeys = append(p.PartitionKeys, r.partitionKey)
		p.AggregateTypes = append(p.AggregateTypes, r.aggregateType)
		p.AggregateIds = append(p.AggregateIds, r.aggregateID)
		p.CorrelationIds = append(p.CorrelationIds, r.correlation)
		p.CausationIds = append(p.CausationIds, r.causation)
		p.Tenants = append(p.Tenants, r.tenant)
		p.Traceparents = append(p.Traceparents, r.trace.Parent)
		p.Tracestates = append(p.Tracestates, r.trace.State)
		p.Baggages = append(p.Baggages, r.trace.Baggage)
		p.SchemaRefs = append(p.SchemaRefs, r.schemaRef)
		p.Headers = append(p.Headers, r.headers)
		p.Payloads = append(p.Payloads, bytesOf(r.payload))
		p.OccurredAt = append(p.OccurredAt, r.occurredAt)
		p.AvailableAt = append(p.AvailableAt, r.availableAt)
	}
	return p
}

// bytesOf keeps an empty payload from becoming a null.
func bytesOf(payload []byte) []byte {
	if payload == nil {
		return []byte{}
	}
	return payload
}

func pointerTo(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
