-- What 'relay doctor' asks. Each statement reads catalogs and statistics alone, so that it costs the same whatever the
-- tables hold.

-- name: OldSnapshots :many
-- Who keeps VACUUM from removing what is dead: sessions with their transaction's age, and prepared transactions.
select 'session'::text as kind, ('process ' || a.pid || ', ' || coalesce(a.state, 'unknown') || ', application ' || coalesce(nullif(a.application_name, ''), '?'))::text as holder,
       extract(epoch from clock_timestamp() - coalesce(a.xact_start, a.query_start))::float8 as seconds
  from pg_catalog.pg_stat_activity a
 where (a.backend_xmin is not null or a.backend_xid is not null) and coalesce(a.xact_start, a.query_start) < clock_timestamp() - @age::interval
   and a.datname = current_database() and a.pid <> pg_backend_pid() and a.backend_type in ('client backend', 'walsender')
union all
select 'prepared transaction', p.gid, extract(epoch from clock_timestamp() - p.prepared)::float8
  from pg_catalog.pg_prepared_xacts p
 where p.database = current_database() and p.prepared < clock_timestamp() - @age::interval
 order by 3 desc limit 10;

-- name: IdleSlots :many
select s.slot_name::text as name, coalesce(case when not pg_is_in_recovery() then pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn) end, 0)::bigint as kept_bytes
  from pg_catalog.pg_replication_slots s
 where not s.active and s.restart_lsn is not null and (s.database is null or s.database = current_database())
 order by 2 desc limit 10;

-- name: BadIndexes :many
-- Indexes that the statements need and that are absent or not valid.
select w.name::text as name, (i.indexrelid is null)::boolean as missing
  from (select unnest(@names::text[]) as name) as w
  left join pg_catalog.pg_class c on c.relname = w.name and c.relnamespace = current_schema()::regnamespace
  left join pg_catalog.pg_index i on i.indexrelid = c.oid
 where i.indexrelid is null or not i.indisvalid or not i.indisready;

-- name: VacuumState :many
select s.relname::text as relation, coalesce(s.n_live_tup, 0)::bigint as live, coalesce(s.n_dead_tup, 0)::bigint as dead,
       coalesce(extract(epoch from clock_timestamp() - greatest(s.last_autovacuum, s.last_vacuum)), -1)::float8 as seconds_since,
       (current_setting('autovacuum') = 'off' or coalesce(array_to_string(c.reloptions, ','), '') ~ 'autovacuum_enabled=(false|off|0|no)')::boolean as off
  from pg_catalog.pg_stat_user_tables s join pg_catalog.pg_class c on c.oid = s.relid
 where s.schemaname = current_schema() and s.relname in ('messaging_outbox', 'messaging_outbox_lane', 'messaging_inbox');

-- name: ServerClock :one
select clock_timestamp()::timestamptz as now;

-- name: MissingRights :many
-- Of the four roles, those that are there and lack the right that their programs need first.
select r.name::text as name, r.needs::text as needs from (
  select 'relay_writer' as name, 'insert on messaging_outbox' as needs,
         has_any_column_privilege(o.oid, 'messaging_outbox', 'insert') as ok from pg_catalog.pg_roles o where o.rolname = 'relay_writer'
  union all
  select 'relay_worker', 'select and update on messaging_outbox, messaging_outbox_lane',
         has_table_privilege(o.oid, 'messaging_outbox', 'select') and has_any_column_privilege(o.oid, 'messaging_outbox', 'update')
         and has_table_privilege(o.oid, 'messaging_outbox_lane', 'update') from pg_catalog.pg_roles o where o.rolname = 'relay_worker'
  union all
  select 'relay_operator', 'execute on messaging_outbox_operate',
         has_function_privilege(o.oid, 'messaging_outbox_operate(text, uuid[], integer[], text, text)', 'execute') from pg_catalog.pg_roles o where o.rolname = 'relay_operator'
  union all
  select 'relay_reader', 'select on messaging_outbox_status',
         has_table_privilege(o.oid, 'messaging_outbox_status', 'select') from pg_catalog.pg_roles o where o.rolname = 'relay_reader') r
 where not r.ok;
