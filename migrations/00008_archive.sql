-- Where published rows go after their retention time, for those who have to show later what was sent and when. Empty
-- unless relay.retention.archive is on. A row keeps every column of the outbox under its name; lane and payload_hash are
-- plain values here, and archived_at is the one column more. Nothing reads it but people: no index but the key, no guards,
-- and pages that are full.

-- +goose Up
create table messaging_outbox_archive (
    message_id            uuid not null,
    seq                   bigint not null,
    created_at            timestamptz not null,
    available_at          timestamptz not null,
    occurred_at           timestamptz,
    destination           text not null,
    message_type          text not null,
    schema_version        integer not null,
    content_type          text not null,
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
    lane                  integer not null,
    headers               jsonb not null,
    payload               bytea not null,
    payload_hash          text not null,
    crash_attempts        integer not null,
    ambiguous_attempts    integer not null,
    next_attempt_at       timestamptz,
    first_ambiguous_at    timestamptz,
    skipped_at            timestamptz,
    status                messaging_outbox_state not null,
    version               integer not null,
    attempts              integer not null,
    last_outcome          messaging_outbox_completion,
    last_transmission     messaging_outbox_transmission,
    last_confirmation     messaging_outbox_confirmation,
    last_routing          messaging_outbox_routing,
    published_at          timestamptz not null,
    published_by          uuid,
    last_position         varchar(640),
    last_failure_category varchar(80),
    last_failure_code     varchar(160),
    last_failure_detail   varchar(500),
    archived_at           timestamptz not null default clock_timestamp(),
    -- An id may come again after its row has left the outbox, and retention must not stop for it: seq tells them apart.
    primary key (message_id, seq)
) with (
    fillfactor = 100,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.05
);

-- +goose StatementBegin
do $$
begin
    alter table messaging_outbox_archive alter column payload set compression lz4;
exception when feature_not_supported or invalid_parameter_value then
    null;
end
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
do $$
begin
    if exists (select from messaging_outbox_archive) then
        raise exception 'messaging_outbox_archive holds messages'
            using errcode = 'object_in_use', hint = 'Copy them elsewhere and truncate the table before you drop it.';
    end if;
end
$$;
-- +goose StatementEnd
drop table messaging_outbox_archive;
