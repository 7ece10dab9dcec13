-- What a service does to the outbox through database/sql. Drivers agree on text, numbers, bytes and times as parameters,
-- and on nothing else; so a batch is one JSON document, whose payloads are base64.

-- name: MessageInsert :exec
insert into messaging_outbox (
    message_id, destination, message_type, schema_version, content_type, producer, ordering_key, partition_key,
    aggregate_type, aggregate_id, correlation_id, causation_id, tenant, traceparent, tracestate, baggage, schema_ref,
    headers, payload, occurred_at, available_at)
values (
    cast(@message_id::text as uuid), @destination, @message_type, @schema_version, @content_type, @producer,
    nullif(@ordering_key::text, ''), nullif(@partition_key::text, ''), nullif(@aggregate_type::text, ''),
    nullif(@aggregate_id::text, ''), nullif(@correlation_id::text, ''), nullif(@causation_id::text, '')::uuid,
    nullif(@tenant::text, ''), nullif(@traceparent::text, ''), nullif(@tracestate::text, ''), nullif(@baggage::text, ''),
    nullif(@schema_ref::text, ''), cast(@headers::text as jsonb), @payload::bytea, sqlc.narg('occurred_at')::timestamptz,
    coalesce(sqlc.narg('available_at')::timestamptz, now()));

-- name: MessagesInsert :exec
-- Rows get their seq in the order of the document.
insert into messaging_outbox (
    message_id, destination, message_type, schema_version, content_type, producer, ordering_key, partition_key,
    aggregate_type, aggregate_id, correlation_id, causation_id, tenant, traceparent, tracestate, baggage, schema_ref,
    headers, payload, occurred_at, available_at)
select
    (m.item ->> 'id')::uuid, m.item ->> 'destination', m.item ->> 'type', (m.item ->> 'version')::integer,
    m.item ->> 'contentType', m.item ->> 'producer', m.item ->> 'orderingKey', m.item ->> 'partitionKey',
    m.item ->> 'aggregateType', m.item ->> 'aggregateId', m.item ->> 'correlationId', (m.item ->> 'causationId')::uuid,
    m.item ->> 'tenant', m.item ->> 'traceparent', m.item ->> 'tracestate', m.item ->> 'baggage', m.item ->> 'schemaRef',
    m.item -> 'headers', decode(m.item ->> 'payload', 'base64'), (m.item ->> 'occurredAt')::timestamptz,
    coalesce((m.item ->> 'availableAt')::timestamptz, now())
from (select document.item, document.position from jsonb_array_elements(cast(@messages::text as jsonb)) with ordinality as document(item, position)) as m
order by m.position;

-- name: KeyLock :exec
select messaging_outbox_lock_key(@destination::text, @ordering_key::text);

-- name: TransactionUsable :exec
-- Fails in a transaction that a statement has broken, whose COMMIT the server would answer with ROLLBACK.
select true;
