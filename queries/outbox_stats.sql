-- Statistics for the actuator and the command line. Open rows are counted over the partial indexes; published rows
-- are counted exactly while the table is small and estimated from the planner's statistics above that.

-- name: CountOpen :many
select l.destination::text as destination, m.status::text as status, count(*)::bigint as rows
  from messaging_outbox m left join messaging_outbox_lane l on l.lane = m.lane
 where m.status <> 'PUBLISHED'
 group by 1, 2;
