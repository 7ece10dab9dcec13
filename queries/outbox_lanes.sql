-- Lanes: who owns which, for how long, and what may be on the wire.
-- Whoever changes owner or epoch locks the lane row first; renewing and the window are plain updates of the owner.
-- What writes the window, or gives the lane back, has a number that rises with each statement of the owner and matches only
-- where a lower one stands: one that was given up, and is run late under the same lease, changes nothing.

-- name: RegisterDestinations :exec
select messaging_outbox_register(@destinations::text[]);

-- name: LanesOf :many
select lane, destination from messaging_outbox_lane where destination = any(@destinations::text[]);

-- name: Heartbeat :exec
insert into messaging_outbox_relay as r (id, name, version, started, heartbeat, serves, state)
values (@id::uuid, @name, @version, clock_timestamp(), clock_timestamp(), @serves::text[], @state)
on conflict (id) do update set heartbeat = clock_timestamp(), serves = excluded.serves, state = excluded.state;

-- name: ForgetRelay :exec
delete from messaging_outbox_relay where id = @id::uuid or heartbeat < clock_timestamp() - interval '1 day';

-- name: LiveRelays :many
select id, serves from messaging_outbox_relay
 where state = 'RUNNING' and heartbeat between clock_timestamp() - @ttl::interval and clock_timestamp() + @ttl::interval;

-- name: ServerStarted :one
-- When the server started, and whether that is less than a lease ago; a clock that was set back makes no server young.
select pg_postmaster_start_time()::timestamptz as started,
       (clock_timestamp() - pg_postmaster_start_time() between interval '0' and @ttl::interval)::boolean as young;

-- name: FindWork :many
-- A loose scan over the partial indexes: one probe per lane that holds rows, none for the others.
with recursive pending(lane) as (
  (select m.lane from messaging_outbox m where m.status = 'PENDING' order by m.lane limit 1)
  union all
  select (select m.lane from messaging_outbox m where m.status = 'PENDING' and m.lane > p.lane order by m.lane limit 1)
    from pending p where p.lane is not null
), deferred(lane, due) as (
  (select m.lane, m.next_attempt_at from messaging_outbox m
    where m.status in ('SCHEDULED', 'RETRYABLE_FAILURE', 'AMBIGUOUS') and m.next_attempt_at is not null
    order by m.lane, m.next_attempt_at limit 1)
  union all
  select n.lane, n.next_attempt_at from deferred d cross join lateral (
    select m.lane, m.next_attempt_at from messaging_outbox m
     where m.status in ('SCHEDULED', 'RETRYABLE_FAILURE', 'AMBIGUOUS') and m.next_attempt_at is not null and m.lane > d.lane
     order by m.lane, m.next_attempt_at limit 1) n
), waiting(lane) as (
  (select m.lane from messaging_outbox m
    where m.status in ('HELD', 'RETRYABLE_FAILURE', 'AMBIGUOUS') and m.ordering_key is not null order by m.lane limit 1)
  union all
  select (select m.lane from messaging_outbox m
           where m.status in ('HELD', 'RETRYABLE_FAILURE', 'AMBIGUOUS') and m.ordering_key is not null and m.lane > w.lane
           order by m.lane limit 1)
    from waiting w where w.lane is not null
), work as (
  select lane, true as pending, false as waiting, null::timestamptz as due from pending where lane is not null
  union all select lane, false, false, due from deferred
  union all select lane, false, true, null from waiting where lane is not null
), found as (
  select lane, bool_or(pending) as pending, bool_or(waiting) as waiting, min(due) as due from work group by lane
)
select f.lane::integer as lane, f.pending::boolean as pending, f.waiting::boolean as waiting,
       coalesce(extract(epoch from f.due - clock_timestamp()) * 1000, 1e15)::float8 as due_in_ms,
       coalesce(l.destination, '')::text as destination, l.owner, coalesce(l.epoch, 0)::bigint as epoch, coalesce(l.changes, 0)::bigint as changes, clock_timestamp()::timestamptz as now,
       (l.owner is not null and (l.lease_until is null or l.lease_until <= clock_timestamp()
         or (l.lease_until > clock_timestamp() + l.lease_ttl and not exists (
              select from messaging_outbox_relay r
               where r.id = l.owner and r.heartbeat between clock_timestamp() - l.lease_ttl and clock_timestamp() + l.lease_ttl and l.destination = any(r.serves)))))::boolean as expired
  from found f left join messaging_outbox_lane l on l.lane = f.lane;

-- name: TakeLanes :many
-- Free lanes, and expired ones until @rob: a statement that stood still with the server would find those of relays expired
-- that only could not renew. Own ones too, of which whoever asks has seen an epoch that is not known here: the answer was lost
-- when they were taken, or somebody wrote another epoch. Run late, after they were taken, it finds another. The epoch is taken from the clock as well,
-- so that not even a promoted standby, which may have lost the last increments, uses one twice; one at the end of its
-- range, which only a hand can have written, starts again at the clock.
with free as (
  select l.lane, l.owner is not null as robbed from messaging_outbox_lane l
   where l.lane = any(@lanes::integer[])
     and (l.owner is null or (l.owner = @owner::uuid and (l.lane, l.epoch) in (select unnest(@own_lanes::integer[]), unnest(@own_epochs::bigint[]))) or (clock_timestamp() <= @rob::timestamptz and (l.lease_until is null or l.lease_until <= clock_timestamp()
          or (l.lease_until > clock_timestamp() + l.lease_ttl and not exists (
               select from messaging_outbox_relay r
                where r.id = l.owner and r.heartbeat between clock_timestamp() - l.lease_ttl and clock_timestamp() + l.lease_ttl and l.destination = any(r.serves))))))
   order by l.lane limit @want for update skip locked
)
update messaging_outbox_lane l
   set owner = @owner::uuid, epoch = greatest(l.epoch % 9223372036854775807 + 1, (extract(epoch from clock_timestamp()) * 1000000)::bigint),
       lease_until = clock_timestamp() + @ttl::interval, lease_ttl = @ttl::interval, window_no = 0
  from free where l.lane = free.lane
returning l.lane, l.destination, l.epoch, l.low_seq, l.crashes, l.changes, free.robbed::boolean as robbed,
          (l.window_lo is not null or l.window_ids is not null)::boolean as open_window;

-- name: RenewLanes :many
-- With the snapshot's ends: every transaction below the first has ended, none at or above the second had begun.
update messaging_outbox_lane l
   set lease_until = clock_timestamp() + @ttl::interval, lease_ttl = @ttl::interval
  from (select unnest(@lanes::integer[]) as lane, unnest(@epochs::bigint[]) as epoch) as r
 where l.lane = r.lane and l.owner = @owner::uuid and l.epoch = r.epoch
returning l.lane, l.epoch, l.changes, l.window_no,
          pg_snapshot_xmin(pg_current_snapshot())::text::bigint as xmin, pg_snapshot_xmax(pg_current_snapshot())::text::bigint as xmax;

-- name: MarkLostIDs :one
-- Take-over, first half: the rows that the dead owner had taken from the waiting and deferred indexes. Both halves match
-- number 0 alone, which the last step ends. A row behind a waiting one of its key is no head, in the window or not: it
-- waits, and is not due.
with own as (
  select l.lane, l.window_ids, l.solo from messaging_outbox_lane l
   where l.lane = @lane::integer and l.owner = @owner::uuid and l.epoch = @epoch::bigint and l.window_no = 0 and l.window_ids is not null for update
), lost as materialized (
  select m.message_id, not exists (
           select from messaging_outbox w
            where w.lane = own.lane and w.ordering_key = m.ordering_key and w.status in ('HELD', 'RETRYABLE_FAILURE', 'AMBIGUOUS') and w.seq < m.seq) as head
    from own, messaging_outbox m
   where m.message_id = any(own.window_ids) and m.lane = own.lane and m.status not in ('PUBLISHED', 'PARKED')
), marked as (
  update messaging_outbox o
     set status = case when own.solo and o.crash_attempts::bigint + 1 >= @most::integer then 'PARKED' else 'AMBIGUOUS' end::messaging_outbox_state,
         ambiguous_attempts = least(abs(o.ambiguous_attempts::bigint) + 1, 2147483647)::integer,
         crash_attempts = least(greatest(o.crash_attempts, 0)::bigint + own.solo::integer, 2147483647)::integer,
         skipped_at = case when own.solo and @skip::boolean and o.crash_attempts::bigint + 1 >= @most::integer then clock_timestamp() else o.skipped_at end,
         first_ambiguous_at = coalesce(o.first_ambiguous_at, clock_timestamp()),
         next_attempt_at = case when own.solo and o.crash_attempts::bigint + 1 >= @most::integer then null
                                when o.ordering_key is null or not @ordered::boolean or o.message_id = any(array(select lost.message_id from lost where lost.head)) then clock_timestamp() end,
         last_outcome = 'AMBIGUOUS', last_transmission = 'MAY_HAVE_BEEN_TRANSMITTED', last_confirmation = 'NONE',
         last_routing = 'UNKNOWN', last_position = null, last_failure_category = 'AMBIGUOUS',
         last_failure_code = 'RELAY_LOST', last_failure_detail = null, version = o.version % 2147483647 + 1
    from own where o.message_id = any(array(select lost.message_id from lost)) and o.status not in ('PUBLISHED', 'PARKED')
  returning 1
), cleared as (
  update messaging_outbox_lane l set window_ids = null from own where l.lane = own.lane
)
select count(*)::bigint as marked from marked;

-- name: MarkLostRange :one
-- Take-over, second half, a step of at most @step rows; the window goes with the last step. A step that is run again after
-- the last one gives the crashes that stand there. Whether it was the last is said by the rows that were found: of those
-- another run of the same step may have marked all.
with lease as (
  select l.lane, l.window_lo, l.window_hi, l.solo, l.window_no, l.crashes from messaging_outbox_lane l
   where l.lane = @lane::integer and l.owner = @owner::uuid and l.epoch = @epoch::bigint for update
), own as (
  select lease.lane, lease.window_lo, lease.window_hi, lease.solo from lease where lease.window_no = 0
), page as materialized (
  select m.message_id, m.lane, m.ordering_key, m.seq from own, messaging_outbox m
   where m.lane = own.lane and m.status = 'PENDING' and m.seq >= own.window_lo and m.seq <= own.window_hi
   order by m.seq limit @step
), lost as materialized (
  select f.message_id, f.first and not exists (
           select from messaging_outbox w
            where w.lane = f.lane and w.ordering_key = f.ordering_key and w.status in ('HELD', 'RETRYABLE_FAILURE', 'AMBIGUOUS') and w.seq < f.seq) as head
    from (select page.*, row_number() over (partition by page.ordering_key order by page.seq) = 1 as first from page) as f
), marked as (
  update messaging_outbox o
     set status = case when own.solo and o.crash_attempts::bigint + 1 >= @most::integer then 'PARKED' else 'AMBIGUOUS' end::messaging_outbox_state,
         ambiguous_attempts = least(abs(o.ambiguous_attempts::bigint) + 1, 2147483647)::integer,
         crash_attempts = least(greatest(o.crash_attempts, 0)::bigint + own.solo::integer, 2147483647)::integer,
         skipped_at = case when own.solo and @skip::boolean and o.crash_attempts::bigint + 1 >= @most::integer then clock_timestamp() else o.skipped_at end,
         first_ambiguous_at = coalesce(o.first_ambiguous_at, clock_timestamp()),
         next_attempt_at = case when own.solo and o.crash_attempts::bigint + 1 >= @most::integer then null
                                when o.ordering_key is null or not @ordered::boolean or o.message_id = any(array(select lost.message_id from lost where lost.head)) then clock_timestamp() end,
         last_outcome = 'AMBIGUOUS', last_transmission = 'MAY_HAVE_BEEN_TRANSMITTED', last_confirmation = 'NONE',
         last_routing = 'UNKNOWN', last_position = null, last_failure_category = 'AMBIGUOUS',
         last_failure_code = 'RELAY_LOST', last_failure_detail = null, version = o.version % 2147483647 + 1
    -- By the primary key, whatever the planner believes of the table: it saw it empty, and would join each with each.
    from own where o.message_id = any(array(select lost.message_id from lost)) and case when o.status = 'PENDING' then true end
  returning 1
), total as (
  select count(*) as n from page
), done as (
  update messaging_outbox_lane l set window_lo = null, window_hi = null, solo = false, window_no = 1,
         crashes = least(greatest(l.crashes, 0)::bigint + 1, 2147483647)::integer
    from own, total where l.lane = own.lane and total.n < @step
  returning l.crashes
)
select (select count(*) from marked)::bigint as marked, coalesce((select crashes from done), (select crashes from lease), -1)::integer as crashes,
       exists (select from lease where lease.window_no = 0 or lease.window_lo is null)::boolean as owned,
       (exists (select from done) or exists (select from lease where lease.window_no > 0))::boolean as last
  from total;

-- name: CleanLanes :many
-- Windows of lanes with nothing open are closed, and a lane whose last window ended well is trusted again.
with req as (
  select r.* from (select unnest(@lanes::integer[]) as lane, unnest(@epochs::bigint[]) as epoch, unnest(@numbers::bigint[]) as number) as r
), done as (
  update messaging_outbox_lane l
     set window_lo = null, window_hi = null, window_ids = null, solo = false, crashes = 0, window_no = r.number
    from req r
   where l.lane = r.lane and l.owner = @owner::uuid and l.epoch = r.epoch and l.window_no < r.number
  returning l.lane
)
select l.lane, coalesce(l.owner = @owner::uuid and l.epoch = r.epoch, false)::boolean as owned
  from req r join messaging_outbox_lane l on l.lane = r.lane
 where l.lane <> all(array(select done.lane from done));

-- name: GiveBackLanes :many
with req as (
  select r.* from (select unnest(@lanes::integer[]) as lane, unnest(@epochs::bigint[]) as epoch, unnest(@numbers::bigint[]) as number) as r
), mine as (
  select l.lane, r.number from messaging_outbox_lane l join req r on l.lane = r.lane and l.epoch = r.epoch and l.window_no < r.number
   where l.owner = @owner::uuid and l.lane = any(@lanes::integer[]) order by l.lane for update of l
), done as (
  update messaging_outbox_lane l
     set owner = null, lease_until = '-infinity', window_lo = null, window_hi = null, window_ids = null, solo = false, window_no = mine.number
    from mine where l.lane = mine.lane
  returning l.lane
)
select l.lane, coalesce(l.owner = @owner::uuid and l.epoch = r.epoch, false)::boolean as owned
  from req r join messaging_outbox_lane l on l.lane = r.lane
 where l.lane <> all(array(select done.lane from done));

-- name: Pauses :many
select c.name, min(c.reason)::text as reason from messaging_control c
 where c.scope = 'destination' and c.verb = 'PAUSE' and (c.expires_at is null or c.expires_at > clock_timestamp())
 group by c.name;
