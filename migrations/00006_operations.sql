-- What operators do to rows, on one audited path for every tool: psql, inboxctl or a program.

-- +goose Up

-- Who did what to which row, and why. Written by the operations alone, in their transaction.
create table messaging_audit (
    id          bigint generated always as identity primary key,
    at          timestamptz not null default clock_timestamp(),
    actor       text not null,
    login       text not null default session_user,
    verb        text not null,
    message_id  uuid not null,
    destination text not null,
    result      text not null,
    old_status  text not null,
    new_status  text not null,
    old_version integer not null,
    new_version integer not null,
    old_failure varchar(160),
    reason      text not null,
    constraint messaging_audit_reason_length check (char_length(reason) between 1 and 500),
    constraint messaging_audit_actor_length check (char_length(actor) between 1 and 160)
);
create index ix_messaging_audit_message on messaging_audit (message_id);

-- messaging_outbox_operate does one verb to at most 1000 rows and tells for each what became of it.
--
--   RETRY    a row that waits for its next attempt is due now
--   PARK     a row that is not published waits for an operator; its key waits behind it, where the destination says so
--   SKIP     a parked row, or one that is parked by this, lets its key move on
--   REDRIVE  a parked row is due now with fresh attempts, before every younger row of its key
--
-- versions are those that the operator saw: a row that changed since is left alone, so that to ask twice does nothing the
-- second time. Results:
--
--   DONE                 as asked; the row in messaging_audit says so
--   NOT_FOUND            no such row, or retention removed it
--   CHANGED              the row has another version now
--   NOT_APPLICABLE       the verb means nothing for a row of this status; a published row is final
--   IN_FLIGHT            a relay may have the row on the wire at this moment: ask again
--   UNSERVED             redrive: no running relay serves the destination; the row stays parked with this reason
--   UNKNOWN_DESTINATION  redrive: no relay's file names the destination; the row stays parked with this reason
--
-- Lanes are locked first, in their order, then the rows: as outcomes do it. Nobody claims while it looks, and rows that
-- somebody else has locked are IN_FLIGHT instead of waited for, so that neither side can wait for the other.
-- +goose StatementBegin
create function messaging_outbox_operate(
    verb     text,
    ids      uuid[],
    versions integer[],
    reason   text,
    actor    text default session_user
) returns table (message_id uuid, result text, status text, version integer)
    language plpgsql volatile
    set lock_timeout = '3s'
as $$
#variable_conflict use_column
declare
    want  record;
    m     record;
    doubt boolean;
    lanes integer[] := '{}';
    why   text;
begin
    if messaging_outbox_operate.verb is null or messaging_outbox_operate.verb not in ('RETRY', 'PARK', 'SKIP', 'REDRIVE') then
        raise exception 'the verb must be RETRY, PARK, SKIP or REDRIVE' using errcode = 'invalid_parameter_value';
    end if;
    if char_length(btrim(coalesce(messaging_outbox_operate.reason, ''))) not between 1 and 500
            or char_length(coalesce(messaging_outbox_operate.actor, '')) not between 1 and 160 then
        raise exception 'a reason of 1 to 500 characters is needed, and an actor of 1 to 160' using errcode = 'invalid_parameter_value';
    end if;
    if coalesce(cardinality(messaging_outbox_operate.ids), 0) <> coalesce(cardinality(messaging_outbox_operate.versions), 0)
            or array_position(messaging_outbox_operate.versions, null) is not null or array_position(messaging_outbox_operate.ids, null) is not null then
        raise exception 'each row needs its id and the version that was seen' using errcode = 'invalid_parameter_value';
    end if;
    if cardinality(messaging_outbox_operate.ids) > 1000 then
        raise exception 'at most 1000 rows at once' using errcode = 'invalid_parameter_value';
    end if;

    -- Relays renew their leases on these lanes: whoever stands still in this transaction is ended before a lease is.
    perform set_config('idle_in_transaction_session_timeout', '2000', true);
    perform l.lane from messaging_outbox_lane as l
      where l.lane = any (array(select o.lane from messaging_outbox as o where o.message_id = any (messaging_outbox_operate.ids)))
      order by l.lane for update;

    for want in select t.id, t.seen from unnest(messaging_outbox_operate.ids, messaging_outbox_operate.versions) with ordinality as t (id, seen, n) order by t.n loop
        message_id := want.id;
        -- After the lanes are locked, so that it sees what was done to the row before that.
        select o.message_id, o.lane, o.destination, o.status, o.version, o.ambiguous_attempts, o.next_attempt_at, o.skipped_at,
               o.ordering_key is not null as keyed, o.last_failure_code, l.owner is not null as owned,
               coalesce(o.status = 'PENDING' and o.seq between l.window_lo and l.window_hi, false)
                   or coalesce(o.message_id = any (l.window_ids), false) as on_wire
          into m
          from messaging_outbox as o left join messaging_outbox_lane as l on l.lane = o.lane
         where o.message_id = want.id for update of o skip locked;
        if not found then
            select o.status::text, o.version into status, version from messaging_outbox as o where o.message_id = want.id;
            result := case when found then 'IN_FLIGHT' else 'NOT_FOUND' end;
            return next;
            continue;
        end if;
        status := m.status;
        version := m.version;
        why := null;
        doubt := false;
        result := case
            when m.status = 'PUBLISHED' then 'NOT_APPLICABLE'
            when m.version <> want.seen then 'CHANGED'
            when messaging_outbox_operate.verb = 'RETRY' and (m.status not in ('RETRYABLE_FAILURE', 'AMBIGUOUS')
                or m.next_attempt_at <= clock_timestamp()) then 'NOT_APPLICABLE'
            when messaging_outbox_operate.verb = 'PARK' and m.status = 'PARKED' then 'NOT_APPLICABLE'
            when messaging_outbox_operate.verb = 'SKIP' and m.status = 'PARKED' and m.skipped_at is not null then 'NOT_APPLICABLE'
            when messaging_outbox_operate.verb = 'REDRIVE' and m.status <> 'PARKED' then 'NOT_APPLICABLE'
            when m.status <> 'PARKED' and m.on_wire then 'IN_FLIGHT'
            when messaging_outbox_operate.verb = 'REDRIVE' and not exists (
                select from messaging_outbox_destination as d where d.destination = m.destination) then 'UNKNOWN_DESTINATION'
            when messaging_outbox_operate.verb = 'REDRIVE' and not exists (
                select from messaging_outbox_relay as r where r.state = 'RUNNING' and m.destination = any (r.serves)
                    and r.heartbeat > clock_timestamp() - interval '1 minute') then 'UNSERVED'
            else 'DONE' end;

        if result = 'DONE' then
            case messaging_outbox_operate.verb
            when 'RETRY' then
                -- The version stays: an outcome of a relay that has just read the row must still be recorded.
                update messaging_outbox as o set next_attempt_at = clock_timestamp() where o.message_id = want.id;
            when 'PARK', 'SKIP' then
                -- A relay may have read the row a moment ago and wait for this very lane: then the row goes out, and its
                -- outcome is not recorded unless the broker confirmed it. So it may have been delivered.
                doubt := m.status <> 'PARKED' and m.owned;
                update messaging_outbox as o
                   set status = 'PARKED', next_attempt_at = null,
                       skipped_at = case when messaging_outbox_operate.verb = 'SKIP' then clock_timestamp() end,
                       ambiguous_attempts = least(o.ambiguous_attempts::bigint + doubt::integer, 2147483647)::integer,
                       first_ambiguous_at = case when doubt then coalesce(o.first_ambiguous_at, clock_timestamp()) else o.first_ambiguous_at end,
                       version = o.version % 2147483647 + 1
                 where o.message_id = want.id;
            when 'REDRIVE' then
                update messaging_outbox as o
                   set status = case when o.ambiguous_attempts <> 0 then 'AMBIGUOUS' else 'RETRYABLE_FAILURE' end::messaging_outbox_state,
                       attempts = 0, crash_attempts = 0, next_attempt_at = clock_timestamp(), skipped_at = null,
                       version = o.version % 2147483647 + 1
                 where o.message_id = want.id;
            end case;
        elsif result in ('UNSERVED', 'UNKNOWN_DESTINATION') and m.last_failure_code is distinct from result then
            why := case result when 'UNSERVED' then 'no running relay serves the destination'
                        else 'no relay''s file names this destination' end;
            update messaging_outbox as o
               set last_failure_category = 'CONFIGURATION', last_failure_code = result, last_failure_detail = why,
                   version = o.version % 2147483647 + 1
             where o.message_id = want.id;
        end if;

        if result = 'DONE' or why is not null then
            select o.status::text, o.version into status, version from messaging_outbox as o where o.message_id = want.id;
            insert into messaging_audit (actor, verb, message_id, destination, result, old_status, new_status, old_version,
                    new_version, old_failure, reason)
                values (messaging_outbox_operate.actor, messaging_outbox_operate.verb, want.id, m.destination, result, m.status::text, status, m.version,
                    version, m.last_failure_code, btrim(messaging_outbox_operate.reason));
            lanes := lanes || m.lane;
        end if;
        return next;
    end loop;

    -- The owners read the heads of their keys anew.
    update messaging_outbox_lane as l set changes = l.changes % 9223372036854775807 + 1 where l.lane = any (lanes);
end
$$;
-- +goose StatementEnd

-- Whoever may run it is said by roles: see deploy/sql/roles.sql.
revoke execute on function messaging_outbox_operate(text, uuid[], integer[], text, text) from public;

-- +goose Down
drop function messaging_outbox_operate(text, uuid[], integer[], text, text);
drop table messaging_audit;
