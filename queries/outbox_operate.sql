-- Operations of people on rows: the function of the schema does the work, with lock order, checks and audit.

-- name: Operate :many
select r.message_id::uuid as message_id, r.result::text as result, coalesce(r.status, '')::text as status, coalesce(r.version, 0)::integer as version
  from messaging_outbox_operate(@verb::text, @ids::uuid[], @versions::integer[], @reason::text, @actor::text) as r;
