-- The SQL surface for writers and tools of any language.

-- +goose Up

-- messaging_outbox_lock_key serialises the writers of one ordering key until their transactions end: call it before
-- the insert where writers of a key do not already take turns by updating the same row. Whoever needs several keys
-- locks them in sorted order.
-- +goose StatementBegin
create function messaging_outbox_lock_key(destination text, ordering_key text) returns void
    language sql volatile strict
begin atomic
    select pg_catalog.pg_advisory_xact_lock(
        pg_catalog.hashtextextended(ordering_key, pg_catalog.hashtextextended(destination, 7308604897285369956)));
end;
-- +goose StatementEnd

-- messaging_outbox_add inserts one message and returns its id. All arguments but the first four have defaults.
-- +goose StatementBegin
create function messaging_outbox_add(
    destination    text,
    message_type   text,
    producer       text,
    payload        bytea,
    ordering_key   text default null,
    partition_key  text default null,
    headers        jsonb default '{}',
    message_id     uuid default null,
    schema_version integer default 1,
    content_type   text default 'application/json',
    occurred_at    timestamptz default null,
    available_at   timestamptz default null,
    aggregate_type text default null,
    aggregate_id   text default null,
    correlation_id text default null,
    causation_id   uuid default null,
    tenant         text default null,
    traceparent    text default null,
    tracestate     text default null,
    baggage        text default null,
    schema_ref     text default null,
    claim_check    text default null
) returns uuid
    language sql volatile
begin atomic
    insert into messaging_outbox (
        message_id, destination, message_type, schema_version, content_type, producer, ordering_key, partition_key,
        headers, payload, occurred_at, available_at, aggregate_type, aggregate_id, correlation_id, causation_id, tenant,
        traceparent, tracestate, baggage, schema_ref, claim_check)
    values (
        coalesce(messaging_outbox_add.message_id, messaging_uuidv7()), messaging_outbox_add.destination,
        messaging_outbox_add.message_type, coalesce(messaging_outbox_add.schema_version, 1),
        coalesce(messaging_outbox_add.content_type, 'application/json'), messaging_outbox_add.producer,
        messaging_outbox_add.ordering_key, messaging_outbox_add.partition_key,
        coalesce(messaging_outbox_add.headers, '{}'), messaging_outbox_add.payload, messaging_outbox_add.occurred_at,
        coalesce(messaging_outbox_add.available_at, now()), messaging_outbox_add.aggregate_type,
        messaging_outbox_add.aggregate_id, messaging_outbox_add.correlation_id, messaging_outbox_add.causation_id,
        messaging_outbox_add.tenant, messaging_outbox_add.traceparent, messaging_outbox_add.tracestate,
        messaging_outbox_add.baggage, messaging_outbox_add.schema_ref, messaging_outbox_add.claim_check)
    returning messaging_outbox.message_id;
end;
-- +goose StatementEnd

-- messaging_outbox_status shows each row with the lease it is under. CLAIMED is not stored: a row is claimed while it
-- lies in the open window of a lane whose lease is live, by the rule the relays themselves go by.
create view messaging_outbox_status as
select
    o.message_id, o.seq, o.lane, o.destination, o.message_type, o.schema_version, o.content_type, o.producer,
    case when l.lane is not null then 'CLAIMED' else o.status::text end as status,
    o.status as stored_status,
    l.owner as lease_owner,
    l.lease_until,
    o.ordering_key, o.partition_key, o.aggregate_type, o.aggregate_id, o.correlation_id, o.causation_id, o.tenant,
    o.traceparent, o.tracestate, o.baggage, o.schema_ref, o.claim_check, o.redrive_id, o.redrive_count, o.payload_hash,
    o.occurred_at, o.created_at, o.available_at,
    o.version, o.attempts, o.crash_attempts, o.ambiguous_attempts, o.next_attempt_at, o.first_ambiguous_at, o.skipped_at,
    o.published_at, o.published_by, o.last_outcome, o.last_transmission, o.last_confirmation, o.last_routing,
    o.last_position, o.last_failure_category, o.last_failure_code, o.last_failure_detail
from messaging_outbox as o
left join messaging_outbox_lane as l
    on l.lane = o.lane
    and l.owner is not null
    and l.lease_until > clock_timestamp()
    and (l.lease_until <= clock_timestamp() + l.lease_ttl
         or exists (select from messaging_outbox_relay as r
                    where r.id = l.owner and r.heartbeat > clock_timestamp() - l.lease_ttl and l.destination = any (r.serves)))
    and ((o.status = 'PENDING' and o.seq between l.window_lo and l.window_hi)
         or (o.status not in ('PUBLISHED', 'PARKED') and o.message_id = any (l.window_ids)));

-- +goose Down
drop view messaging_outbox_status;
drop function messaging_outbox_add(text, text, text, bytea, text, text, jsonb, uuid, integer, text, timestamptz,
    timestamptz, text, text, text, uuid, text, text, text, text, text, text);
drop function messaging_outbox_lock_key(text, text);
