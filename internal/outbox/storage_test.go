package outbox_test

import (
	"strings"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/outbox"
)

// What the page says is what the server says: sizes, dead rows, who holds them, and what retention has before it.
func TestStorage(t *testing.T) {
	t.Parallel()
	dbtest.Majors(t, func(t *testing.T, major int) {
		db := dbtest.New(t, dbtest.Major(major), dbtest.OwnDatabase())
		store := outbox.New(db.Pool, outbox.Config{})
		read := func() outbox.Storage {
			s, err := store.Storage(t.Context(), week)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		table := func(s outbox.Storage, name string) outbox.TableStorage {
			for _, table := range s.Tables {
				if table.Name == name {
					return table
				}
			}
			t.Fatalf("no %s among %v", name, s.Tables)
			return outbox.TableStorage{}
		}
		before := read()
		if len(before.Tables) != 4 || !before.SessionsVisible || time.Since(before.AsOf).Abs() > time.Hour || before.Backlog != (outbox.Backlog{}) {
			t.Errorf("an empty schema: %+v", before)
		}
		if last := table(before, "messaging_outbox").LastVacuum; !last.IsZero() {
			t.Errorf("vacuumed at %v", last)
		}

		if _, err := db.Exec(t.Context(), `alter table messaging_outbox set (autovacuum_enabled = off)`); err != nil {
			t.Fatal(err)
		}
		aged(t, db, 3000, 8*24*time.Hour)
		if _, err := db.Exec(t.Context(), `select pg_stat_force_next_flush()`); err != nil { // the session may be the one that is held next
			t.Fatal(err)
		}
		tx, err := db.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(t.Context()) // it only ends the transaction
		if _, err := tx.Exec(t.Context(), `select pg_current_xact_id()`); err != nil {
			t.Fatal(err)
		}
		var pid string
		if err := tx.QueryRow(t.Context(), `select pg_backend_pid()::text`).Scan(&pid); err != nil {
			t.Fatal(err)
		}
		brokertest.Eventually(t, 20*time.Second, "the statistics arrive", func() bool { return table(read(), "messaging_outbox").Dead >= 2000 })
		s := read()
		found := false
		for _, h := range s.Snapshots {
			found = found || h.Kind == outbox.SnapshotSession && strings.Contains(h.Holder, "process "+pid+", idle in transaction") && h.Age > 0 && h.Transactions > 0
		}
		if !found {
			t.Errorf("process %s is not among %+v", pid, s.Snapshots)
		}
		if now, old := table(s, "messaging_outbox"), table(before, "messaging_outbox"); now.TableBytes <= old.TableBytes || now.IndexBytes <= old.IndexBytes {
			t.Errorf("%+v, before %+v", now, old)
		}
		if b := s.Backlog; b.Rows != 3000 || b.More || b.Overdue < 23*time.Hour || b.Overdue > 25*time.Hour {
			t.Errorf("backlog %+v, want 3000 rows that are due for a day", b)
		}

		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Prune(t.Context(), outbox.Retention{Keep: week}, func(outbox.Page) {}); err != nil {
			t.Fatal(err)
		}
		brokertest.Eventually(t, 20*time.Second, "vacuum and retention show", func() bool {
			// Again, for other tests of this database have snapshots too.
			if _, err := db.Exec(t.Context(), `vacuum messaging_outbox`); err != nil {
				t.Fatal(err)
			}
			s := read()
			return s.Backlog == (outbox.Backlog{}) && table(s, "messaging_outbox").Dead == 0 && !table(s, "messaging_outbox").LastVacuum.IsZero()
		})
	})
}
