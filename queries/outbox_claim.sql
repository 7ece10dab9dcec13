-- Claims: read rows in seq order per lane and write the lane's window, in one statement, before anything is published.
-- The window is the union of the lane's open batches as the owner remembers them and of the rows read here. It is written
-- only under a number above the one that stands there: a claim that was given up and runs late has an older memory.

-- name: ClaimPending :many
-- A row may have become visible behind the cursor since it passed: the lane is then read from the floor, because a later
-- row of the same key may be visible as well and must not go first. The floor is -1 where no order holds.
-- The rows are found twice by one snapshot: a page that holds whole rows would be copied three times, which costs more
-- than to find them again. With them goes what others have changed in their lane: a row before them may have been parked
-- that nobody here has seen.
with req as (
  select r.* from (select unnest(@lanes::integer[]) as lane, unnest(@epochs::bigint[]) as epoch,
              unnest(@cursors::bigint[]) as cursor, unnest(@limits::integer[]) as lim,
              unnest(@lows::bigint[]) as low, unnest(@floors::bigint[]) as floor, unnest(@open_lo::bigint[]) as lo, unnest(@open_hi::bigint[]) as hi,
              unnest(@rewrite::boolean[]) as rewrite, unnest(@numbers::bigint[]) as number) as r
), page as materialized (
  select r.lane, r.cursor, start.seq as start, found.lo,
         case when found.bytes <= @max_bytes::bigint then found.hi
              else (select max(u.seq) from (
                      select t.seq, octet_length(t.payload) as own, sum(octet_length(t.payload)) over (rows unbounded preceding) as bytes from (
                        select o.seq, o.payload from messaging_outbox o
                         where o.lane = r.lane and o.status = 'PENDING' and o.seq > start.seq and o.destination = @destination
                           and (o.seq > r.cursor or o.seq not in (select h from unnest(@in_hand::bigint[]) as h))
                         order by o.seq limit r.lim) t) u
                     where u.bytes <= @max_bytes::bigint or u.bytes = u.own) end as hi
    from req r cross join lateral (
    select case when r.floor >= 0 and exists (
             select from messaging_outbox b
              where b.lane = r.lane and b.status = 'PENDING' and b.seq > r.floor and b.seq <= r.cursor
                and b.seq not in (select h from unnest(@in_hand::bigint[]) as h))
           then r.floor else r.cursor end as seq) start
  cross join lateral (
    select min(t.seq) as lo, max(t.seq) as hi, sum(octet_length(t.payload)) as bytes from (
      select o.seq, o.payload from messaging_outbox o
       where o.lane = r.lane and o.status = 'PENDING' and o.seq > start.seq and o.destination = @destination
         and (o.seq > r.cursor or o.seq not in (select h from unnest(@in_hand::bigint[]) as h))
       order by o.seq limit r.lim) t) found
), win as (
  update messaging_outbox_lane l
     set window_lo = least(nullif(r.lo, 0), p.lo), window_hi = greatest(nullif(r.hi, 0), p.hi), low_seq = r.low, solo = @solo::boolean, window_no = r.number,
         window_ids = (select array_agg(i.id) from (select unnest(@id_lanes::integer[]) as lane, unnest(@ids::uuid[]) as id) as i where i.lane = l.lane)
    from req r join page p on p.lane = r.lane
   where l.lane = r.lane and l.owner = @owner::uuid and l.epoch = r.epoch and l.window_no < r.number and (p.lo is not null or r.rewrite)
  returning l.lane, l.changes
), own as materialized (
  select p.*, win.changes from page p join win on win.lane = p.lane order by p.lane
)
select m.seq, m.message_id, m.lane, m.message_type, m.schema_version, m.content_type, m.producer, m.partition_key,
       m.ordering_key, m.correlation_id, m.causation_id, m.tenant, m.traceparent, m.tracestate, m.baggage, m.schema_ref,
       m.claim_check, m.redrive_id, m.redrive_count, m.headers::text as headers, m.payload, m.occurred_at, m.created_at,
       m.attempts, m.ambiguous_attempts, m.version, 'PENDING'::text as status, p.changes
  from own p cross join lateral (
    select o.* from messaging_outbox o
     where o.lane = p.lane and o.status = 'PENDING' and o.seq > p.start and o.seq <= p.hi and o.destination = @destination
       and (o.seq > p.cursor or o.seq not in (select h from unnest(@in_hand::bigint[]) as h))
     order by o.seq) m;

-- name: ClaimRuns :many
-- For keys whose head is due: the head and, up to @run rows, what waits behind it, in seq order. A redriven row ends the
-- run: rows before it may still be PENDING, and only a look at it as the head knows.
with req as (
  select r.* from (select unnest(@lanes::integer[]) as lane, unnest(@epochs::bigint[]) as epoch,
              unnest(@open_lo::bigint[]) as lo, unnest(@open_hi::bigint[]) as hi,
              unnest(@numbers::bigint[]) as number) as r
), look as (
  select k.lane, k.key from (select unnest(@key_lanes::integer[]) as lane, unnest(@keys::text[]) as key) as k
), page as materialized (
  select m.* from look k cross join lateral (
    select coalesce(min(b.seq), 9223372036854775807) as seq from messaging_outbox b
     where @block::boolean and b.lane = k.lane and b.ordering_key = k.key and b.status = 'PARKED' and b.skipped_at is null) parked
  cross join lateral (
    select t.*, sum(octet_length(t.payload)) over (rows unbounded preceding) as bytes,
           count(*) filter (where t.redriven) over (rows between unbounded preceding and current row) - first_value(t.redriven::integer) over (rows unbounded preceding) as redriven_behind from (
      select o.seq, o.message_id, o.lane, o.message_type, o.schema_version, o.content_type, o.producer, o.partition_key,
             o.ordering_key, o.correlation_id, o.causation_id, o.tenant, o.traceparent, o.tracestate, o.baggage,
             o.schema_ref, o.claim_check, o.redrive_id, o.redrive_count, o.headers, o.payload, o.occurred_at, o.created_at,
             o.attempts, o.ambiguous_attempts, o.version, o.status::text as status,
             o.status <> 'HELD' and o.attempts = 0 and o.last_failure_code is distinct from 'RELAY_LOST' as redriven
        from messaging_outbox o
       where o.lane = k.lane and o.ordering_key = k.key and o.status in ('HELD', 'RETRYABLE_FAILURE', 'AMBIGUOUS')
         and o.seq < parked.seq and o.destination = @destination
       order by o.seq limit @run) t) m
   where (m.bytes <= @max_bytes::bigint or m.bytes = octet_length(m.payload)) and m.redriven_behind = 0
), win as (
  update messaging_outbox_lane l
     set window_lo = nullif(r.lo, 0), window_hi = nullif(r.hi, 0), solo = @solo::boolean, window_no = r.number,
         window_ids = (select array_agg(i.id) from (
             select i.id from (select unnest(@id_lanes::integer[]) as lane, unnest(@ids::uuid[]) as id) as i where i.lane = l.lane
             union select page.message_id from page where page.lane = l.lane) i)
    from req r where l.lane = r.lane and l.owner = @owner::uuid and l.epoch = r.epoch and l.window_no < r.number
  returning l.lane
)
select page.seq, page.message_id, page.lane, page.message_type, page.schema_version, page.content_type, page.producer,
       page.partition_key, page.ordering_key, page.correlation_id, page.causation_id, page.tenant, page.traceparent,
       page.tracestate, page.baggage, page.schema_ref, page.claim_check, page.redrive_id, page.redrive_count,
       page.headers::text as headers, page.payload, page.occurred_at, page.created_at, page.attempts,
       page.ambiguous_attempts, page.version, page.status
  from page where page.lane = any(array(select win.lane from win));

-- name: ClaimDeferred :many
-- Due rows that no key holds back: of destinations without key order all, of ordered ones those without a key.
with req as (
  select r.* from (select unnest(@lanes::integer[]) as lane, unnest(@epochs::bigint[]) as epoch,
              unnest(@limits::integer[]) as lim, unnest(@open_lo::bigint[]) as lo,
              unnest(@open_hi::bigint[]) as hi, unnest(@numbers::bigint[]) as number) as r
), page as materialized (
  select m.* from req r cross join lateral (
    select t.*, sum(octet_length(t.payload)) over (rows unbounded preceding) as bytes from (
      (select o.seq, o.message_id, o.lane, o.message_type, o.schema_version, o.content_type, o.producer, o.partition_key,
             o.ordering_key, o.correlation_id, o.causation_id, o.tenant, o.traceparent, o.tracestate, o.baggage,
             o.schema_ref, o.claim_check, o.redrive_id, o.redrive_count, o.headers, o.payload, o.occurred_at, o.created_at,
             o.attempts, o.ambiguous_attempts, o.version, o.status::text as status
        from messaging_outbox o
       where o.lane = r.lane and o.status in ('RETRYABLE_FAILURE', 'AMBIGUOUS') and o.next_attempt_at <= clock_timestamp()
         and o.destination = @destination and (not @ordered::boolean or o.ordering_key is null)
         and o.message_id <> all(@unresolved::uuid[])
       order by o.next_attempt_at limit r.lim)
      union all
      (select o.seq, o.message_id, o.lane, o.message_type, o.schema_version, o.content_type, o.producer, o.partition_key,
             o.ordering_key, o.correlation_id, o.causation_id, o.tenant, o.traceparent, o.tracestate, o.baggage,
             o.schema_ref, o.claim_check, o.redrive_id, o.redrive_count, o.headers, o.payload, o.occurred_at, o.created_at,
             o.attempts, o.ambiguous_attempts, o.version, o.status::text as status
        from messaging_outbox o
       where not @ordered::boolean and o.lane = r.lane and o.status in ('HELD', 'RETRYABLE_FAILURE', 'AMBIGUOUS')
         and o.ordering_key is not null and (o.status = 'HELD' or o.next_attempt_at is null) and o.destination = @destination
         and o.message_id <> all(@unresolved::uuid[])
       order by o.ordering_key, o.seq limit r.lim)
      limit case when @solo::boolean then 1 end) t) m -- one row alone, of whichever kind
   where m.bytes <= @max_bytes::bigint or m.bytes = octet_length(m.payload)
), win as (
  update messaging_outbox_lane l
     set window_lo = nullif(r.lo, 0), window_hi = nullif(r.hi, 0), solo = @solo::boolean, window_no = r.number,
         window_ids = (select array_agg(i.id) from (
             select i.id from (select unnest(@id_lanes::integer[]) as lane, unnest(@ids::uuid[]) as id) as i where i.lane = l.lane
             union select page.message_id from page where page.lane = l.lane) i)
    from req r where l.lane = r.lane and l.owner = @owner::uuid and l.epoch = r.epoch and l.window_no < r.number
  returning l.lane
)
select page.seq, page.message_id, page.lane, page.message_type, page.schema_version, page.content_type, page.producer,
       page.partition_key, page.ordering_key, page.correlation_id, page.causation_id, page.tenant, page.traceparent,
       page.tracestate, page.baggage, page.schema_ref, page.claim_check, page.redrive_id, page.redrive_count,
       page.headers::text as headers, page.payload, page.occurred_at, page.created_at, page.attempts,
       page.ambiguous_attempts, page.version, page.status
  from page where page.lane = any(array(select win.lane from win));

-- name: BlockedKeys :many
-- The keys of some lanes that have waiting rows or a parked head; asked when a lane is taken or was changed by others.
select distinct m.lane, m.ordering_key::text as key from messaging_outbox m
 where m.lane = any(@lanes::integer[]) and m.ordering_key is not null
   and m.status in ('HELD', 'RETRYABLE_FAILURE', 'AMBIGUOUS')
union
select m.lane, m.ordering_key from messaging_outbox m
 where @block::boolean and m.lane = any(@lanes::integer[]) and m.ordering_key is not null
   and m.status = 'PARKED' and m.skipped_at is null;

-- name: DueKeys :many
-- A due row of an ordered destination only says that its key wants a look.
select distinct r.lane::integer as lane, m.ordering_key::text as key from unnest(@lanes::integer[]) as r(lane)
 cross join lateral (
   select o.ordering_key from messaging_outbox o
    where o.lane = r.lane and o.status in ('RETRYABLE_FAILURE', 'AMBIGUOUS') and o.next_attempt_at <= clock_timestamp()
      and o.ordering_key is not null
    order by o.next_attempt_at limit 200) m;

-- name: LookAtKeys :many
-- Of each key: its head among the waiting rows, when that is due (0: now), whether a parked row stands before it, the seq of
-- what holds the key, and whether rows before the head are PENDING still. That can be where the head was redriven and had
-- been parked before its turn came; otherwise all rows before a waiting one have been read before it. A redriven row has no
-- attempts, which a row that was lost with its relay need not have either.
select k.lane::integer as lane, k.key::text as key, coalesce(head.message_id, '00000000-0000-0000-0000-000000000000'::uuid)::uuid as head,
       coalesce(greatest(extract(epoch from head.next_attempt_at - clock_timestamp()) * 1000, 0), 0)::float8 as due_in_ms,
       coalesce(parked.seq < coalesce(head.seq, 9223372036854775807), false)::boolean as parked,
       coalesce(least(head.seq, parked.seq), 0)::bigint as seq,
       coalesce(head.redriven and exists (
         select from messaging_outbox p
          where p.lane = k.lane and p.status = 'PENDING' and p.seq < head.seq and p.ordering_key = k.key), false)::boolean as untimely
  from (select unnest(@lanes::integer[]) as lane, unnest(@keys::text[]) as key) as k
  left join lateral (
    select o.message_id, o.seq, case when o.status <> 'HELD' then o.next_attempt_at end as next_attempt_at, -- only a hand gives it to one
           o.status <> 'HELD' and o.attempts = 0 and o.last_failure_code is distinct from 'RELAY_LOST' as redriven
      from messaging_outbox o
     where o.lane = k.lane and o.ordering_key = k.key and o.status in ('HELD', 'RETRYABLE_FAILURE', 'AMBIGUOUS')
     order by o.seq limit 1) head on true
  left join lateral (
    select min(b.seq) as seq from messaging_outbox b
     where @block::boolean and b.lane = k.lane and b.ordering_key = k.key and b.status = 'PARKED' and b.skipped_at is null) parked
    on true;

-- name: ReleaseScheduled :many
-- A scheduled row that is due takes its place in seq order among the rows that were never sent.
update messaging_outbox o set status = 'PENDING', next_attempt_at = null, version = o.version % 2147483647 + 1
 where o.status = 'SCHEDULED' and o.message_id = any(array(
   select m.message_id from (
     select l.lane from messaging_outbox_lane l join (select unnest(@lanes::integer[]) as lane, unnest(@epochs::bigint[]) as epoch) as r
         on l.lane = r.lane and l.epoch = r.epoch
      where l.owner = @owner::uuid and l.lane = any(@lanes::integer[]) order by l.lane for key share of l) own
   cross join lateral (
     select s.message_id from messaging_outbox s
      where s.lane = own.lane and s.status = 'SCHEDULED' and s.next_attempt_at <= clock_timestamp()
      order by s.next_attempt_at limit @step) m))
returning o.lane, o.seq;
