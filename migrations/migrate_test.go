package migrations_test

import (
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/migrations"
)

func TestUpDownUp(t *testing.T) {
	onEachMajor(t, func(t *testing.T, db *sql.DB) {
		known, err := migrations.Known()
		if err != nil {
			t.Fatal(err)
		}
		for round := range 2 {
			up, err := migrations.Up(t.Context(), db)
			if err != nil || len(up) != len(known) {
				t.Fatalf("round %d: up applied %v, %v; want %d migrations", round, up, err, len(known))
			}
			if again, err := migrations.Up(t.Context(), db); err != nil || len(again) != 0 {
				t.Fatalf("round %d: a second up applied %v, %v", round, again, err)
			}
			state, err := migrations.Status(t.Context(), db)
			if err != nil || state.Current != state.Latest || len(state.Migrations) != len(known) {
				t.Fatalf("round %d: status %+v, %v", round, state, err)
			}
			for _, m := range state.Migrations {
				if age := time.Since(m.AppliedAt); age < -time.Minute || age > 10*time.Minute {
					t.Errorf("round %d: %s was applied %v ago", round, m.Name, age)
				}
			}
			one, err := migrations.Down(t.Context(), db)
			if err != nil || len(one) != 1 || one[0].Version != known[len(known)-1].Version {
				t.Fatalf("round %d: down took back %v, %v", round, one, err)
			}
			if _, err := migrations.Status(t.Context(), db); !errors.Is(err, migrations.ErrSchemaOlder) {
				t.Fatalf("round %d: status after one down: %v", round, err)
			}
			rest, err := migrations.DownTo(t.Context(), db, 0)
			if err != nil || len(rest) != len(known)-1 {
				t.Fatalf("round %d: down to 0 took back %v, %v", round, rest, err)
			}
			left := queryOne[string](t, db, `
				select coalesce(string_agg(name, ' '), '') from (
					select relname::text as name from pg_class
						where relnamespace = current_schema()::regnamespace and relname not like 'messaging_schema_version%'
					union all select proname from pg_proc where pronamespace = current_schema()::regnamespace
					union all select typname from pg_type where typnamespace = current_schema()::regnamespace
						and typname not like '%messaging_schema_version') as objects`)
			if left != "" {
				t.Fatalf("round %d: down to 0 left %s", round, left)
			}
			if none, err := migrations.Down(t.Context(), db); err != nil || len(none) != 0 {
				t.Fatalf("round %d: down with nothing left: %v, %v", round, none, err)
			}
		}
	})
}

func TestDownKeepsUnpublishedMessages(t *testing.T) {
	onEachMajor(t, func(t *testing.T, db *sql.DB) {
		migrate(t, db)
		exec(t, db, `select messaging_outbox_add('orders', 'order.created', 'shop', 'x')`)
		if _, err := migrations.DownTo(t.Context(), db, 0); err == nil {
			t.Fatal("the outbox was dropped with a message in it")
		}
		if n := queryOne[int](t, db, `select count(*) from messaging_outbox`); n != 1 {
			t.Fatalf("%d rows left, want 1", n)
		}
		// What was taken back before the refusal comes again, and the message with it.
		migrate(t, db)
		if n := queryOne[int](t, db, `select count(*) from messaging_outbox_status`); n != 1 {
			t.Fatalf("%d rows in the view, want 1", n)
		}
	})
}

func TestUpFromManyProcessesAtOnce(t *testing.T) {
	onEachMajor(t, func(t *testing.T, db *sql.DB) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		total := 0
		for range 8 {
			wg.Go(func() {
				done, err := migrations.Up(t.Context(), db)
				if err != nil {
					t.Errorf("up: %v", err)
				}
				mu.Lock()
				defer mu.Unlock()
				total += len(done)
			})
		}
		wg.Wait()
		if known, _ := migrations.Known(); total != len(known) {
			t.Errorf("8 processes applied %d migrations, want each of %d once", total, len(known))
		}
	})
}

func TestStatusTellsMissingFromNewer(t *testing.T) {
	onEachMajor(t, func(t *testing.T, db *sql.DB) {
		if _, err := migrations.Status(t.Context(), db); !errors.Is(err, migrations.ErrSchemaMissing) {
			t.Fatalf("empty schema: %v", err)
		}
		if n := queryOne[int](t, db, `select count(*) from pg_class where relnamespace = current_schema()::regnamespace`); n != 0 {
			t.Fatalf("asking for the status created %d objects", n)
		}
		migrate(t, db)
		exec(t, db, `insert into messaging_schema_version (version_id, is_applied) values (99999, true)`)
		state, err := migrations.Status(t.Context(), db)
		if !errors.Is(err, migrations.ErrSchemaNewer) || state.Current != 99999 {
			t.Fatalf("newer schema: %+v, %v", state, err)
		}
	})
}

// Taking back everything is refused at once, not after the guards, the lanes and the inbox are gone.
func TestDownToNothingIsRefusedWhole(t *testing.T) {
	db, _ := openSchema(t, "17", "refused")
	migrate(t, db)
	exec(t, db, minimal.insert())
	if done, err := migrations.DownTo(t.Context(), db, 0); !errors.Is(err, migrations.ErrUnpublished) || len(done) != 0 {
		t.Fatalf("took back %v, %v", done, err)
	}
	if state, err := migrations.Status(t.Context(), db); err != nil || state.Current != state.Latest {
		t.Errorf("status %+v, %v", state, err)
	}
}

// An older program that is told to migrate says what is wrong, instead of "nothing to do" or a riddle.
func TestNewerSchemaIsLeftAlone(t *testing.T) {
	db, _ := openSchema(t, "17", "newer")
	migrate(t, db)
	exec(t, db, `insert into messaging_schema_version (version_id, is_applied) values (99999, true)`)
	for name, migrate := range map[string]func() ([]migrations.Migration, error){
		"up":      func() ([]migrations.Migration, error) { return migrations.Up(t.Context(), db) },
		"down":    func() ([]migrations.Migration, error) { return migrations.Down(t.Context(), db) },
		"down to": func() ([]migrations.Migration, error) { return migrations.DownTo(t.Context(), db, 0) },
	} {
		if done, err := migrate(); !errors.Is(err, migrations.ErrSchemaNewer) || len(done) != 0 {
			t.Errorf("%s: did %v, %v", name, done, err)
		}
	}
	if n := queryOne[int](t, db, `select count(*) from messaging_outbox`); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func TestUpRefusesToShadowAnInstalledSchema(t *testing.T) {
	db, config := openSchema(t, "17", "shadowed")
	migrate(t, db)
	front, _ := openSchema(t, "17", "front")
	exec(t, front, `select 1`)
	config = config.Copy()
	config.RuntimeParams["search_path"] = "front, shadowed"
	both := open(t, config)
	if _, err := migrations.Up(t.Context(), both); !errors.Is(err, migrations.ErrForeignSchema) {
		t.Errorf("up in front of an installed schema: %v", err)
	}
	config = config.Copy()
	config.RuntimeParams["search_path"] = "no_such_schema"
	if _, err := migrations.Up(t.Context(), open(t, config)); !errors.Is(err, migrations.ErrNoSchema) {
		t.Errorf("up without a schema: %v", err)
	}
}

func migrate(t *testing.T, db *sql.DB) {
	t.Helper()
	if _, err := migrations.Up(t.Context(), db); err != nil {
		t.Fatal(err)
	}
}

// A new outbox can be made of ranges, by any number of processes at once, and goes again as it came. A plain one is left
// alone.
func TestUpPartitioned(t *testing.T) {
	onEachMajor(t, func(t *testing.T, db *sql.DB) {
		known, _ := migrations.Known()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if _, err := migrations.UpPartitioned(t.Context(), db, 24*time.Hour); err != nil {
					t.Errorf("up: %v", err)
				}
			})
		}
		wg.Wait()
		if kind := queryOne[string](t, db, `select relkind::text from pg_class where oid = 'messaging_outbox'::regclass`); kind != "p" {
			t.Fatalf("the outbox is of kind %s, want p", kind)
		}
		if n := queryOne[int](t, db, `select count(*) from messaging_outbox_ranges()`); n != 1 {
			t.Errorf("%d ranges, want 1", n)
		}
		if again, err := migrations.Up(t.Context(), db); err != nil || len(again) != 0 {
			t.Errorf("up on a partitioned outbox applied %v, %v", again, err)
		}
		exec(t, db, minimal.insert())
		if _, err := migrations.DownTo(t.Context(), db, 0); !errors.Is(err, migrations.ErrUnpublished) {
			t.Errorf("down with a message: %v", err)
		}
		exec(t, db, `delete from messaging_outbox`)
		if down, err := migrations.DownTo(t.Context(), db, 0); err != nil || len(down) != len(known) {
			t.Fatalf("down to 0 took back %v, %v", down, err)
		}
		if left := queryOne[int](t, db, `select count(*) from pg_class where relnamespace = current_schema()::regnamespace and relname like '%outbox%'`); left != 0 {
			t.Errorf("down to 0 left %d relations", left)
		}

		migrate(t, db)
		if _, err := migrations.UpPartitioned(t.Context(), db, 24*time.Hour); !errors.Is(err, migrations.ErrPlain) {
			t.Errorf("a plain outbox: %v", err)
		}
		if kind := queryOne[string](t, db, `select relkind::text from pg_class where oid = 'messaging_outbox'::regclass`); kind != "r" {
			t.Errorf("a plain outbox became %s", kind)
		}
		if _, err := migrations.UpPartitioned(t.Context(), db, time.Second); err == nil {
			t.Error("a range of a second was accepted")
		}
	})
}
