-- What 'relay doctor' asks. Each statement reads catalogs, statistics and the small tables of the fleet, so that it costs the
-- same whatever the outbox holds; open rows are looked for by one probe of a partial index per lane.

-- name: IdleSlots :many
select s.slot_name::text as name, coalesce(case when not pg_is_in_recovery() then pg_wal_lsn_diff(pg_current_wal_lsn(), s.restart_lsn) end, 0)::bigint as kept_bytes
  from pg_catalog.pg_replication_slots s
 where not s.active and s.restart_lsn is not null and (s.database is null or s.database = current_database())
 order by 2 desc limit 10;

-- name: BadIndexes :many
-- Indexes that the statements need and that are absent or not valid; of a partitioned table also those of its partitions.
select w.name::text as name, (i.indexrelid is null)::boolean as missing
  from (select unnest(@names::text[]) as name) as w
  left join pg_catalog.pg_class c on c.relname = w.name and c.relnamespace = current_schema()::regnamespace
  left join pg_catalog.pg_index i on i.indexrelid = c.oid
 where i.indexrelid is null or not i.indisvalid or not i.indisready
union all
select p.relname::text, false
  from pg_catalog.pg_class c
  join pg_catalog.pg_inherits h on h.inhparent = c.oid
  join pg_catalog.pg_class p on p.oid = h.inhrelid
  join pg_catalog.pg_index i on i.indexrelid = p.oid
 where c.relname = any(@names::text[]) and c.relnamespace = current_schema()::regnamespace and (not i.indisvalid or not i.indisready);

-- name: VacuumState :many
select s.relname::text as relation, coalesce(s.n_live_tup, 0)::bigint as live, coalesce(s.n_dead_tup, 0)::bigint as dead,
       coalesce(extract(epoch from clock_timestamp() - greatest(s.last_autovacuum, s.last_vacuum)), -1)::float8 as seconds_since,
       (current_setting('autovacuum') = 'off' or current_setting('track_counts') = 'off'
        or coalesce(array_to_string(c.reloptions, ','), '') ~ 'autovacuum_enabled=(false|off|0|no)')::boolean as off
  from pg_catalog.pg_stat_user_tables s join pg_catalog.pg_class c on c.oid = s.relid
 where s.schemaname = current_schema() and c.relkind = 'r'
   and (s.relname = any(@tables::text[])
        or s.relid in (select h.inhrelid from pg_catalog.pg_inherits h where h.inhparent = to_regclass('messaging_outbox')));

-- name: ServerClock :one
select clock_timestamp()::timestamptz as now;

-- name: MissingRights :many
-- What a role, or whoever asks where it is '', lacks of a list of rights, each as 'privilege relation'. A right to insert or
-- to update some columns counts. A role that is not there lacks nothing.
select r.rolname::text as name, n.relation::text as relation, string_agg(n.privilege, ', ' order by n.place)::text as privileges
  from (select split_part(w.need, ' ', 1) as privilege, split_part(w.need, ' ', 2) as relation, w.place
          from unnest(@needs::text[]) with ordinality as w (need, place)) as n
  join pg_catalog.pg_roles r on r.rolname = coalesce(nullif(@role::text, ''), current_user)
 where not case when n.privilege in ('insert', 'update') then has_any_column_privilege(r.oid, n.relation, n.privilege)
                when n.privilege = 'execute' then has_function_privilege(r.oid, n.relation || '(text,uuid[],integer[],text,text)', n.privilege)
                else has_table_privilege(r.oid, n.relation, n.privilege) end
 group by r.rolname, n.relation order by min(n.place);

-- name: RangeState :one
-- Of a partitioned outbox: whether there is a range for the rows of the next one's time, and how many rows are in none, up to
-- @most. Of a plain one everything is well.
select (not exists (select from messaging_outbox_ranges()) or exists (
         select from messaging_outbox_ranges() r
          where r.upper > messaging_outbox_id_at(clock_timestamp()) and r.lower > messaging_outbox_id_at(clock_timestamp())))::boolean as ahead,
       (case when exists (select from messaging_outbox_ranges()) then
         (select count(*) from (select from messaging_outbox m where m.tableoid = to_regclass('messaging_outbox_default') limit @most) d)
        else 0 end)::bigint as astray;

-- name: KeptRanges :many
-- Past ranges whose ids are older than the retention time and in which something is not published: they cannot be dropped.
select r.name::text as name from messaging_outbox_ranges() r
 where r.upper < messaging_outbox_id_at(clock_timestamp() - @keep::interval)
   and (exists (select from messaging_outbox m where m.message_id >= r.lower and m.message_id < r.upper and m.status = 'PENDING')
     or exists (select from messaging_outbox m where m.message_id >= r.lower and m.message_id < r.upper and m.status in ('SCHEDULED', 'RETRYABLE_FAILURE', 'AMBIGUOUS') and m.next_attempt_at is not null)
     or exists (select from messaging_outbox m where m.message_id >= r.lower and m.message_id < r.upper and m.status in ('HELD', 'RETRYABLE_FAILURE', 'AMBIGUOUS') and m.ordering_key is not null)
     or exists (select from messaging_outbox m where m.message_id >= r.lower and m.message_id < r.upper and m.status = 'PARKED' and m.skipped_at is null)
     or exists (select from messaging_outbox m where m.message_id >= r.lower and m.message_id < r.upper and m.status = 'PARKED' and m.skipped_at is not null))
 order by 1 limit 20;

-- name: OddLanes :many
-- Lanes whose owner cannot be right, and expired ones that nobody takes although somebody could.
select l.destination::text as destination, l.lane, o.why::text as why
  from messaging_outbox_lane l left join messaging_outbox_relay r on r.id = l.owner
 cross join lateral (
    select case
        when l.owner is null and l.lease_until > clock_timestamp() then 'is leased to nobody'
        when l.owner is null then ''
        when l.lease_until > clock_timestamp() + l.lease_ttl + interval '1 second' then 'is leased for longer than its lease lasts'
        when l.lease_until > clock_timestamp() and r.id is null then 'belongs to a relay that is not in the fleet'
        when l.lease_until > clock_timestamp() and not l.destination = any(r.serves) then 'belongs to a relay that does not serve the destination'
        when l.lease_until < clock_timestamp() - 2 * greatest(l.lease_ttl, interval '30 seconds') and exists (
             select from messaging_outbox_relay a
              where a.state = 'RUNNING' and l.destination = any(a.serves)
                and a.heartbeat > clock_timestamp() - greatest(l.lease_ttl, interval '30 seconds')) then 'has expired, and no running relay takes it'
        else '' end as why) o
 where o.why <> '' order by l.destination, o.why, l.lane limit 1000;

-- name: MissingLanes :many
select d.destination::text as destination, count(l.lane)::integer as lanes
  from messaging_outbox_destination d left join messaging_outbox_lane l on l.destination = d.destination
 group by d.destination having count(l.lane) <> 16 order by d.destination limit 100;

-- name: UnservedWork :many
-- Registered destinations with rows to send that no running relay serves.
select d.destination::text as destination from messaging_outbox_destination d
 where not exists (
         select from messaging_outbox_relay r
          where r.state = 'RUNNING' and d.destination = any(r.serves)
            and r.heartbeat > clock_timestamp() - greatest(interval '30 seconds', (select max(t.lease_ttl) from messaging_outbox_lane t)))
   and exists (
         select from messaging_outbox_lane l
          where l.destination = d.destination
            and (exists (select from messaging_outbox m where m.lane = l.lane and m.status = 'PENDING')
              or exists (select from messaging_outbox m where m.lane = l.lane and m.status in ('SCHEDULED', 'RETRYABLE_FAILURE', 'AMBIGUOUS') and m.next_attempt_at is not null)
              or exists (select from messaging_outbox m where m.lane = l.lane and m.status in ('HELD', 'RETRYABLE_FAILURE', 'AMBIGUOUS') and m.ordering_key is not null)))
 order by d.destination limit 100;
