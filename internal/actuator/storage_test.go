package actuator_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/backend-skeleton/relay/internal/actuator"
	"github.com/backend-skeleton/relay/internal/observe"
)

// fakeStorage answers what it was told.
type fakeStorage struct {
	storage actuator.Storage
	err     error
	calls   *atomic.Int32
}

func (f fakeStorage) Storage(context.Context) (actuator.Storage, error) {
	if f.calls != nil {
		f.calls.Add(1)
	}
	return f.storage, f.err
}

func storageHandler(t *testing.T, f fakeStorage) http.Handler {
	t.Helper()
	o, err := observe.New(observe.Config{})
	if err != nil {
		t.Fatal(err)
	}
	h, err := actuator.New(actuator.Config{Stats: &fakeStats{}, Storage: f, Health: &fakeHealth{healthy()}, Observer: o})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestStoragePage(t *testing.T) {
	t.Parallel()
	h := storageHandler(t, fakeStorage{storage: actuator.Storage{
		AsOf: since, Keep: time.Hour, Overdue: 1500 * time.Millisecond, BacklogRows: 10000, BacklogMore: true,
		Tables: []actuator.TableStorage{
			{Name: "messaging_outbox", Partitions: 3, TableBytes: 8192, IndexBytes: 4096, LiveRows: 5, DeadRows: 7, LastAutovacuum: since.Add(-time.Minute)},
			{Name: "messaging_outbox_lane", LastVacuum: since.Add(-time.Hour)},
		},
		Snapshots: []actuator.Snapshot{
			{Kind: "SESSION", Holder: "process 42, idle in transaction, application psql", Age: 90 * time.Second, Transactions: 12345},
			{Kind: "SESSION", Holder: "process 43", Age: 100 * time.Second, Transactions: 12},
			{Kind: "REPLICATION_SLOT", Holder: "standby1, active", Age: -1, Transactions: 3},
		},
	}})
	w := request(h, http.MethodGet, "/actuator/messaging/storage")
	want := `{"asOf":"2026-03-01T03:00:00.000Z","tables":[` +
		`{"name":"messaging_outbox","partitions":3,"tableBytes":8192,"indexBytes":4096,"liveRows":5,"deadRows":7,"lastVacuum":"","lastAutovacuum":"2026-03-01T02:59:00.000Z"},` +
		`{"name":"messaging_outbox_lane","partitions":0,"tableBytes":0,"indexBytes":0,"liveRows":0,"deadRows":0,"lastVacuum":"2026-03-01T02:00:00.000Z","lastAutovacuum":""}],` +
		`"snapshots":[{"kind":"SESSION","holder":"process 42, idle in transaction, application psql","ageSeconds":90,"transactions":12345},` +
		`{"kind":"SESSION","holder":"process 43","ageSeconds":100,"transactions":12},` +
		`{"kind":"REPLICATION_SLOT","holder":"standby1, active","ageSeconds":null,"transactions":3}],"sessionsVisible":false,` +
		`"retention":{"keepSeconds":3600,"backlogRows":10000,"backlogMore":true,"overdueSeconds":1.5}}`
	if got := compact(t, w.Body.String()); w.Code != http.StatusOK || got != want {
		t.Errorf("%d\n%s\nwant\n%s", w.Code, got, want)
	}
	text := request(h, http.MethodGet, "/metrics").Body.String()
	for _, want := range []string{
		`relay_table_size_bytes{table="outbox"} 8192`, `relay_table_index_size_bytes{table="outbox"} 4096`, `relay_table_dead_rows{table="outbox"} 7`,
		`relay_table_vacuum_age_seconds{table="outbox"} 60`, `relay_table_vacuum_age_seconds{table="lane"} 3600`,
		`relay_snapshot_age_seconds{reason="SESSION"} 100`, `relay_snapshot_transactions{reason="SESSION"} 12345`,
		`relay_snapshot_age_seconds{reason="REPLICATION_SLOT"} 0`, `relay_snapshot_transactions{reason="STANDBY"} 0`,
		`relay_retention_backlog_rows 10000`, `relay_retention_overdue_seconds 1.5`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
}

func TestStorageThatCannotBeRead(t *testing.T) {
	t.Parallel()
	h := storageHandler(t, fakeStorage{err: errors.New("dial db.internal: refused s3cret")})
	if w := request(h, http.MethodGet, "/actuator/messaging/storage"); w.Code != http.StatusServiceUnavailable || compact(t, w.Body.String()) != `{"error":"the storage cannot be read"}` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if text := request(h, http.MethodGet, "/metrics").Body.String(); strings.Contains(text, "relay_table_") || strings.Contains(text, "relay_snapshot_") {
		t.Error("old numbers hide the failure")
	}
}

func TestStorageIsReadSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := fakeStorage{calls: &atomic.Int32{}}
		h := storageHandler(t, f)
		for range 20 {
			request(h, http.MethodGet, "/actuator/messaging/storage")
			request(h, http.MethodGet, "/metrics")
			<-time.After(time.Second) // of the bubble's clock
		}
		if n := f.calls.Load(); n < 2 || n > 3 {
			t.Errorf("%d looks in 20 s, want one each 10 s", n)
		}
	})
}
