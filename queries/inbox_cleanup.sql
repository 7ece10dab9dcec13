-- name: InboxPrune :execrows
-- Another process that prunes at the same time takes other rows.
with due as (
    select i.consumer_name, i.message_id from messaging_inbox as i
    where i.expires_at <= now()
    order by i.expires_at
    limit @batch::integer
    for update skip locked
)
delete from messaging_inbox as i using due
where i.consumer_name = due.consumer_name and i.message_id = due.message_id;

-- name: InboxStats :many
select consumer_name, count(*) as messages, count(*) filter (where expires_at <= now()) as expired,
       min(received_at)::timestamptz as oldest, max(received_at)::timestamptz as newest
from messaging_inbox
group by consumer_name
order by consumer_name;
