-- What guards the outbox, made cheap for the usual row. A writer pays for the guards in the transaction of its business
-- change, by the statement: PostgreSQL reads, plans and prepares each CHECK and each generated column anew for every
-- INSERT. So an INSERT meets one trigger and nothing else. It accepts a row by one expression that is true for nearly every
-- row that is allowed, and never for one that is not; whatever it does not accept goes the long way through all the rules.

-- +goose Up

-- lane and payload_hash are filled by that trigger. They stay what they were: nobody else says what they are.
alter table messaging_outbox
    alter column lane drop expression if exists,
    alter column payload_hash drop expression if exists;

-- messaging_outbox_accept knows the usual row and fills it. It leaves lane null in any other row. Without a search_path of
-- its own, which would cost as much as the expression: it names nothing outside pg_catalog, and a writer who puts operators
-- of his own before those has only himself to fool.
-- +goose StatementBegin
create function messaging_outbox_accept() returns trigger
    language plpgsql
as $$
begin
    if get_byte(uuid_send(new.message_id), 6) >> 4 = 7 and get_byte(uuid_send(new.message_id), 8) >> 6 = 2
        and new.status = 'PENDING' and new.version | new.attempts | new.crash_attempts | new.ambiguous_attempts = 0
        and num_nonnulls(new.next_attempt_at, new.first_ambiguous_at, new.skipped_at, new.published_at, new.published_by,
            new.last_outcome, new.last_transmission, new.last_confirmation, new.last_routing, new.last_position,
            new.last_failure_category, new.last_failure_code, new.last_failure_detail, new.claim_check) = 0
        -- All texts as one: the type in its form, then printable ones of at least one character, nulls left out.
        and concat_ws(E'\u0001', new.message_type, new.destination, new.content_type, new.producer, new.ordering_key,
            new.partition_key, new.aggregate_type, new.aggregate_id, new.correlation_id, new.tenant, new.traceparent,
            new.tracestate, new.baggage) ~ '^[a-z][a-z0-9_-]*(?:\.[a-z0-9_-]+)+(?:\u0001[ -~]+)*$'
        -- A sum within the least limit of its parts needs no look at each.
        and octet_length(concat(new.content_type, new.producer, new.tenant)) <= 120
        and octet_length(concat(new.destination, new.aggregate_type)) <= 160
        and octet_length(concat(new.message_type, new.ordering_key, new.partition_key, new.aggregate_id, new.correlation_id)) <= 240
        and octet_length(concat(new.traceparent, new.tracestate, new.baggage)) <= 8192
        and new.schema_version > 0
        and octet_length(new.payload) <= 8388608
        and (new.causation_id is null
            or get_byte(uuid_send(new.causation_id), 6) >> 4 = 7 and get_byte(uuid_send(new.causation_id), 8) >> 6 = 2)
        and (new.schema_ref is null
            or octet_length(new.schema_ref) <= 2048 and new.schema_ref is json object and new.schema_ref !~ '[\n\r]')
        and least(new.created_at, new.available_at, new.occurred_at) >= '0001-01-01 00:00:00+00'
        -- The clock of a writer may be ahead.
        and greatest(new.created_at, new.available_at, new.occurred_at - interval '24 hours') <= clock_timestamp()
        and (new.headers = '{}'
            -- A few short headers with ordinary names: 136 bytes leave no room for a name that is too long, nor for too many.
            or octet_length(new.headers::text) <= 136
            and new.headers::text ~ '^\{(?:"[a-z0-9._-]+": "[^"\\]*"(?:, )?)*\}$'
            and strpos(new.headers::text, '"msg.') = 0
            and not new.headers ?| '{traceparent,tracestate,baggage,authorization,proxy-authorization,
                proxy_authorization,cookie,set-cookie,set_cookie,access-token,access_token,refresh-token,refresh_token,
                api-key,api_key,password,client-secret,client_secret}')
    then
        new.lane := (((hashtextextended(new.destination, 0) & 134217727) << 4)
            | (hashtextextended(coalesce(new.ordering_key, new.message_id::text), 0) & 15))::integer;
        new.payload_hash := 'sha-256:' || encode(sha256(new.payload), 'hex');
    else
        new.lane := null;
    end if;
    return new;
end
$$;
-- +goose StatementEnd

-- messaging_outbox_derive fills a row that took the long way, and follows whoever edits one by hand.
-- +goose StatementBegin
create or replace function messaging_outbox_derive() returns trigger
    language plpgsql
    set search_path = pg_catalog
as $$
begin
    new.lane := (((hashtextextended(new.destination, 0) & 134217727) << 4)
        | (hashtextextended(coalesce(new.ordering_key, new.message_id::text), 0) & 15))::integer;
    new.payload_hash := case when new.claim_check is null then 'sha-256:' || encode(sha256(new.payload), 'hex')
        when new.claim_check is json object then coalesce(new.claim_check::jsonb ->> 'checksum', '')
        else '' end;
    if tg_op = 'UPDATE' then
        execute format('update %I.%I set lane = $1, payload_hash = $2 where message_id = $3 and (lane, payload_hash) is distinct from ($1, $2)',
            tg_table_schema, tg_table_name) using new.lane, new.payload_hash, new.message_id;
    end if;
    return new;
end
$$;
-- +goose StatementEnd

-- Triggers of one kind fire in the order of their names.
create trigger messaging_outbox_accept_insert before insert on messaging_outbox
    for each row execute function messaging_outbox_accept();
drop trigger messaging_outbox_guard_insert on messaging_outbox;
create trigger messaging_outbox_guard_insert before insert on messaging_outbox
    for each row when (new.lane is null) execute function messaging_outbox_guard();
drop trigger if exists messaging_outbox_guarded_insert on messaging_outbox;
create trigger messaging_outbox_guarded_insert before insert on messaging_outbox
    for each row when (new.lane is null) execute function messaging_outbox_derive();
drop trigger if exists messaging_outbox_guarded_update on messaging_outbox;
create trigger messaging_outbox_guarded_update
    after update of message_id, destination, ordering_key, claim_check, payload, lane, payload_hash on messaging_outbox
    for each row execute function messaging_outbox_derive();

-- What the relay itself and operators must keep at every UPDATE. An INSERT cannot break it.
alter table messaging_outbox
    drop constraint messaging_outbox_times_finite,
    drop constraint messaging_outbox_scheduled_due,
    drop constraint messaging_outbox_keyless_waiting,
    drop constraint messaging_outbox_doubt_kept,
    drop constraint messaging_outbox_published_at_known;

-- +goose StatementBegin
create function messaging_outbox_state_guard() returns trigger
    language plpgsql
    set search_path = pg_catalog
as $$
declare
    broken text := case
        -- Retention counts from here.
        when new.status::text = 'PUBLISHED' and new.published_at is null then 'published_at_known'
        -- A row that may have been delivered never looks again as if it had not been.
        when new.ambiguous_attempts <> 0 and new.status::text not in ('AMBIGUOUS', 'PUBLISHED', 'PARKED') then 'doubt_kept'
        -- Without a time, a deferred row waits behind the head of its key. Without a key no index would find it.
        when new.ordering_key is null and (new.status::text = 'HELD'
            or new.status::text not in ('PENDING', 'PUBLISHED', 'PARKED') and new.next_attempt_at is null) then 'keyless_waiting'
        when new.status::text = 'SCHEDULED' and new.next_attempt_at is null then 'scheduled_due'
        -- No program can read an infinite time, and a row must not be due never.
        when not isfinite(new.next_attempt_at) or not isfinite(new.published_at)
            or not isfinite(new.first_ambiguous_at) or not isfinite(new.skipped_at) then 'times_finite'
    end;
begin
    if broken is not null then
        raise exception 'change refused: %', replace(broken, '_', ' ')
            using errcode = 'check_violation', schema = tg_table_schema, table = tg_table_name,
                  constraint = 'messaging_outbox_' || broken;
    end if;
    return null;
end
$$;
-- +goose StatementEnd

-- The usual outcome is known by its WHEN, which costs nothing to speak of.
create trigger messaging_outbox_state_update
    after update of status, ordering_key, ambiguous_attempts, next_attempt_at, published_at, first_ambiguous_at, skipped_at
    on messaging_outbox for each row
    when ((new.status = 'PUBLISHED' and new.ambiguous_attempts = 0 and isfinite(new.published_at)
        and coalesce(new.next_attempt_at, new.first_ambiguous_at, new.skipped_at) is null) is not true)
    execute function messaging_outbox_state_guard();

-- +goose Down
-- The columns stay plain ones, which messaging_outbox_derive goes on to fill: nobody who knows that version writes them.
drop trigger messaging_outbox_accept_insert on messaging_outbox;
drop function messaging_outbox_accept();
drop trigger messaging_outbox_guard_insert on messaging_outbox;
create trigger messaging_outbox_guard_insert before insert on messaging_outbox
    for each row execute function messaging_outbox_guard();
drop trigger messaging_outbox_state_update on messaging_outbox;
drop function messaging_outbox_state_guard();
alter table messaging_outbox
    add constraint messaging_outbox_published_at_known check (status <> 'PUBLISHED' or published_at is not null),
    add constraint messaging_outbox_doubt_kept check (ambiguous_attempts = 0
        or status in ('AMBIGUOUS', 'PUBLISHED', 'PARKED')),
    add constraint messaging_outbox_keyless_waiting check (ordering_key is not null
        or status in ('PENDING', 'PUBLISHED', 'PARKED') or status <> 'HELD' and next_attempt_at is not null),
    add constraint messaging_outbox_scheduled_due check (status <> 'SCHEDULED' or next_attempt_at is not null),
    add constraint messaging_outbox_times_finite check (isfinite(next_attempt_at) is not false
        and isfinite(published_at) is not false and isfinite(first_ambiguous_at) is not false and isfinite(skipped_at) is not false);
