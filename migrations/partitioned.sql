-- Turns the new, empty table of the first migration into ranges of ids. The plain table becomes the DEFAULT partition, so
-- that every setting of it lives on; indexes and settings of the ranges to come are copied from it. %[1]d is the width of
-- a range in milliseconds.
do $$
declare
    width constant bigint := %[1]d;
    first bigint := extract(epoch from clock_timestamp())::bigint * 1000 / width * width;
    definitions text[];
    i record;
begin
    perform pg_advisory_xact_lock(%[2]s);
    if (select c.relkind from pg_catalog.pg_class c where c.oid = 'messaging_outbox'::regclass) = 'p' then
        return; -- another process was faster
    end if;
    lock table messaging_outbox in access exclusive mode;
    if exists (select from messaging_outbox)
        or exists (select from messaging_schema_version v where v.version_id > 1 and v.is_applied) then
        raise exception 'messaging_outbox exists as a plain table' using errcode = 'object_in_use';
    end if;

    select array_agg(pg_get_indexdef(x.indexrelid)) into definitions from pg_catalog.pg_index x
     where x.indrelid = 'messaging_outbox'::regclass and not x.indisprimary;
    alter table messaging_outbox rename to messaging_outbox_default;
    for i in select x.indexrelid::regclass as name, c.relname from pg_catalog.pg_index x join pg_catalog.pg_class c on c.oid = x.indexrelid
              where x.indrelid = 'messaging_outbox_default'::regclass
    loop
        execute format('alter index %%s rename to %%I', i.name, i.relname || '_default');
    end loop;

    -- PostgreSQL 16 has no identity columns in partitioned tables: a sequence gives the numbers.
    alter table messaging_outbox_default alter column seq drop identity;
    create sequence messaging_outbox_seq_seq as bigint cache 1;
    create table messaging_outbox (
        like messaging_outbox_default including defaults including generated including storage including compression including comments
    ) partition by range (message_id);
    alter table messaging_outbox alter column seq set default nextval('messaging_outbox_seq_seq');
    alter sequence messaging_outbox_seq_seq owned by messaging_outbox.seq;
    alter table messaging_outbox add constraint messaging_outbox_pkey primary key (message_id) with (fillfactor = 60);
    for n in 1 .. array_length(definitions, 1) loop
        execute definitions[n];
    end loop;
    alter table messaging_outbox attach partition messaging_outbox_default default;

    -- The first range; what comes after it is as wide.
    execute format('create table %%I partition of messaging_outbox for values from (%%L) to (%%L) with (%%s)',
        'messaging_outbox_p' || to_char(to_timestamp(first / 1000.0) at time zone 'UTC', 'YYYYMMDD_HH24MI'),
        (lpad(to_hex(first), 12, '0') || repeat('0', 20))::uuid, (lpad(to_hex(first + width), 12, '0') || repeat('0', 20))::uuid,
        (select array_to_string(c.reloptions, ', ') from pg_catalog.pg_class c where c.oid = 'messaging_outbox_default'::regclass));
end
$$;
