-- The fleet: which destinations exist, who reads which lane, who is alive, who does the housekeeping.

-- +goose Up
create table messaging_outbox_destination (
    destination    text primary key,
    hash           integer not null constraint messaging_outbox_destination_hash_unique unique,
    first_seen     timestamptz not null default clock_timestamp(),
    last_served_at timestamptz,
    constraint messaging_outbox_destination_name_length check (char_length(destination) between 1 and 160)
);

-- 16 lanes per destination, made when the destination is registered. The window says which rows may be on the wire
-- now: [window_lo, window_hi] over PENDING rows, window_ids for rows that were taken from the other indexes.
create table messaging_outbox_lane (
    lane        integer primary key,
    destination text not null references messaging_outbox_destination on delete cascade,
    slot        smallint not null,
    owner       uuid,
    lease_until timestamptz not null default '-infinity',
    lease_ttl   interval not null default '0',
    epoch       bigint not null default 0,
    window_lo   bigint,
    window_hi   bigint,
    window_ids  uuid[],
    solo        boolean not null default false,
    crashes     integer not null default 0,
    low_seq     bigint not null default 0,
    changes     bigint not null default 0,
    constraint messaging_outbox_lane_slot_range check (slot between 0 and 15),
    constraint messaging_outbox_lane_window_whole check ((window_lo is null) = (window_hi is null)),
    -- Arithmetic with it must not fail: one lane would stop the look at all.
    constraint messaging_outbox_lane_lease_sane check (lease_until < 'infinity' and lease_ttl >= '0' and lease_ttl <= '1 day')
) with (
    fillfactor = 50,
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);

-- One row per process start: ownership belongs to a start, never to a host name.
create table messaging_outbox_relay (
    id        uuid primary key,
    name      text not null default '',
    version   text not null default '',
    started   timestamptz not null default clock_timestamp(),
    heartbeat timestamptz not null default clock_timestamp(),
    serves    text[] not null default '{}',
    state     text not null default 'RUNNING',
    constraint messaging_outbox_relay_state_known check (state in ('RUNNING', 'DRAINING'))
) with (fillfactor = 50);

-- Retention and its kind: done by one relay at a time, which holds the lease of the task.
create table messaging_outbox_task (
    name        text primary key,
    owner       uuid,
    lease_until timestamptz not null default '-infinity',
    cursor      text,
    updated_at  timestamptz not null default clock_timestamp()
) with (fillfactor = 50);

-- The only place of a pause or drain. Several owners may pause the same thing; it runs when the last pause is lifted.
create table messaging_control (
    scope      text not null,
    name       text not null,
    verb       text not null,
    owner      text not null,
    reason     text not null default '',
    created_at timestamptz not null default clock_timestamp(),
    expires_at timestamptz,
    primary key (scope, name, verb, owner),
    constraint messaging_control_verb_known check (verb in ('PAUSE', 'DRAIN', 'PROBE')),
    constraint messaging_control_reason_length check (char_length(reason) <= 500)
);

-- messaging_outbox_register makes the names known and gives each its 16 lanes. Known names stay as they are. Two
-- names whose lanes would be the same are refused, because each would publish the other's rows.
-- +goose StatementBegin
create function messaging_outbox_register(destinations text[]) returns void
    language plpgsql volatile
as $$
declare
    wanted  text;
    number  integer;
    present text;
begin
    -- In sorted order, so that two relays that start together do not deadlock.
    for wanted in select distinct d from unnest(destinations) as d order by d loop
        number := messaging_outbox_destination_hash(wanted);
        insert into messaging_outbox_destination (destination, hash) values (wanted, number) on conflict do nothing;
        if not found then
            select d.destination into present from messaging_outbox_destination as d where d.hash = number;
            if present is distinct from wanted then
                raise exception 'destinations "%" and "%" would share their lanes: rename one of them', wanted, coalesce(present, '?')
                    using errcode = 'unique_violation', constraint = 'messaging_outbox_destination_hash_unique',
                          table = 'messaging_outbox_destination', hint = 'Both names have the lane hash ' || number || '.';
            end if;
        end if;
        insert into messaging_outbox_lane (lane, destination, slot)
            select (number << 4) | s, wanted, s from generate_series(0, 15) as s
            on conflict do nothing;
    end loop;
end
$$;
-- +goose StatementEnd

-- +goose Down
drop function messaging_outbox_register(text[]);
drop table messaging_control;
drop table messaging_outbox_task;
drop table messaging_outbox_relay;
drop table messaging_outbox_lane;
drop table messaging_outbox_destination;
