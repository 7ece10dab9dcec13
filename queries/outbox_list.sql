-- Rows for people. Each state is read over the index that holds it, at most @most rows, in the lanes of one destination
-- or in all of them; the lanes of a destination are neighbours. Within a state the order is that of the index, oldest
-- first in each lane; PUBLISHED rows come newest first.

-- name: ListRows :many
with span as (
  select (case when @destination::text = '' then 0 else messaging_outbox_destination_hash(@destination) << 4 end)::integer as lo,
         (case when @destination = '' then 2147483647 else (messaging_outbox_destination_hash(@destination) << 4) | 15 end)::integer as hi
), picked as (
  (select m.message_id from messaging_outbox m
    where 'PENDING' = any(@states::text[]) and m.status = 'PENDING'
      and m.lane between (select lo from span) and (select hi from span) and (@destination = '' or m.destination = @destination)
    order by m.lane, m.seq limit @most::integer)
  union all
  (select m.message_id from messaging_outbox m
    where m.status in ('SCHEDULED', 'RETRYABLE_FAILURE', 'AMBIGUOUS') and m.next_attempt_at is not null and m.status::text = any(@states)
      and m.lane between (select lo from span) and (select hi from span) and (@destination = '' or m.destination = @destination)
    order by m.lane, m.next_attempt_at limit @most)
  union all
  (select m.message_id from messaging_outbox m
    where m.status in ('HELD', 'RETRYABLE_FAILURE', 'AMBIGUOUS') and m.ordering_key is not null and m.status::text = any(@states)
      and (m.status = 'HELD' or m.next_attempt_at is null)
      and m.lane between (select lo from span) and (select hi from span) and (@destination = '' or m.destination = @destination)
    order by m.lane, m.ordering_key, m.seq limit @most)
  union all
  (select m.message_id from messaging_outbox m
    where 'PARKED' = any(@states) and m.status = 'PARKED' and m.skipped_at is null
      and m.lane between (select lo from span) and (select hi from span) and (@destination = '' or m.destination = @destination)
    order by m.lane, m.ordering_key limit @most)
  union all
  (select m.message_id from messaging_outbox m
    where 'PARKED' = any(@states) and m.status = 'PARKED' and m.skipped_at is not null
      and m.lane between (select lo from span) and (select hi from span) and (@destination = '' or m.destination = @destination)
    order by m.lane limit @most)
  union all
  (select m.message_id from messaging_outbox m
    where 'PUBLISHED' = any(@states) and m.status = 'PUBLISHED' and (@destination = '' or m.destination = @destination)
    order by m.message_id desc limit @most)
)
select s.message_id, s.destination, s.message_type, s.status::text as status, s.stored_status::text as stored_status, s.created_at, s.available_at,
       s.next_attempt_at, s.published_at, s.lease_until, s.attempts, s.ambiguous_attempts, s.skipped_at, coalesce(s.last_outcome::text, '')::text as last_outcome,
       s.last_failure_category, s.last_failure_code, s.last_failure_detail
  from picked p join messaging_outbox_status s on s.message_id = p.message_id
 order by s.seq
 limit @most;
