-- Retention: PUBLISHED rows in primary-key order, a bounded page at a time, by the one relay that holds the task.

-- name: TakeTask :one
insert into messaging_outbox_task as t (name, owner, lease_until, updated_at)
values (@name, @owner::uuid, clock_timestamp() + @ttl::interval, clock_timestamp())
on conflict (name) do update set owner = excluded.owner, lease_until = excluded.lease_until, updated_at = clock_timestamp()
 where t.owner is not distinct from excluded.owner or t.owner is null or t.lease_until <= clock_timestamp()
returning t.cursor;

-- name: SaveTask :execrows
update messaging_outbox_task t
   set cursor = @cursor::text, lease_until = clock_timestamp() + @ttl::interval, updated_at = clock_timestamp()
 where t.name = @name and t.owner = @owner::uuid;

-- name: ReleaseTask :exec
update messaging_outbox_task t set owner = null, lease_until = '-infinity' where t.name = @name and t.owner = @owner::uuid;

-- name: PrunePage :one
with page as materialized (
  select m.message_id from messaging_outbox m where m.message_id > @cursor::uuid order by m.message_id limit @step
), gone as (
  delete from messaging_outbox o
   where o.message_id = any(array(select p.message_id from page p)) and o.status = 'PUBLISHED'
     and o.published_at < clock_timestamp() - @keep::interval
  returning 1
)
select (select count(*) from gone)::bigint as deleted, (select count(*) from page)::bigint as seen,
       coalesce((select p.message_id from page p order by p.message_id desc limit 1), '00000000-0000-0000-0000-000000000000'::uuid)::uuid as last,
       -- ids begin with the milliseconds of their making: nothing younger than the keep time can be due
       coalesce((select ('x' || left(replace(p.message_id::text, '-', ''), 12))::bit(48)::bigint
                   from page p order by p.message_id desc limit 1)
                > extract(epoch from clock_timestamp() - @keep::interval) * 1000, true)::boolean as young;
