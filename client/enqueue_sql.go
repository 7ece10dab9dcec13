package client

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/backend-skeleton/relay/client/internal/clientsql"
	"github.com/backend-skeleton/relay/messaging"
)

// EnqueueBatchSQL is [Client.EnqueueBatch] for database/sql, with any PostgreSQL driver.
func (c *Client) EnqueueBatchSQL(ctx context.Context, tx *sql.Tx, ps ...Prepared) error {
	q := clientsql.New(tx)
	var err error
	switch rows, valid := rowsOf(ps); {
	case !valid:
		return refused(opEnqueue, messaging.ErrValidation, "", errNotPrepared)
	case len(rows) == 0:
		return nil
	case len(rows) == 1:
		err = q.MessageInsert(ctx, clientsql.MessageInsertParams(rows[0].params()))
	default:
		var document []byte
		if document, err = json.Marshal(documents(rows)); err == nil {
			err = q.MessagesInsert(ctx, string(document))
		}
	}
	if err != nil {
		return refused(opEnqueue, nil, destinationOf(ps), err)
	}
	return nil
}

// LockKeySQL is [Client.LockKey] for database/sql.
func (c *Client) LockKeySQL(ctx context.Context, tx *sql.Tx, d messaging.DestinationName, key string) error {
	if err := clientsql.New(tx).KeyLock(ctx, clientsql.KeyLockParams{Destination: string(d), OrderingKey: key}); err != nil {
		return refused("lock key", nil, d, err)
	}
	return nil
}

// document is one message of a batch as the statement reads it; what is left out is null.
type document struct {
	ID            string          `json:"id"`
	Destination   string          `json:"destination"`
	Type          string          `json:"type"`
	Version       int32           `json:"version"`
	ContentType   string          `json:"contentType"`
	Producer      string          `json:"producer"`
	OrderingKey   string          `json:"orderingKey,omitempty"`
	PartitionKey  string          `json:"partitionKey,omitempty"`
	AggregateType string          `json:"aggregateType,omitempty"`
	AggregateID   string          `json:"aggregateId,omitempty"`
	Correlation   string          `json:"correlationId,omitempty"`
	Causation     string          `json:"causationId,omitempty"`
	Tenant        string          `json:"tenant,omitempty"`
	TraceParent   string          `json:"traceparent,omitempty"`
	TraceState    string          `json:"tracestate,omitempty"`
	Baggage       string          `json:"baggage,omitempty"`
	SchemaRef     string          `json:"schemaRef,omitempty"`
	Headers       json.RawMessage `json:"headers"`
	Payload       []byte          `json:"payload"`
	OccurredAt    time.Time       `json:"occurredAt,omitzero"`
	AvailableAt   time.Time       `json:"availableAt,omitzero"`
}

func documents(rows []*row) []document {
	ds := make([]document, len(rows))
	for i, r := range rows {
		ds[i] = document{
			ID: r.id.String(), Destination: r.destination, Type: r.typ, Version: r.version, ContentType: r.contentType,
			Producer: r.producer, OrderingKey: r.orderingKey, PartitionKey: r.partitionKey, AggregateType: r.aggregateType,
			AggregateID: r.aggregateID, Correlation: r.correlation, Causation: r.causation, Tenant: r.tenant,
			TraceParent: r.trace.Parent, TraceState: r.trace.State, Baggage: r.trace.Baggage, SchemaRef: r.schemaRef,
			Headers: json.RawMessage(r.headers), Payload: bytesOf(r.payload), OccurredAt: r.occurredAt, AvailableAt: r.availableAt,
		}
	}
	return ds
}
