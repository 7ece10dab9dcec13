-- name: InboxReserve :execrows
-- The reservation comes first in the transaction of the side effect. It waits for another open try of the same message,
-- as long as @lock_wait says (a value of lock_timeout, empty for the session's own); after it the session's own
-- lock_timeout holds again. Zero rows mean that another try has committed.
with bound as materialized (
    select own.lock_timeout, set_config('lock_timeout', coalesce(nullif(@lock_wait::text, ''), own.lock_timeout), true) as set
    from (select current_setting('lock_timeout') as lock_timeout offset 0) as own
)
insert into messaging_inbox (consumer_name, message_id, message_type, payload_hash, expires_at)
select @consumer_name::text, cast(@message_id::text as uuid), @message_type::text, @payload_hash::text,
       clock_timestamp() + cast(@retention_seconds as double precision) * interval '1 second'
from bound where bound.set is not null
on conflict (consumer_name, message_id) do nothing
returning set_config('lock_timeout', (select bound.lock_timeout from bound), true);

-- name: InboxPayloadHash :one
select payload_hash from messaging_inbox where consumer_name = @consumer_name::text and message_id = cast(@message_id::text as uuid);

-- name: InboxMark :exec
update messaging_inbox set processed_at = clock_timestamp()
where consumer_name = @consumer_name::text and message_id = cast(@message_id::text as uuid);
