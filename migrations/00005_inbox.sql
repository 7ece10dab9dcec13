-- The inbox: which consumer has processed which message. The row is written in the transaction of the side effect.

-- +goose Up
create table messaging_inbox (
    consumer_name text not null,
    message_id    uuid not null,
    message_type  text not null,
    payload_hash  text not null,
    received_at   timestamptz not null default clock_timestamp(),
    processed_at  timestamptz,
    expires_at    timestamptz not null,
    primary key (consumer_name, message_id),
    constraint messaging_inbox_consumer_name_length check (char_length(consumer_name) between 1 and 200),
    constraint messaging_inbox_message_type_length check (char_length(message_type) between 1 and 240),
    constraint messaging_inbox_payload_hash_length check (char_length(payload_hash) between 1 and 128),
    constraint messaging_inbox_expires_at_finite check (isfinite(expires_at))
) with (
    fillfactor = 90,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_insert_scale_factor = 0.05
);

create index ix_messaging_inbox_expiry on messaging_inbox (expires_at);

-- +goose Down
drop table messaging_inbox;
