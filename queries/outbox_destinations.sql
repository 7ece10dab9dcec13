-- name: DestinationsRegister :exec
select messaging_outbox_register(@destinations::text[]);
