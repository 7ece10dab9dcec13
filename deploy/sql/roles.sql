-- Least privilege for the four kinds of users of the messaging schema. Run it after "relay migrate up", as the owner of
-- the tables and with the right to create roles, with the search_path on the schema that holds them:
--
--     PGOPTIONS='-c search_path=app' psql "$RELAY_DATABASE_URL" -v ON_ERROR_STOP=1 -f roles.sql
--
-- The roles cannot log in. Grant them to the accounts that can:  grant relay_writer to order_service;
-- The script may run again, after each migration. It is no migration itself, because roles belong to the whole cluster.
--
--   relay_writer    a service: inserts messages, keeps its inbox; sees and changes nothing else of the outbox
--   relay_worker    the relay: reads messages, records outcomes, removes what retention allows
--   relay_operator  people with inboxctl: parks, redrives, pauses; reads no payload and no header
--   relay_reader    dashboards: counts and states; reads no payload and no header

do $$
declare
    role_name name;
begin
    foreach role_name in array array['relay_writer', 'relay_worker', 'relay_operator', 'relay_reader'] loop
        if not exists (select from pg_roles where rolname = role_name) then
            begin
                execute format('create role %I nologin', role_name);
            exception when duplicate_object or unique_violation then
                null; -- another run was faster
            end;
        end if;
    end loop;
    execute format('grant usage on schema %I to relay_writer, relay_worker, relay_operator, relay_reader', current_schema());
end
$$;

revoke all on messaging_outbox, messaging_outbox_destination, messaging_outbox_lane, messaging_outbox_relay,
    messaging_outbox_task, messaging_outbox_archive, messaging_control, messaging_audit, messaging_inbox, messaging_outbox_status,
    messaging_schema_version
    from public, relay_writer, relay_worker, relay_operator, relay_reader;

-- Everybody may ask whether the schema fits the program.
grant select on messaging_schema_version to relay_writer, relay_worker, relay_operator, relay_reader;

-- relay_writer: what a message says, never what became of it. message_id is readable because the insert returns it.
grant insert (message_id, destination, message_type, schema_version, content_type, producer, ordering_key, partition_key,
        aggregate_type, aggregate_id, correlation_id, causation_id, tenant, traceparent, tracestate, baggage, schema_ref,
        claim_check, headers, payload, occurred_at, available_at)
    on messaging_outbox to relay_writer;
grant select (message_id) on messaging_outbox to relay_writer;
grant select, insert on messaging_inbox to relay_writer;
grant update (processed_at) on messaging_inbox to relay_writer;

-- relay_worker
grant select, delete on messaging_outbox to relay_worker;
grant update (status, version, attempts, crash_attempts, ambiguous_attempts, next_attempt_at, first_ambiguous_at,
        skipped_at, published_at, published_by, last_outcome, last_transmission, last_confirmation, last_routing,
        last_position, last_failure_category, last_failure_code, last_failure_detail)
    on messaging_outbox to relay_worker, relay_operator;
grant select, insert, update, delete on messaging_outbox_lane, messaging_outbox_relay, messaging_outbox_task to relay_worker;
grant select, insert, update on messaging_outbox_destination to relay_worker;
grant select on messaging_control, messaging_outbox_status to relay_worker;
grant select, delete on messaging_inbox to relay_worker, relay_operator;
grant select, insert, delete on messaging_outbox_archive to relay_worker;

-- Of a partitioned outbox: ranges are made and dropped by functions of the owner, a sequence numbers the rows, and the
-- statistics of a range are shown to those who may read it.
grant execute on function messaging_outbox_add_ranges(integer), messaging_outbox_drop_range(text, boolean) to relay_worker;
do $$
declare
    part regclass;
begin
    for part in select i.inhrelid::regclass from pg_catalog.pg_inherits i where i.inhparent = 'messaging_outbox'::regclass loop
        execute format('grant select on %s to relay_worker', part);
    end loop;
    if (select c.relkind = 'p' from pg_catalog.pg_class c where c.oid = 'messaging_outbox'::regclass) then
        grant usage on sequence messaging_outbox_seq_seq to relay_writer;
    end if;
end
$$;

-- relay_operator: reads the columns that the view shows.
grant select (message_id, seq, lane, status, destination, message_type, schema_version, content_type, producer,
        ordering_key, partition_key, aggregate_type, aggregate_id, correlation_id, causation_id, tenant, traceparent,
        tracestate, baggage, schema_ref, claim_check, redrive_id, redrive_count, payload_hash, occurred_at, created_at,
        available_at, version, attempts, crash_attempts, ambiguous_attempts, next_attempt_at, first_ambiguous_at,
        skipped_at, published_at, published_by, last_outcome, last_transmission, last_confirmation, last_routing,
        last_position, last_failure_category, last_failure_code, last_failure_detail)
    on messaging_outbox to relay_operator;
grant select (message_id, seq, lane, status, destination, message_type, schema_version, content_type, producer,
        ordering_key, partition_key, aggregate_type, aggregate_id, correlation_id, causation_id, tenant, traceparent,
        tracestate, baggage, schema_ref, claim_check, redrive_id, redrive_count, payload_hash, occurred_at, created_at,
        available_at, version, attempts, crash_attempts, ambiguous_attempts, next_attempt_at, first_ambiguous_at,
        skipped_at, published_at, published_by, last_outcome, last_transmission, last_confirmation, last_routing,
        last_position, last_failure_category, last_failure_code, last_failure_detail, archived_at)
    on messaging_outbox_archive to relay_operator, relay_reader;
grant update (redrive_id, redrive_count) on messaging_outbox to relay_operator;
grant delete on messaging_outbox to relay_operator;
grant select, update on messaging_outbox_lane, messaging_outbox_relay to relay_operator;
grant select, update, delete on messaging_outbox_destination to relay_operator;
grant select, insert, update, delete on messaging_control to relay_operator;
grant select on messaging_outbox_status, messaging_outbox_task to relay_operator;
-- What was done to rows is written by the function, and nobody but the owner changes or removes it afterwards.
grant select, insert on messaging_audit to relay_operator;
grant execute on function messaging_outbox_operate(text, uuid[], integer[], text, text) to relay_operator;

-- relay_reader
grant select on messaging_outbox_status, messaging_outbox_destination, messaging_outbox_lane, messaging_outbox_relay,
    messaging_outbox_task, messaging_control, messaging_inbox to relay_reader;
