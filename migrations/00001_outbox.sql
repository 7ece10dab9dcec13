-- The outbox: one row is one message, written in the transaction of the business change it speaks of.
--
-- Nothing here is qualified with a schema: the objects live where the migrating role's search_path points first.
-- Functions used by constraints, defaults and generated columns have parsed bodies (begin atomic) or a search_path
-- of their own, so that pg_restore, which runs with an empty search_path, can load the rows.

-- +goose Up
create type messaging_outbox_state as enum (
    'PENDING',            -- never offered to a broker
    'SCHEDULED',          -- never offered to a broker, not before available_at
    'RETRYABLE_FAILURE',  -- refused for now, waits for next_attempt_at
    'AMBIGUOUS',          -- may have been delivered, goes out again under the same id
    'HELD',               -- never offered to a broker, waits behind the head of its key
    'PUBLISHED',          -- confirmed by the broker; final
    'PARKED'              -- waits for an operator
);
create type messaging_outbox_completion as enum ('CONFIRMED', 'REJECTED', 'AMBIGUOUS');
create type messaging_outbox_transmission as enum ('NOT_TRANSMITTED', 'MAY_HAVE_BEEN_TRANSMITTED', 'TRANSMITTED');
create type messaging_outbox_confirmation as enum ('NONE', 'BROKER_ACK', 'REPLICATION_OR_PERSISTENCE_ACK');
create type messaging_outbox_routing as enum ('NOT_APPLICABLE', 'ROUTED', 'UNROUTABLE', 'UNKNOWN');

-- messaging_uuidv7 makes a UUIDv7 of 48 bits of milliseconds, 12 bits of their fraction and 62 random bits.
-- +goose StatementBegin
create function messaging_uuidv7() returns uuid
    language sql volatile parallel safe
begin atomic
    select pg_catalog.encode(
        pg_catalog.substring(pg_catalog.int8send(now_us / 1000), 3)
            || pg_catalog.substring(pg_catalog.int4send((28672 + (now_us % 1000) * 4096 / 1000)::integer), 3)
            || pg_catalog.substring(pg_catalog.uuid_send(pg_catalog.gen_random_uuid()), 9),
        'hex')::uuid
    from (select (extract(epoch from pg_catalog.clock_timestamp()) * 1000000)::bigint as now_us) as clock;
end;
-- +goose StatementEnd

-- From PostgreSQL 18 on the server has a generator of its own, which also rises strictly within a session.
-- +goose StatementBegin
do $$
begin
    if current_setting('server_version_num')::integer >= 180000 then
        execute 'create or replace function messaging_uuidv7() returns uuid language sql volatile parallel safe '
            || 'begin atomic select pg_catalog.uuidv7(); end';
    end if;
end
$$;
-- +goose StatementEnd

-- messaging_outbox_destination_hash is the upper part of the lane numbers of a destination: 27 bits.
-- +goose StatementBegin
create function messaging_outbox_destination_hash(destination text) returns integer
    language sql immutable strict parallel safe
begin atomic
    select (pg_catalog.hashtextextended(destination, 0) & 134217727)::integer;
end;
-- +goose StatementEnd

-- messaging_outbox_lane_of says in which of the 16 lanes of its destination a message lives; key is the ordering key
-- or, without one, the message id as text. The column lane holds the same expression.
-- +goose StatementBegin
create function messaging_outbox_lane_of(destination text, key text) returns integer
    language sql immutable strict parallel safe
begin atomic
    select (((pg_catalog.hashtextextended(destination, 0) & 134217727) << 4)
        | (pg_catalog.hashtextextended(key, 0) & 15))::integer;
end;
-- +goose StatementEnd

create table messaging_outbox (
    -- Publishing adds a second version to the index. A leaf that is full after the inserts would be split for it.
    message_id            uuid default messaging_uuidv7() primary key with (fillfactor = 60),
    seq                   bigint not null generated always as identity (cache 1),
    created_at            timestamptz not null default clock_timestamp(),
    available_at          timestamptz not null default now(),
    occurred_at           timestamptz,
    destination           text not null,
    message_type          text not null,
    schema_version        integer not null default 1,
    content_type          text not null default 'application/json',
    producer              text not null,
    ordering_key          text,
    partition_key         text,
    aggregate_type        text,
    aggregate_id          text,
    correlation_id        text,
    causation_id          uuid,
    tenant                text,
    traceparent           text,
    tracestate            text,
    baggage               text,
    schema_ref            text,
    claim_check           text,
    redrive_id            uuid,
    redrive_count         integer,
    lane                  integer not null generated always as (
                              (((hashtextextended(destination, 0) & 134217727) << 4)
                               | (hashtextextended(coalesce(ordering_key, message_id::text), 0) & 15))::integer) stored,
    headers               jsonb not null default '{}',
    payload               bytea not null,
    payload_hash          text not null generated always as (
                              case when claim_check is null then 'sha-256:' || encode(sha256(payload), 'hex')
                                   when claim_check is json object then claim_check::jsonb ->> 'checksum'
                                   else '' end) stored,

    -- What became of it. Only the relay and an operator's verbs write these. What nearly every outcome changes stands
    -- together at the end, because the log of an UPDATE holds everything from the first changed byte of a row to the last.
    crash_attempts        integer not null default 0,
    ambiguous_attempts    integer not null default 0,
    next_attempt_at       timestamptz,
    first_ambiguous_at    timestamptz,
    skipped_at            timestamptz,
    status                messaging_outbox_state not null default 'PENDING',
    version               integer not null default 0,
    attempts              integer not null default 0,
    last_outcome          messaging_outbox_completion,
    last_transmission     messaging_outbox_transmission,
    last_confirmation     messaging_outbox_confirmation,
    last_routing          messaging_outbox_routing,
    published_at          timestamptz,
    published_by          uuid,
    last_position         varchar(640),
    last_failure_category varchar(80),
    last_failure_code     varchar(160),
    last_failure_detail   varchar(500)
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);

create index ix_messaging_outbox_claimable on messaging_outbox (lane, seq)
    where status = 'PENDING';
create index ix_messaging_outbox_deferred on messaging_outbox (lane, next_attempt_at)
    where status in ('SCHEDULED', 'RETRYABLE_FAILURE', 'AMBIGUOUS') and next_attempt_at is not null;
create index ix_messaging_outbox_waiting on messaging_outbox (lane, ordering_key, seq)
    where status in ('HELD', 'RETRYABLE_FAILURE', 'AMBIGUOUS') and ordering_key is not null;
create index ix_messaging_outbox_parked on messaging_outbox (lane, ordering_key)
    where status = 'PARKED' and skipped_at is null;
-- Parked rows that no longer block: they are counted and listed, and no other index knows them.
create index ix_messaging_outbox_skipped on messaging_outbox (lane)
    where status = 'PARKED' and skipped_at is not null;

-- lz4 is several times cheaper than the default; a server built without it keeps the default.
-- +goose StatementBegin
do $$
begin
    alter table messaging_outbox alter column payload set compression lz4;
exception when feature_not_supported or invalid_parameter_value then
    null;
end
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
do $$
begin
    if exists (select from messaging_outbox where status <> 'PUBLISHED') then
        raise exception 'messaging_outbox holds messages that were not published'
            using errcode = 'object_in_use', hint = 'Publish or delete them before you drop the table.';
    end if;
end
$$;
-- +goose StatementEnd
drop table messaging_outbox;
drop function if exists messaging_outbox_derive();
drop function messaging_outbox_lane_of(text, text);
drop function messaging_outbox_destination_hash(text);
drop function messaging_uuidv7();
drop type messaging_outbox_routing;
drop type messaging_outbox_confirmation;
drop type messaging_outbox_transmission;
drop type messaging_outbox_completion;
drop type messaging_outbox_state;
