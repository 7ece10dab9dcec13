package outbox_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/outbox"
)

// partitioned is an outbox of ranges of an hour, seen with the rights of a relay.
type partitioned struct {
	t     *testing.T
	db    *dbtest.DB
	store *outbox.Store
}

func newPartitioned(t *testing.T, major int) partitioned {
	t.Helper()
	db := dbtest.New(t, dbtest.Major(major), dbtest.Ranges(time.Hour))
	return partitioned{t, db, outbox.New(db.As(t, dbtest.Worker), outbox.Config{LeaseTTL: 10 * time.Second})}
}

func (p partitioned) exec(sql string, args ...any) {
	p.t.Helper()
	if _, err := p.db.Exec(context.WithoutCancel(p.t.Context()), sql, args...); err != nil {
		p.t.Fatal(err)
	}
}

func (p partitioned) number(sql string, args ...any) (n int) {
	p.t.Helper()
	if err := p.db.QueryRow(p.t.Context(), sql, args...).Scan(&n); err != nil {
		p.t.Fatal(err)
	}
	return n
}

// add writes n messages with ids of that time, with the rights of a service.
func (p partitioned) add(at time.Time, n int) {
	p.t.Helper()
	_, err := p.db.As(p.t, dbtest.Writer).Exec(p.t.Context(), `
		select messaging_outbox_add('orders', 'order.created', 'shop', '{}', message_id =>
		  (left(messaging_outbox_id_at($1)::text, 13) || '-7000-8000-' || lpad(to_hex((random() * 1e14)::bigint), 12, '0'))::uuid)
		  from generate_series(1, $2)`, at, n)
	if err != nil {
		p.t.Fatal(err)
	}
}

// past makes a range of an hour that began so many hours ago, as if relays had made it then.
func (p partitioned) past(hours int) (name string, begins time.Time) {
	p.t.Helper()
	begins = time.Now().Add(-time.Duration(hours) * time.Hour).Truncate(time.Hour)
	name = "messaging_outbox_p" + begins.UTC().Format("20060102_1504")
	var from, to string
	if err := p.db.QueryRow(p.t.Context(), `select messaging_outbox_id_at($1)::text, messaging_outbox_id_at($2)::text`, begins, begins.Add(time.Hour)).Scan(&from, &to); err != nil {
		p.t.Fatal(err)
	}
	p.exec(fmt.Sprintf(`create table %s partition of messaging_outbox for values from ('%s') to ('%s') with (fillfactor = 50)`, name, from, to))
	return name, begins
}

func (p partitioned) has(table string) bool {
	p.t.Helper()
	return p.number(`select count(*) from pg_class where oid = to_regclass($1)`, table) == 1
}

func (p partitioned) tend(r outbox.Retention) (rows int64) {
	p.t.Helper()
	if err := p.store.TendRanges(p.t.Context(), r, func(page outbox.Page) { rows += page.Rows }); err != nil {
		p.t.Fatal(err)
	}
	return rows
}

const published = `update messaging_outbox set status = 'PUBLISHED', published_at = $1 where status = 'PENDING'`

// The next ranges are there before their time, an id of any other time is taken all the same, and an id stays unique in all.
func TestRangesAreMadeAheadAndTakeEveryID(t *testing.T) {
	t.Parallel()
	dbtest.Majors(t, func(t *testing.T, major int) {
		p := newPartitioned(t, major)
		p.tend(outbox.Retention{})
		if n := p.number(`select count(*) from messaging_outbox_ranges()`); n < 3 || n > 5 {
			t.Errorf("%d ranges", n)
		}
		if n := p.number(`select count(*) from messaging_outbox_ranges() r where r.lower > messaging_outbox_id_at(now() + interval '1 hour')`); n == 0 {
			t.Error("no range begins later than in an hour")
		}
		for _, at := range []time.Duration{-365 * 24 * time.Hour, 0, 2 * time.Hour, 365 * 24 * time.Hour} {
			p.add(time.Now().Add(at), 10)
		}
		if n := p.number(`select count(*) from messaging_outbox_default`); n != 20 {
			t.Errorf("%d rows of a wrong clock are in the default partition, want 20", n)
		}
		if n := p.number(`select count(distinct seq) from messaging_outbox where lane is not null and payload_hash like 'sha-256:%'`); n != 40 {
			t.Errorf("%d complete rows with a number of their own, want 40", n)
		}
		_, err := p.db.Exec(t.Context(), `insert into messaging_outbox (message_id, destination, message_type, producer, payload)
			select message_id, destination, message_type, producer, payload from messaging_outbox_default limit 1`)
		if err == nil || !strings.Contains(err.Error(), "duplicate key") {
			t.Errorf("the same id again: %v", err)
		}
		p.exec(published, time.Now().Add(-48*time.Hour))
		p.tend(outbox.Retention{Keep: time.Hour})
		if _, err := p.store.Prune(t.Context(), outbox.Retention{Keep: time.Hour}, func(outbox.Page) {}); err != nil {
			t.Fatal(err)
		}
		if n := p.number(`select count(*) from messaging_outbox_default`); n != 0 {
			t.Errorf("%d published rows stay in the default partition", n)
		}
	})
}

// Rows of a range that nobody made in time are in the DEFAULT partition: the ranges after it are made all the same.
func TestRangesAreMadeAfterAGap(t *testing.T) {
	t.Parallel()
	p := newPartitioned(t, 17)
	p.exec(`do $$ declare r record; begin for r in select name from messaging_outbox_ranges() loop execute format('drop table %I', r.name); end loop; end $$`)
	p.past(5)
	p.add(time.Now(), 3)
	p.tend(outbox.Retention{})
	if n := p.number(`select count(*) from messaging_outbox_ranges() r where r.lower > messaging_outbox_id_at(now())`); n == 0 {
		t.Error("no range is ahead")
	}
	if n := p.number(`select count(*) from messaging_outbox_default`); n != 3 {
		t.Errorf("%d rows in the default partition, want 3", n)
	}
}

// A range goes as a whole when all of it is published for long enough; one row that is not keeps it, and the rows around it
// go one by one.
func TestRangesAreDroppedWhole(t *testing.T) {
	t.Parallel()
	dbtest.Majors(t, func(t *testing.T, major int) {
		p := newPartitioned(t, major)
		done, at := p.past(10)
		p.add(at.Add(time.Minute), 500)
		late, at := p.past(9)
		p.add(at.Add(time.Minute), 5)
		p.exec(published, time.Now().Add(-5*time.Hour))
		p.exec(`update ` + late + ` set published_at = now() where message_id = (select message_id from ` + late + ` limit 1)`)
		open, at := p.past(8)
		p.add(at.Add(time.Minute), 6)
		p.exec(published, time.Now().Add(-5*time.Hour))
		p.exec(`update ` + open + ` set status = 'PARKED' where message_id = (select message_id from ` + open + ` limit 1)`)
		young, at := p.past(2)
		p.add(at.Add(time.Minute), 5)
		p.exec(published, time.Now().Add(-2*time.Hour))

		keep := outbox.Retention{Keep: 4 * time.Hour, Batch: 100}
		if rows := p.tend(keep); rows != 500 {
			t.Errorf("%d rows went with their ranges, want 500", rows)
		}
		for table, want := range map[string]bool{done: false, late: true, open: true, young: true} {
			if p.has(table) != want {
				t.Errorf("%s is there: %v, want %v", table, !want, want)
			}
		}
		if _, err := p.store.Prune(t.Context(), keep, func(outbox.Page) {}); err != nil {
			t.Fatal(err)
		}
		if n := p.number(`select count(*) from messaging_outbox`); n != 7 {
			t.Errorf("%d rows stay, want the one that was published late, the parked one and five young ones", n)
		}
		if got := evidence(t, p.store, outbox.Limits{Keep: 4 * time.Hour, Overdue: time.Minute}, malady{code: outbox.FindingRangeKept, evidence: open}); got == "" {
			t.Error("the doctor does not name the range that is kept")
		}
		p.exec(`delete from messaging_outbox where status = 'PARKED'`)
		p.tend(keep)
		if p.has(open) {
			t.Error("a range without rows stays")
		}
	})
}

// With an archive, rows move there one by one, and a range goes when it is empty.
func TestRangesAreDroppedEmptyWithAnArchive(t *testing.T) {
	t.Parallel()
	p := newPartitioned(t, 18)
	done, at := p.past(10)
	p.add(at.Add(time.Minute), 50)
	p.exec(published, time.Now().Add(-5*time.Hour))
	keep := outbox.Retention{Keep: time.Hour, Archive: true}
	p.tend(keep)
	if !p.has(done) {
		t.Fatal("a range with rows was dropped before they were archived")
	}
	if _, err := p.store.Prune(t.Context(), keep, func(outbox.Page) {}); err != nil {
		t.Fatal(err)
	}
	p.tend(keep)
	if n := p.number(`select count(*) from messaging_outbox_archive`); p.has(done) || n != 50 {
		t.Errorf("the range is there: %v; %d rows in the archive, want 50", p.has(done), n)
	}
}

// A transaction that uses the table for long does not make anybody wait: the drop gives up and is tried again later.
func TestADropMakesNobodyWait(t *testing.T) {
	t.Parallel()
	p := newPartitioned(t, 16)
	done, at := p.past(10)
	p.add(at.Add(time.Minute), 5)
	p.exec(published, time.Now().Add(-5*time.Hour))
	reader, err := p.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Rollback(context.WithoutCancel(t.Context())) }()
	if _, err := reader.Exec(t.Context(), `select count(*) from messaging_outbox`); err != nil {
		t.Fatal(err)
	}
	tended := make(chan error, 1)
	go func() {
		tended <- p.store.TendRanges(t.Context(), outbox.Retention{Keep: time.Hour}, func(outbox.Page) {})
	}()
	writers := p.db.As(t, dbtest.Writer)
	var longest time.Duration
	for waiting := true; waiting; {
		began := time.Now()
		if _, err := writers.Exec(t.Context(), `select messaging_outbox_add('orders', 'order.created', 'shop', '{}')`); err != nil {
			t.Fatal(err)
		}
		longest = max(longest, time.Since(began))
		select {
		case err := <-tended:
			if err != nil {
				t.Error(err)
			}
			waiting = false
		default:
		}
	}
	if most := 4 * time.Second; longest > most {
		t.Errorf("a writer waited for %v", longest)
	}
	if !p.has(done) {
		t.Error("the range was dropped under a transaction that reads it")
	}
	if err := reader.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.tend(outbox.Retention{Keep: time.Hour})
	if p.has(done) {
		t.Error("the range stays although nobody uses it")
	}
}

// The doctor tells where no range is ahead and where rows are in none; of a plain outbox it says neither.
func TestDiagnoseFindsRanges(t *testing.T) {
	t.Parallel()
	missing, astray := malady{code: outbox.FindingRangesMissing}, malady{code: outbox.FindingRowsAstray, evidence: "2 rows"}
	p := newPartitioned(t, 17)
	p.exec(`do $$ declare r record; begin for r in select name from messaging_outbox_ranges() loop execute format('drop table %I', r.name); end loop; end $$`)
	p.past(5)
	p.add(time.Now(), 2)
	for _, m := range []malady{missing, astray} {
		if evidence(t, p.store, outbox.Limits{}, m) == "" {
			t.Errorf("%s was not found", m.code)
		}
	}
	p.tend(outbox.Retention{})
	p.exec(`delete from messaging_outbox_default`)
	for _, m := range []malady{missing, {code: outbox.FindingRowsAstray}} {
		if got := evidence(t, p.store, outbox.Limits{}, m); got != "" {
			t.Errorf("well again: %s", got)
		}
	}
	plain := outbox.New(dbtest.New(t, dbtest.Ranges(0)).Pool, outbox.Config{})
	for _, m := range []malady{missing, {code: outbox.FindingRowsAstray}} {
		if got := evidence(t, plain, outbox.Limits{}, m); got != "" {
			t.Errorf("of a plain outbox: %s", got)
		}
	}
}
