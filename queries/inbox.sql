-- name: InboxReserve :execrows
-- The reservation comes first in the transaction of the side effect. It waits for another open try of the same
-- message; zero rows mean that one has committed.
insert into messaging_inbox (consumer_name, message_id, message_type, payload_hash, expires_at)
values (@consumer_name, @message_id, @message_type, @payload_hash, clock_timestamp() + @retention::interval)
on conflict (consumer_name, message_id) do nothing;
