package torture

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// audit keeps every change of a row with the process that made it and the one that held the row's lane. Processes are
// told apart by the application name of their connections. The holder is read while the writer's own locks on the lane
// stand, so that a change of hands meanwhile is no excuse.
const audit = `
create table torture_holder (relay uuid primary key, process text not null);
create table torture_change (
    number bigint generated always as identity, message_id uuid not null, from_status text not null, to_status text not null,
    attempts integer not null, ambiguous integer not null, process text not null, holder text not null,
    version_before integer not null, version_after integer not null, crashes integer not null, skipped boolean not null,
    transaction xid8 not null default pg_current_xact_id(),
    at timestamptz not null default clock_timestamp(), code text);

create function torture_note_holder() returns trigger language plpgsql set search_path from current as $$
begin
    insert into torture_holder values (new.owner, current_setting('application_name')) on conflict do nothing;
    return null;
end $$;
create trigger torture_note_holder after update of owner on messaging_outbox_lane for each row
    when (new.owner is not null and new.owner is distinct from old.owner) execute function torture_note_holder();

create function torture_note_change() returns trigger language plpgsql set search_path from current as $$
begin
    insert into torture_change (message_id, from_status, to_status, attempts, ambiguous, process, holder, version_before, version_after, code, crashes, skipped)
    values (new.message_id, old.status, new.status, new.attempts - old.attempts, new.ambiguous_attempts - old.ambiguous_attempts,
        current_setting('application_name'),
        coalesce((select h.process from messaging_outbox_lane l join torture_holder h on h.relay = l.owner where l.lane = new.lane), ''),
        old.version, new.version, new.last_failure_code, new.crash_attempts - old.crash_attempts, new.skipped_at is not null);
    return null;
end $$;
create trigger torture_note_change after update on messaging_outbox for each row execute function torture_note_change();
`

// read takes what the database knows into the history.
func (h *History) read(ctx context.Context, db *pgxpool.Pool) error {
	rows, err := db.Query(ctx, `select message_id::text, seq, destination, status::text, coalesce(last_outcome::text, ''), coalesce(last_failure_code, ''),
	    attempts, ambiguous_attempts, first_ambiguous_at is not null, published_at is not null, crash_attempts from messaging_outbox`)
	if err == nil {
		h.Rows, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Row])
	}
	if err != nil {
		return fmt.Errorf("read the rows: %w", err)
	}
	rows, err = db.Query(ctx, `select at, message_id::text, coalesce(code, ''), from_status, to_status, attempts, ambiguous, crashes, skipped,
	    transaction::text, process, holder, version_before, version_after
	    from torture_change order by number`)
	if err == nil {
		h.Changes, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Change])
	}
	if err != nil {
		return fmt.Errorf("read the changes: %w", err)
	}
	return nil
}
