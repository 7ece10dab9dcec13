-- Retention: PUBLISHED rows in primary-key order, a bounded page at a time, by the one relay that holds the task. A page
-- deletes, archives and keeps its place in one statement, so that a crash between any two of these cannot happen.

-- name: TakeTask :one
insert into messaging_outbox_task as t (name, owner, lease_until, updated_at)
values (@name, @owner::uuid, clock_timestamp() + @ttl::interval, clock_timestamp())
on conflict (name) do update set owner = excluded.owner, lease_until = excluded.lease_until, updated_at = clock_timestamp()
 where t.owner is not distinct from excluded.owner or t.owner is null or t.lease_until is null or t.lease_until <= clock_timestamp()
returning t.cursor, clock_timestamp()::timestamptz as now;

-- name: SaveTask :execrows
update messaging_outbox_task t
   set cursor = @cursor::text, lease_until = clock_timestamp() + @ttl::interval, updated_at = clock_timestamp()
 where t.name = @name and t.owner = @owner::uuid;

-- name: ReleaseTask :exec
update messaging_outbox_task t set owner = null, lease_until = '-infinity' where t.name = @name and t.owner = @owner::uuid;

-- name: PrunePage :one
-- Ids of the open interval (@after, @before). The rows are found by their ids one by one, so that each is looked for in
-- its own partition alone.
with own as materialized (
  select t.name from messaging_outbox_task t where t.name = @task and t.owner = @owner::uuid for update
), page as materialized (
  select m.message_id from own cross join lateral (
    select o.message_id from messaging_outbox o where o.message_id > @after::uuid and o.message_id < @before::uuid
     order by o.message_id limit @step) m
), gone as (
  delete from messaging_outbox o using page p
   where o.message_id = p.message_id and o.status = 'PUBLISHED' and o.published_at < clock_timestamp() - @keep::interval
  returning 1
), last as materialized (
  select p.message_id from page p order by p.message_id desc limit 1
), place as (
  update messaging_outbox_task t
     set cursor = coalesce((select l.message_id::text from last l), t.cursor), lease_until = clock_timestamp() + @ttl::interval,
         updated_at = clock_timestamp()
    from own where t.name = own.name
)
select (select count(*) from gone)::bigint as gone, (select count(*) from page)::bigint as seen, exists (select from own)::boolean as mine,
       coalesce((select l.message_id from last l), '00000000-0000-0000-0000-000000000000'::uuid)::uuid as last;

-- name: ArchivePage :one
-- The same, and each row that goes is in the archive when it is gone.
with own as materialized (
  select t.name from messaging_outbox_task t where t.name = @task and t.owner = @owner::uuid for update
), page as materialized (
  select m.message_id from own cross join lateral (
    select o.message_id from messaging_outbox o where o.message_id > @after::uuid and o.message_id < @before::uuid
     order by o.message_id limit @step) m
), gone as (
  delete from messaging_outbox o using page p
   where o.message_id = p.message_id and o.status = 'PUBLISHED' and o.published_at < clock_timestamp() - @keep::interval
  returning o.message_id, o.seq, o.created_at, o.available_at, o.occurred_at, o.destination, o.message_type, o.schema_version, o.content_type,
            o.producer, o.ordering_key, o.partition_key, o.aggregate_type, o.aggregate_id, o.correlation_id, o.causation_id, o.tenant,
            o.traceparent, o.tracestate, o.baggage, o.schema_ref, o.claim_check, o.redrive_id, o.redrive_count, o.lane, o.headers, o.payload,
            o.payload_hash, o.crash_attempts, o.ambiguous_attempts, o.next_attempt_at, o.first_ambiguous_at, o.skipped_at, o.status, o.version,
            o.attempts, o.last_outcome, o.last_transmission, o.last_confirmation, o.last_routing, o.published_at, o.published_by,
            o.last_position, o.last_failure_category, o.last_failure_code, o.last_failure_detail
), kept as (
  insert into messaging_outbox_archive (
            message_id, seq, created_at, available_at, occurred_at, destination, message_type, schema_version, content_type,
            producer, ordering_key, partition_key, aggregate_type, aggregate_id, correlation_id, causation_id, tenant,
            traceparent, tracestate, baggage, schema_ref, claim_check, redrive_id, redrive_count, lane, headers, payload,
            payload_hash, crash_attempts, ambiguous_attempts, next_attempt_at, first_ambiguous_at, skipped_at, status, version,
            attempts, last_outcome, last_transmission, last_confirmation, last_routing, published_at, published_by,
            last_position, last_failure_category, last_failure_code, last_failure_detail)
  select gone.message_id, gone.seq, gone.created_at, gone.available_at, gone.occurred_at, gone.destination, gone.message_type, gone.schema_version, gone.content_type,
         gone.producer, gone.ordering_key, gone.partition_key, gone.aggregate_type, gone.aggregate_id, gone.correlation_id, gone.causation_id, gone.tenant,
         gone.traceparent, gone.tracestate, gone.baggage, gone.schema_ref, gone.claim_check, gone.redrive_id, gone.redrive_count, gone.lane, gone.headers, gone.payload,
         gone.payload_hash, gone.crash_attempts, gone.ambiguous_attempts, gone.next_attempt_at, gone.first_ambiguous_at, gone.skipped_at, gone.status, gone.version,
         gone.attempts, gone.last_outcome, gone.last_transmission, gone.last_confirmation, gone.last_routing, gone.published_at, gone.published_by,
         gone.last_position, gone.last_failure_category, gone.last_failure_code, gone.last_failure_detail
    from gone on conflict do nothing
), last as materialized (
  select p.message_id from page p order by p.message_id desc limit 1
), place as (
  update messaging_outbox_task t
     set cursor = coalesce((select l.message_id::text from last l), t.cursor), lease_until = clock_timestamp() + @ttl::interval,
         updated_at = clock_timestamp()
    from own where t.name = own.name
)
select (select count(*) from gone)::bigint as gone, (select count(*) from page)::bigint as seen, exists (select from own)::boolean as mine,
       coalesce((select l.message_id from last l), '00000000-0000-0000-0000-000000000000'::uuid)::uuid as last;

-- name: PruneArchivePage :one
with own as materialized (
  select t.name from messaging_outbox_task t where t.name = @task and t.owner = @owner::uuid for update
), page as materialized (
  select m.message_id, m.seq from own cross join lateral (
    select a.message_id, a.seq from messaging_outbox_archive a where a.message_id > @after::uuid and a.message_id < @before::uuid
     order by a.message_id, a.seq limit @step) m
), gone as (
  delete from messaging_outbox_archive a using page p
   where a.message_id = p.message_id and a.seq = p.seq and a.archived_at < clock_timestamp() - @keep::interval
  returning 1
), last as materialized (
  select p.message_id from page p order by p.message_id desc limit 1
), place as (
  update messaging_outbox_task t
     set cursor = coalesce((select l.message_id::text from last l), t.cursor), lease_until = clock_timestamp() + @ttl::interval,
         updated_at = clock_timestamp()
    from own where t.name = own.name
)
select (select count(*) from gone)::bigint as gone, (select count(*) from page)::bigint as seen, exists (select from own)::boolean as mine,
       coalesce((select l.message_id from last l), '00000000-0000-0000-0000-000000000000'::uuid)::uuid as last;

-- name: Ranges :many
-- The ranges of ids of a partitioned outbox; none of a plain one.
select r.name::text as name, r.lower::uuid as lower, r.upper::uuid as upper from messaging_outbox_ranges() r;

-- name: AddRanges :one
select messaging_outbox_add_ranges(@ahead::integer)::integer as made;

-- name: DropRange :one
select messaging_outbox_drop_range(@range::text, @only_empty::boolean)::boolean as dropped;

-- name: UndueOfRange :one
-- Whether a page of the ids from @after on holds a row that must not go yet.
select count(*)::bigint as seen, (count(*) filter (where p.stays))::bigint as stays,
       coalesce((array_agg(p.message_id order by p.message_id desc))[1], '00000000-0000-0000-0000-000000000000'::uuid)::uuid as last
  from (
    select m.message_id, (m.status = 'PUBLISHED' and m.published_at < clock_timestamp() - @keep::interval) is not true as stays
      from messaging_outbox m where m.message_id > @after::uuid and m.message_id < @before::uuid
     order by m.message_id limit @step) p;
