-- How much room the tables take and who keeps dead rows in them. Catalogs and statistics alone, but for the backlog of the
-- retention, which looks at a bounded number of rows.

-- name: TableStorage :many
-- A partitioned table is the sum of its partitions.
select w.name::text as relation, (count(*) - 1)::integer as partitions,
       sum(pg_table_size(p.oid))::bigint as table_bytes, sum(pg_indexes_size(p.oid))::bigint as index_bytes,
       coalesce(sum(s.n_live_tup), 0)::bigint as live, coalesce(sum(s.n_dead_tup), 0)::bigint as dead,
       coalesce(max(s.last_vacuum), '0001-01-01 00:00:00+00')::timestamptz as last_vacuum, coalesce(max(s.last_autovacuum), '0001-01-01 00:00:00+00')::timestamptz as last_autovacuum
  from (select unnest(@tables::text[]) as name) as w
  join pg_catalog.pg_class r on r.relname = w.name and r.relnamespace = current_schema()::regnamespace
  join pg_catalog.pg_class p on p.oid = r.oid or p.oid in (select i.inhrelid from pg_catalog.pg_inherits i where i.inhparent = r.oid)
  left join pg_catalog.pg_stat_user_tables s on s.relid = p.oid
 group by w.name;

-- name: SnapshotHolders :many
-- Who keeps VACUUM from removing what died since. Of another user's session nothing shows without pg_read_all_stats.
select h.kind::text as kind, h.holder::text as holder, coalesce(extract(epoch from clock_timestamp() - h.since), -1)::float8 as seconds,
       h.transactions::bigint as transactions
  from (
    select 'SESSION' as kind, 'process ' || a.pid || ', ' || coalesce(a.state, 'unknown') || ', application ' || coalesce(nullif(a.application_name, ''), '?') as holder,
           coalesce(a.xact_start, a.query_start) as since, greatest(age(a.backend_xmin), age(a.backend_xid)) as transactions
      from pg_catalog.pg_stat_activity a
     where (a.backend_xmin is not null or a.backend_xid is not null) and a.pid <> pg_backend_pid()
       and (a.datname = current_database() or a.datname is null) and a.backend_type not in ('walsender', 'autovacuum worker')
    union all
    select 'PREPARED_TRANSACTION', p.gid, p.prepared, age(p.transaction)
      from pg_catalog.pg_prepared_xacts p where p.database = current_database()
    union all
    select 'REPLICATION_SLOT', s.slot_name || case when s.active then ', active' else ', without a reader' end, null, age(s.xmin)
      from pg_catalog.pg_replication_slots s where s.xmin is not null
    union all
    select 'STANDBY', coalesce(nullif(r.application_name, ''), '?') || ', process ' || r.pid || ', feedback of its own queries', null, age(r.backend_xmin)
      from pg_catalog.pg_stat_replication r where r.backend_xmin is not null) h
 order by h.transactions desc, h.since nulls last limit @most;

-- name: SeesSessions :one
select pg_has_role('pg_read_all_stats', 'usage')::boolean as sees;

-- name: TaskPlace :one
select coalesce(max(t.cursor), '')::text as place, clock_timestamp()::timestamptz as now from messaging_outbox_task t where t.name = @name;

-- name: RetentionBacklog :one
-- Rows whose time is over among the next @most that the retention will look at.
select count(*)::bigint as seen, count(b.published_at)::bigint as due,
       coalesce(extract(epoch from max(clock_timestamp() - b.published_at)) - extract(epoch from @keep::interval), 0)::float8 as overdue_seconds
  from (
    select case when m.status = 'PUBLISHED' and m.published_at < clock_timestamp() - @keep::interval then m.published_at end as published_at
      from messaging_outbox m where m.message_id > @after::uuid and m.message_id < @before::uuid
     order by m.message_id limit @most) b;
