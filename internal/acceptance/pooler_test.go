package acceptance

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
)

// behindPooler puts a PgBouncer in transaction mode with two server connections before the world's database and gives
// its address. heard are the errors that betray session state which another client's transaction left or missed.
func (w *world) behindPooler() (addr string, heard *atomic.Int32) {
	w.t.Helper()
	// Whoever comes through it is one user, who is relay and writer in one.
	bouncer := brokertest.StartPgBouncer(w.t, w.db.Account(w.t, dbtest.Worker, dbtest.Writer), 2)
	proxy := brokertest.NewProxy(w.t, bouncer.Env("PGBOUNCER_ADDR"))
	heard = &atomic.Int32{}
	proxy.Intercept(func(c brokertest.Chunk) brokertest.Verdict {
		if c.Direction == brokertest.ToClient {
			for _, code := range []string{"C26000\x00", "C42P05\x00", "C08P01\x00"} {
				heard.Add(int32(bytes.Count(c.Bytes, []byte(code))))
			}
		}
		return brokertest.Forward
	})
	return proxy.Addr(), heard
}

// Behind a pooler that hands a session to another client at each transaction no state of a session is needed: relays
// find work by polling, and say so.
func TestB58_ATransactionPoolerIsNoTrouble(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withDatabase(dbtest.OwnDatabase()), withKafka(false), withRabbit(false))
	w.patient()
	addr, heard := w.behindPooler()
	w.env[0] = "RELAY_DATABASE_URL=" + w.databaseURL(addr)
	w.set("database", m{"pooler": "transaction", "pool-max": 4})
	captures := map[string]*brokertest.Capture{kafkaDestination: w.capture(kafkaDestination), rabbitDestination: w.capture(rabbitDestination)}
	relays := []*process{w.start(), w.start()}
	for _, p := range relays {
		p.address()
		if !strings.Contains(p.out.String(), "off behind a pooler in transaction mode") {
			t.Error("the start does not say that nobody listens for wake-ups")
		}
	}
	ids := w.writeThrough(addr, count(20, 8), count(200, 20))
	w.published(60*time.Second, len(ids[kafkaDestination])+len(ids[rabbitDestination]))
	for _, d := range both {
		captures[d].WaitFor(t, 10*time.Second, ids[d]...)
		once(t, captures[d], ids[d])
		relays[0].stillReady(d)
	}
	if n := w.number(`select max(attempts) from messaging_outbox`); n != 1 {
		t.Errorf("up to %d attempts, want 1", n)
	}
	if n := heard.Load(); n > 0 {
		t.Errorf("%d statements met a session that was not as they had left it", n)
	}
	for _, p := range relays {
		if code := p.stop(drain + 10*time.Second); code != 0 {
			t.Errorf("exit %d", code)
		}
	}
}

// writeThrough has clients enqueue at once through the pooler, some rows each, to both destinations in turn.
func (w *world) writeThrough(addr string, clients, rows int) map[string][]string {
	w.t.Helper()
	c, err := pgxpool.ParseConfig(w.databaseURL(addr))
	if err != nil {
		w.t.Fatal("the pooler's address does not parse")
	}
	c.MaxConns, c.ConnConfig.DefaultQueryExecMode = int32(clients), pgx.QueryExecModeExec
	pool, err := pgxpool.NewWithConfig(context.Background(), c)
	if err != nil {
		w.t.Fatal(err)
	}
	defer pool.Close()
	var mu sync.Mutex
	ids := map[string][]string{}
	var wait sync.WaitGroup
	for n := range clients {
		wait.Go(func() {
			for i := range rows {
				d := both[i%2]
				var id string
				err := pool.QueryRow(context.Background(), `select messaging_outbox_add($1, 'order.created', 'shop', '{}', ordering_key => $2)::text`,
					d, fmt.Sprint("k", n)).Scan(&id)
				if err != nil {
					w.t.Errorf("enqueue through the pooler: %v", err)
					return
				}
				mu.Lock()
				ids[d] = append(ids[d], id)
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	return ids
}
