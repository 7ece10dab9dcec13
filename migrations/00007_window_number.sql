-- A statement that its relay gave up (timeout, cut connection, server paused) may still be run, under a lease that goes on.
-- Each statement about a lane's window has a number, and matches only where no later one has been written: 0 is a lane
-- that was just taken, 1 one whose former owner's window is taken over, what follows are the owner's own.

-- +goose Up
alter table messaging_outbox_lane
    add column window_no bigint not null default 0,
    add constraint messaging_outbox_lane_window_no_positive check (window_no >= 0);

-- +goose Down
alter table messaging_outbox_lane drop column window_no;
