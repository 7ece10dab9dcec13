-- What a service does to the outbox through pgx. An optional text is never empty, so the empty one stands for null.
-- Ids travel as text in arrays, so that every execution mode of pgx can encode them.

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
-- Rows get their seq in the order of the arrays.
insert into messaging_outbox (
    message_id, destination, message_type, schema_version, content_type, producer, ordering_key, partition_key,
    aggregate_type, aggregate_id, correlation_id, causation_id, tenant, traceparent, tracestate, baggage, schema_ref,
    headers, payload, occurred_at, available_at)
select
    m.message_id::uuid, m.destination, m.message_type, m.schema_version, m.content_type, m.producer,
    nullif(m.ordering_key, ''), nullif(m.partition_key, ''), nullif(m.aggregate_type, ''), nullif(m.aggregate_id, ''),
    nullif(m.correlation_id, ''), nullif(m.causation_id, '')::uuid, nullif(m.tenant, ''), nullif(m.traceparent, ''),
    nullif(m.tracestate, ''), nullif(m.baggage, ''), nullif(m.schema_ref, ''), m.headers::jsonb, m.payload,
    nullif(m.occurred_at, '0001-01-01 00:00:00+00'), coalesce(nullif(m.available_at, '0001-01-01 00:00:00+00'), now())
from (
    select
        generate_subscripts(@message_ids::text[], 1) as position,
        unnest(@message_ids::text[]) as message_id,
        unnest(@destinations::text[]) as destination,
        unnest(@message_types::text[]) as message_type,
        unnest(@schema_versions::integer[]) as schema_version,
        unnest(@content_types::text[]) as content_type,
        unnest(@producers::text[]) as producer,
        unnest(@ordering_keys::text[]) as ordering_key,
        unnest(@partition_keys::text[]) as partition_key,
        unnest(@aggregate_types::text[]) as aggregate_type,
        unnest(@aggregate_ids::text[]) as aggregate_id,
        unnest(@correlation_ids::text[]) as correlation_id,
        unnest(@causation_ids::text[]) as causation_id,
        unnest(@tenants::text[]) as tenant,
        unnest(@traceparents::text[]) as traceparent,
        unnest(@tracestates::text[]) as tracestate,
        unnest(@baggages::text[]) as baggage,
        unnest(@schema_refs::text[]) as schema_ref,
        unnest(@headers::text[]) as headers,
        unnest(@payloads::bytea[]) as payload,
        unnest(@occurred_at::timestamptz[]) as occurred_at,
        unnest(@available_at::timestamptz[]) as available_at) as m
order by m.position;

-- name: KeyLock :exec
select messaging_outbox_lock_key(@destination::text, @ordering_key::text);

-- name: RelaysWake :exec
-- The row that makes this transaction durable is not worth waiting for: a lost wake-up is found by the next poll.
select set_config('synchronous_commit', 'off', true), pg_notify('messaging_outbox', '');
