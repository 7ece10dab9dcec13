-- Ranges of ids, for an outbox that was made with them; a plain one has none, and the functions do nothing. Ids begin with
-- the time of their making, so a range is a span of time. To make and to drop one is the owner's right: the relays get it
-- by these two functions alone.

-- +goose Up

-- Smaller than every id made at that time or later, and greater than every earlier one.
-- +goose StatementBegin
create function messaging_outbox_id_at(at timestamptz) returns uuid
    language sql immutable strict parallel safe
begin atomic
    select (pg_catalog.lpad(pg_catalog.to_hex(pg_catalog.floor(extract(epoch from at) * 1000)::bigint), 12, '0')
        || pg_catalog.repeat('0', 20))::uuid;
end;
-- +goose StatementEnd

-- The ranges in their order, from lower on and up to but without upper; the DEFAULT partition is none.
-- +goose StatementBegin
create function messaging_outbox_ranges() returns table (name text, lower uuid, upper uuid)
    language sql stable
begin atomic
    select c.relname::text, b.bounds[1]::uuid, b.bounds[2]::uuid
      from pg_catalog.pg_inherits i
      join pg_catalog.pg_class c on c.oid = i.inhrelid
      join pg_catalog.pg_class p on p.oid = i.inhparent
      join pg_catalog.pg_namespace n on n.oid = p.relnamespace
     cross join lateral pg_catalog.regexp_match(
           pg_catalog.pg_get_expr(c.relpartbound, c.oid), 'FROM \(''(.+)''\) TO \(''(.+)''\)') as b (bounds)
     where p.relname = 'messaging_outbox' and n.nspname = pg_catalog.current_schema() and b.bounds is not null
     order by 2;
end;
-- +goose StatementEnd

-- messaging_outbox_add_ranges makes the range of now and so many after it, each as wide as the last one, and tells how many
-- it made. Where rows of a range are in the DEFAULT partition already, they stay there and the range is left out.
-- +goose StatementBegin
create function messaging_outbox_add_ranges(ahead integer) returns integer
    language plpgsql security definer
    set lock_timeout = '200ms'
as $$
declare
    width bigint;
    begins bigint;
    this_moment bigint := extract(epoch from clock_timestamp())::bigint * 1000;
    made integer := 0;
    settings text := (select array_to_string(c.reloptions, ', ') from pg_catalog.pg_class c where c.oid = to_regclass('messaging_outbox_default'));
    name text;
    reader regrole;
begin
    select ('x' || left(replace(r.upper::text, '-', ''), 12))::bit(48)::bigint,
           ('x' || left(replace(r.upper::text, '-', ''), 12))::bit(48)::bigint - ('x' || left(replace(r.lower::text, '-', ''), 12))::bit(48)::bigint
      into begins, width from messaging_outbox_ranges() r order by r.upper desc limit 1;
    if not found then
        return 0;
    end if;
    begins := greatest(begins, this_moment / width * width);
    while begins < this_moment + width * ahead loop
        name := 'messaging_outbox_p' || to_char(to_timestamp(begins / 1000.0) at time zone 'UTC', 'YYYYMMDD_HH24MI');
        begin
            execute format('create table %I (like messaging_outbox including defaults including generated including constraints '
                'including storage including compression including comments) with (%s)', name, coalesce(settings, 'fillfactor = 50'));
            execute format('alter table messaging_outbox attach partition %I for values from (%L) to (%L)', name,
                messaging_outbox_id_at(to_timestamp(begins / 1000.0)), messaging_outbox_id_at(to_timestamp((begins + width) / 1000.0)));
            -- Statistics are shown to those who may read the range itself.
            for reader in
                select distinct a.grantee::regrole from pg_catalog.pg_class c cross join lateral aclexplode(c.relacl) a
                 where c.oid = to_regclass('messaging_outbox') and a.privilege_type = 'SELECT' and a.grantee <> 0 and a.grantee <> c.relowner
            loop
                execute format('grant select on %I to %s', name, reader);
            end loop;
            made := made + 1;
        exception when check_violation then
            null;
        end;
        begins := begins + width;
    end loop;
    return made;
end
$$;
-- +goose StatementEnd

-- messaging_outbox_drop_range drops a past range in which nothing unpublished is left, or with only_empty nothing at all, and
-- tells whether it did. The lock is taken in the order in which everybody else takes it, and is not waited for long, because
-- everybody would wait behind it. It looks by the indexes that know unpublished rows, for it looks under that lock.
-- +goose StatementBegin
create function messaging_outbox_drop_range(range text, only_empty boolean) returns boolean
    language plpgsql security definer
    set lock_timeout = '200ms'
    set enable_seqscan = off
as $$
declare
    busy boolean;
begin
    lock table only messaging_outbox in access exclusive mode;
    if not exists (select from messaging_outbox_ranges() r where r.name = range and r.upper < messaging_outbox_id_at(clock_timestamp())) then
        return false;
    end if;
    if only_empty then
        execute format('select exists (select from %I)', range) into busy;
    else
        execute format('select exists (select from %1$I where status = ''PENDING'')'
            ' or exists (select from %1$I where status in (''SCHEDULED'', ''RETRYABLE_FAILURE'', ''AMBIGUOUS'') and next_attempt_at is not null)'
            ' or exists (select from %1$I where status in (''HELD'', ''RETRYABLE_FAILURE'', ''AMBIGUOUS'') and ordering_key is not null)'
            ' or exists (select from %1$I where status = ''PARKED'' and skipped_at is null)'
            ' or exists (select from %1$I where status = ''PARKED'' and skipped_at is not null)', range) into busy;
    end if;
    if busy then
        return false;
    end if;
    execute format('drop table %I', range);
    return true;
end
$$;
-- +goose StatementEnd

-- They work for their owner, so nobody may put tables of his own before the outbox.
-- +goose StatementBegin
do $$
declare
    f text;
begin
    foreach f in array array['messaging_outbox_add_ranges(integer)', 'messaging_outbox_drop_range(text, boolean)'] loop
        execute format('alter function %s set search_path = %I, pg_temp', f, current_schema());
        execute format('revoke execute on function %s from public', f);
    end loop;
end
$$;
-- +goose StatementEnd

-- +goose Down
drop function messaging_outbox_drop_range(text, boolean);
drop function messaging_outbox_add_ranges(integer);
drop function messaging_outbox_ranges();
drop function messaging_outbox_id_at(timestamptz);
