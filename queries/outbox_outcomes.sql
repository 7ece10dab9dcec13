-- Outcomes: by message_id, never by ctid or range; fenced by owner and epoch; PUBLISHED is final.
-- The fence names its lanes twice: ordered as they are locked, the planner would otherwise walk all lanes of all destinations.
-- Counters may have been edited by hand to their ends, and below zero: arithmetic that fails here would fail for ever, and
-- for every row of the batch.

-- name: RecordConfirmed :execrows
-- One index scan over the ids: a join would put each row together with its place in the list, which costs more than to
-- look its position up by its id. What does not depend on the row is a subquery, evaluated once. No row is given back; published_at, the start of the transaction, tells what was written.
update messaging_outbox o
   set status = 'PUBLISHED', attempts = least(greatest(o.attempts, 0)::bigint + 1, 2147483647)::integer, published_at = now(), published_by = @owner::uuid,
       next_attempt_at = null, last_outcome = 'CONFIRMED', last_transmission = 'TRANSMITTED', last_confirmation = (select cast(@level::text as messaging_outbox_confirmation)),
       last_routing = (select cast(@routing::text as messaging_outbox_routing)), last_position = (select cast(@positions::text as jsonb)) ->> o.message_id::text,
       last_failure_category = null, last_failure_code = null, last_failure_detail = null, version = o.version % 2147483647 + 1
 where o.message_id = any(@ids::uuid[]) and o.status <> 'PUBLISHED' and o.lane = any(array(
   select l.lane from messaging_outbox_lane l join (select unnest(@lanes::integer[]) as lane, unnest(@epochs::bigint[]) as epoch) as f
       on l.lane = f.lane and l.epoch = f.epoch
    where l.owner = @owner::uuid and l.lane = any(@lanes::integer[]) order by l.lane for key share of l));

-- name: ConfirmedAt :many
-- Of these rows, those that one transaction of RecordConfirmed wrote: PUBLISHED is final, so they still say so.
select o.message_id from messaging_outbox o
 where o.message_id = any(@ids::uuid[]) and o.status = 'PUBLISHED' and o.published_by = @owner::uuid and o.published_at = @at::timestamptz;

-- name: RecordOthers :many
-- Everything but CONFIRMED carries the version that the claim read: a statement repeated after a lost answer charges
-- nobody twice.
update messaging_outbox o
   set status = case when r.status = 'RETRYABLE_FAILURE' and o.ambiguous_attempts <> 0 then 'AMBIGUOUS' else r.status end::messaging_outbox_state, attempts = least(greatest(o.attempts, 0)::bigint + r.attempt, 2147483647)::integer,
       ambiguous_attempts = least(abs(o.ambiguous_attempts::bigint) + r.ambiguous, 2147483647)::integer,
       first_ambiguous_at = case when r.ambiguous > 0 then coalesce(o.first_ambiguous_at, clock_timestamp()) else o.first_ambiguous_at end,
       next_attempt_at = case when r.delay_ms >= 0 then clock_timestamp() + r.delay_ms * interval '1 millisecond' end,
       skipped_at = case when r.skip then clock_timestamp() end,
       last_outcome = r.outcome::messaging_outbox_completion,
       last_transmission = r.transmission::messaging_outbox_transmission, last_confirmation = 'NONE',
       last_routing = r.routing::messaging_outbox_routing,
       last_position = null, last_failure_category = r.category, last_failure_code = r.code, last_failure_detail = nullif(r.detail, ''),
       version = o.version % 2147483647 + 1
  from (select unnest(@ids::uuid[]) as id, unnest(@versions::integer[]) as version,
              unnest(@statuses::text[]) as status, unnest(@attempts::integer[]) as attempt,
              unnest(@ambiguous::integer[]) as ambiguous, unnest(@delays_ms::bigint[]) as delay_ms,
              unnest(@skips::boolean[]) as skip, unnest(@outcomes::text[]) as outcome,
              unnest(@transmissions::text[]) as transmission, unnest(@routings::text[]) as routing,
              unnest(@categories::text[]) as category, unnest(@codes::text[]) as code,
              unnest(@details::text[]) as detail) as r
 where o.message_id = r.id and o.version = r.version and o.status <> 'PUBLISHED' and o.lane = any(array(
   select l.lane from messaging_outbox_lane l join (select unnest(@lanes::integer[]) as lane, unnest(@epochs::bigint[]) as epoch) as f
       on l.lane = f.lane and l.epoch = f.epoch
    where l.owner = @owner::uuid and l.lane = any(@lanes::integer[]) order by l.lane for key share of l))
returning o.message_id;

-- name: CloseWindowIDs :exec
-- Takes finished rows out of the windows; part of the transaction that records them, and for the rows that it wrote alone:
-- run late, after another try was recorded and the row was claimed again, it finds another version and closes nothing.
update messaging_outbox_lane l
   set window_ids = (select array_agg(w.id) from unnest(l.window_ids) as w(id) where w.id <> all(array(
         select o.message_id from messaging_outbox o where o.message_id = any(@ids::uuid[]) and o.xmin = pg_current_xact_id()::xid)))
  from (select unnest(@lanes::integer[]) as lane, unnest(@epochs::bigint[]) as epoch) as r
 where l.lane = r.lane and l.epoch = r.epoch and l.owner = @owner::uuid and l.window_ids && @ids::uuid[];

-- name: Hold :many
-- Rows behind a blocked key are set aside once, so that later reads never meet them again.
update messaging_outbox o set status = 'HELD', version = o.version % 2147483647 + 1
 where o.message_id = any(@ids::uuid[]) and o.status = 'PENDING' and o.lane = any(array(
   select l.lane from messaging_outbox_lane l join (select unnest(@lanes::integer[]) as lane, unnest(@epochs::bigint[]) as epoch) as f
       on l.lane = f.lane and l.epoch = f.epoch
    where l.owner = @owner::uuid and l.lane = any(@lanes::integer[]) order by l.lane for key share of l))
returning o.message_id;

-- name: RecordLateConfirmed :many
-- The one unfenced write: whatever others made of the row meanwhile, the broker has it.
with done as (
  update messaging_outbox o
     set status = 'PUBLISHED', attempts = least(greatest(o.attempts, 0)::bigint + 1, 2147483647)::integer,
         published_at = clock_timestamp(), published_by = @owner::uuid, next_attempt_at = null,
         last_outcome = 'CONFIRMED', last_transmission = 'TRANSMITTED', last_confirmation = r.level::messaging_outbox_confirmation,
         last_routing = r.routing::messaging_outbox_routing, last_position = nullif(r.position, ''), last_failure_category = null, last_failure_code = null,
         last_failure_detail = null, version = o.version % 2147483647 + 1
    from (select unnest(@ids::uuid[]) as id, unnest(@levels::text[]) as level, unnest(@routings::text[]) as routing,
              unnest(@positions::text[]) as position) as r
   where o.message_id = r.id and o.status <> 'PUBLISHED'
  returning o.message_id, o.lane
), told as (
  update messaging_outbox_lane l set changes = l.changes % 9223372036854775807 + 1 where l.lane = any(array(select distinct d.lane from done d))
)
select d.message_id from done d;

-- name: StillOpen :many
select o.message_id from messaging_outbox o where o.message_id = any(@ids::uuid[]) and o.status <> 'PUBLISHED';

-- name: AlreadyRecorded :many
-- After an answer to COMMIT was lost: of these outcomes, those that stand in the table. Under the same lease nobody else
-- writes the row, and each write counts the version on.
select o.message_id from messaging_outbox o
  join (select unnest(@ids::uuid[]) as id, unnest(@versions::integer[]) as version, unnest(@statuses::text[]) as status) as r on o.message_id = r.id
 where o.version = r.version % 2147483647 + 1
   and (o.status::text = r.status or (r.status = 'RETRYABLE_FAILURE' and o.status = 'AMBIGUOUS'))
   and o.lane = any(array(
   select l.lane from messaging_outbox_lane l join (select unnest(@lanes::integer[]) as lane, unnest(@epochs::bigint[]) as epoch) as f
       on l.lane = f.lane and l.epoch = f.epoch
    where l.owner = @owner::uuid and l.lane = any(@lanes::integer[])));

-- name: ParkUnknown :execrows
-- Rows for a destination that no file ever named, once they are older than the grace time.
update messaging_outbox o
   set status = 'PARKED', next_attempt_at = null, last_outcome = 'REJECTED', last_transmission = 'NOT_TRANSMITTED',
       last_confirmation = 'NONE', last_routing = 'NOT_APPLICABLE', last_failure_category = 'CONFIGURATION',
       last_failure_code = 'UNKNOWN_DESTINATION', last_failure_detail = 'no relay''s file names this destination',
       attempts = least(greatest(o.attempts, 0)::bigint + 1, 2147483647)::integer, version = o.version % 2147483647 + 1
 where o.message_id = any(array(
   select m.message_id from messaging_outbox m
    where m.lane = any(@lanes::integer[]) and m.status in ('PENDING', 'RETRYABLE_FAILURE', 'AMBIGUOUS', 'HELD')
      and m.created_at < clock_timestamp() - @grace::interval
      and not exists (select from messaging_outbox_destination d where d.destination = m.destination)
    limit 1000 for update skip locked))
   and not exists (select from messaging_outbox_destination d where d.destination = o.destination);

-- name: ParkBlocked :many
-- Rows of a destination that has been refused for its rights or configuration for longer than its file allows, a bounded
-- number of them. None was tried, so no attempt is counted.
with parked as (
  update messaging_outbox o
     set status = 'PARKED', next_attempt_at = null, skipped_at = case when @skip::boolean then clock_timestamp() end, last_outcome = 'REJECTED',
         last_transmission = 'NOT_TRANSMITTED', last_confirmation = 'NONE', last_routing = 'NOT_APPLICABLE', last_position = null,
         last_failure_category = @category::text, last_failure_code = @code::text,
         last_failure_detail = 'the destination has been blocked for longer than blocked-for', version = o.version % 2147483647 + 1
   where o.message_id = any(array(
     select m.message_id from messaging_outbox m
      where m.lane = any(array(
          select l.lane from messaging_outbox_lane l join (select unnest(@lanes::integer[]) as lane, unnest(@epochs::bigint[]) as epoch) as f
              on l.lane = f.lane and l.epoch = f.epoch
           where l.owner = @owner::uuid and l.lane = any(@lanes::integer[]) order by l.lane for key share of l))
        and m.status in ('PENDING', 'RETRYABLE_FAILURE', 'AMBIGUOUS', 'HELD')
        and m.created_at < clock_timestamp() - @age::interval
      limit 1000 for update skip locked))
  returning o.lane
), told as (
  update messaging_outbox_lane l set changes = l.changes % 9223372036854775807 + 1 where l.lane = any(array(select distinct p.lane from parked p))
)
select p.lane from parked p;
