-- Statistics for the actuator and the command line. Their cost is bounded whatever the table holds: at most @most rows of
-- a lane and kind are looked at, each kind over the partial index that holds it, and the lanes that have such rows are
-- found by a loose scan. Published rows are counted while the table is small and estimated from the planner's statistics
-- above that, because their number is the number of all messages since the retention time.

-- name: CountPending :many
-- A lane with more rows is extrapolated from the share of its seq range that was counted. The oldest row of a lane is
-- the first by seq, near enough to the oldest by time.
with recursive pending(lane) as (
  (select m.lane from messaging_outbox m where m.status = 'PENDING' order by m.lane limit 1)
  union all
  select (select m.lane from messaging_outbox m where m.status = 'PENDING' and m.lane > p.lane order by m.lane limit 1)
    from pending p where p.lane is not null
)
select p.lane::integer as lane,
       (case when c.n < @most::bigint then c.n
             else (c.n * (1 + z.seq - c.first)::float8 / (1 + c.last - c.first)) end)::bigint as rows,
       (c.n >= @most::bigint)::boolean as estimated,
       coalesce(extract(epoch from clock_timestamp() - f.since), 0)::float8 as oldest_seconds
  from pending p
 cross join lateral (
    select count(*) as n, min(k.seq) as first, max(k.seq) as last from (
      select m.seq from messaging_outbox m where m.status = 'PENDING' and m.lane = p.lane order by m.seq limit @most) k) c
 cross join lateral (
    select m.seq from messaging_outbox m where m.status = 'PENDING' and m.lane = p.lane order by m.seq desc limit 1) z
  left join lateral (
    select greatest(m.created_at, m.available_at) as since from messaging_outbox m
     where m.status = 'PENDING' and m.lane = p.lane and m.seq = c.first) f on true
 where p.lane is not null;

-- name: CountWaiting :many
-- Every other open row stands in exactly one of these: with a due time, behind the head of its key, or parked. Where a
-- lane has more than @most rows of a kind the count is a lower bound.
with recursive deferred(lane) as (
  (select m.lane from messaging_outbox m where m.status in ('SCHEDULED', 'RETRYABLE_FAILURE', 'AMBIGUOUS') and m.next_attempt_at is not null order by m.lane limit 1)
  union all
  select (select m.lane from messaging_outbox m where m.status in ('SCHEDULED', 'RETRYABLE_FAILURE', 'AMBIGUOUS') and m.next_attempt_at is not null and m.lane > p.lane order by m.lane limit 1)
    from deferred p where p.lane is not null
), waiting(lane) as (
  (select m.lane from messaging_outbox m where m.status in ('HELD', 'RETRYABLE_FAILURE', 'AMBIGUOUS') and m.ordering_key is not null order by m.lane limit 1)
  union all
  select (select m.lane from messaging_outbox m where m.status in ('HELD', 'RETRYABLE_FAILURE', 'AMBIGUOUS') and m.ordering_key is not null and m.lane > p.lane order by m.lane limit 1)
    from waiting p where p.lane is not null
), parked(lane) as (
  (select m.lane from messaging_outbox m where m.status = 'PARKED' and m.skipped_at is null order by m.lane limit 1)
  union all
  select (select m.lane from messaging_outbox m where m.status = 'PARKED' and m.skipped_at is null and m.lane > p.lane order by m.lane limit 1)
    from parked p where p.lane is not null
), skipped(lane) as (
  (select m.lane from messaging_outbox m where m.status = 'PARKED' and m.skipped_at is not null order by m.lane limit 1)
  union all
  select (select m.lane from messaging_outbox m where m.status = 'PARKED' and m.skipped_at is not null and m.lane > p.lane order by m.lane limit 1)
    from skipped p where p.lane is not null
), open as (
  select x.lane, x.status, x.created_at, x.available_at from deferred p cross join lateral (
    select m.* from messaging_outbox m where m.status in ('SCHEDULED', 'RETRYABLE_FAILURE', 'AMBIGUOUS') and m.next_attempt_at is not null and m.lane = p.lane limit @most) x
  union all
  select x.lane, x.status, x.created_at, x.available_at from waiting p cross join lateral (
    select m.* from messaging_outbox m where m.status in ('HELD', 'RETRYABLE_FAILURE', 'AMBIGUOUS') and m.ordering_key is not null and (m.status = 'HELD' or m.next_attempt_at is null) and m.lane = p.lane limit @most) x
  union all
  select x.lane, x.status, null, null from parked p cross join lateral (
    select m.* from messaging_outbox m where m.status = 'PARKED' and m.skipped_at is null and m.lane = p.lane limit @most) x
  union all
  select x.lane, x.status, null, null from skipped p cross join lateral (
    select m.* from messaging_outbox m where m.status = 'PARKED' and m.skipped_at is not null and m.lane = p.lane limit @most) x
)
select o.lane::integer as lane, o.status::text as status, count(*)::bigint as rows, (count(*) >= @most::bigint)::boolean as estimated,
       coalesce(extract(epoch from clock_timestamp() - min(greatest(o.created_at, o.available_at))
         filter (where o.available_at <= clock_timestamp())), 0)::float8 as oldest_seconds
  from open o group by o.lane, o.status;

-- name: CountPublished :many
select m.lane::integer as lane, count(*)::bigint as rows from messaging_outbox m where m.status = 'PUBLISHED' group by m.lane;

-- name: EstimateRows :many
-- Rows of any status by destination, as the last ANALYZE saw them, of the table or of its ranges. A destination that it did
-- not see often enough is missing from the answer.
select ((s.most_common_vals::text::text[])[i])::text as destination,
       sum(c.reltuples::float8 / greatest(c.relpages, 1) * (pg_relation_size(c.oid) / current_setting('block_size')::float8) * s.most_common_freqs[i])::bigint as rows
  from pg_catalog.pg_class c
  join pg_catalog.pg_namespace n on n.oid = c.relnamespace
  join pg_catalog.pg_stats s on s.schemaname = n.nspname and s.tablename = c.relname and s.attname = 'destination'
 cross join lateral generate_subscripts(s.most_common_freqs, 1) as i
 where c.relkind = 'r' and c.reltuples >= 0
   and (c.oid = 'messaging_outbox'::regclass or c.oid in (select p.inhrelid from pg_catalog.pg_inherits p where p.inhparent = 'messaging_outbox'::regclass))
 group by 1;

-- name: TablePages :one
select (coalesce(sum(pg_relation_size(c.oid)), 0) / current_setting('block_size')::bigint)::bigint as pages, clock_timestamp()::timestamptz as now
  from pg_catalog.pg_class c
 where c.oid = 'messaging_outbox'::regclass or c.oid in (select p.inhrelid from pg_catalog.pg_inherits p where p.inhparent = 'messaging_outbox'::regclass);

-- name: LaneStates :many
-- Every lane with the rows that its owner may have on the wire now.
select l.lane, l.destination, (l.owner is not null)::boolean as owned, live.live::boolean as live,
       (case when live.live then
         (select count(*) from messaging_outbox m where m.status = 'PENDING' and m.lane = l.lane and m.seq between l.window_lo and l.window_hi)
         + (select count(*) from messaging_outbox m where m.message_id = any(l.window_ids) and m.status not in ('PUBLISHED', 'PARKED'))
        else 0 end)::bigint as leased
  from messaging_outbox_lane l cross join lateral (
    select l.owner is not null and l.lease_until > clock_timestamp()
       and (l.lease_until <= clock_timestamp() + l.lease_ttl or exists (
            select from messaging_outbox_relay r where r.id = l.owner and r.heartbeat > clock_timestamp() - l.lease_ttl and l.destination = any(r.serves))) as live) live;

-- name: ServedNow :many
select distinct s.destination::text as destination from messaging_outbox_relay r cross join lateral unnest(r.serves) as s(destination)
 where r.state = 'RUNNING' and r.heartbeat > clock_timestamp() - @ttl::interval;
