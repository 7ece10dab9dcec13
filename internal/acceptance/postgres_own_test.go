package acceptance

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/testenv"
)

// onMajors runs a case on each supported version of PostgreSQL in the full tier, and on one of them in the short tier: the
// cases are spread, so that each version gets its part.
func onMajors(t *testing.T, short int, test func(t *testing.T, major int)) {
	t.Helper()
	majors := []int{short}
	if testenv.Full() {
		majors = []int{16, 17, 18}
	}
	for _, major := range majors {
		t.Run(fmt.Sprint("postgres", major), func(t *testing.T) {
			t.Parallel()
			test(t, major)
		})
	}
}

// ownServer gives the world a PostgreSQL of its own, to be changed, paused and killed.
func ownServer(t *testing.T, o brokertest.PostgresOptions) (*brokertest.Server, option) {
	t.Helper()
	if o.Major == 0 {
		o.Major = 17
	}
	server := brokertest.StartPostgres(t, o)
	address := server.Env(fmt.Sprint("PG_URL_", o.Major))
	if o.Standby {
		address = bothNodes(t, address, server.Env(fmt.Sprint("PG_STANDBY_URL_", o.Major)))
	}
	return server, withDatabase(dbtest.Server(address), dbtest.OwnDatabase())
}

// ask a server one thing, by a session of its own that is given up after a while.
func ask(t *testing.T, address, sql string) (answer string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	conn, err := connect(ctx, address)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	err = conn.QueryRow(ctx, sql).Scan(&answer)
	return answer, err
}

// written is what a writer knows of its rows: those whose commit was answered, and those of which nobody told it; inTurn are
// all of them.
type written struct{ answered, unknown, inTurn []string }

// keepWriting inserts one row after the other, whatever becomes of the server, until the returned function is called.
func (w *world) keepWriting(destination string, keys int) (stop func() written) {
	w.t.Helper()
	end, done := make(chan struct{}), make(chan written)
	go func() {
		var all written
		defer func() { done <- all }()
		pace := time.NewTicker(5 * time.Millisecond)
		defer pace.Stop()
		for i := 0; ; i++ {
			select {
			case <-end:
				return
			case <-pace.C:
			}
			id := uuid.Must(uuid.NewV7()).String()
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
			_, err := w.writers.Exec(ctx, `select messaging_outbox_add($1, 'order.created', 'shop', '{}', ordering_key => $2, message_id => $3::uuid)`,
				destination, fmt.Sprint("w", i%keys), id)
			cancel()
			all.inTurn = append(all.inTurn, id)
			if err != nil {
				all.unknown = append(all.unknown, id)
			} else {
				all.answered = append(all.answered, id)
			}
		}
	}()
	var once sync.Once
	var all written
	stop = func() written {
		once.Do(func() {
			close(end)
			all = <-done
		})
		return all
	}
	w.t.Cleanup(func() { stop() })
	return stop
}

// arrived checks what the writer knows against the table and the capture: every answered commit is there and was published
// once; one without answer is both or neither; and each key went out in its order.
func (w *world) arrived(c *brokertest.Capture, all written) {
	w.t.Helper()
	there := map[string]bool{}
	for _, id := range w.query(`select message_id::text from messaging_outbox where message_id = any($1::uuid[])`, all.inTurn) {
		there[id] = true
	}
	var expected []string
	for _, id := range all.answered {
		if !there[id] {
			w.t.Errorf("a row whose commit was answered is gone")
		}
		expected = append(expected, id)
	}
	for _, id := range all.unknown {
		if there[id] {
			expected = append(expected, id)
		}
	}
	c.WaitFor(w.t, 20*time.Second, expected...)
	once(w.t, c, expected)
	inOrder(w.t, c, all.inTurn)
	w.t.Logf("%d commits answered, %d without answer, of which %d happened", len(all.answered), len(all.unknown), len(expected)-len(all.answered))
}

// watchEpochs looks at the lanes all the time until the returned function is called, which fails the test where an epoch of
// a lane had two owners.
func (w *world) watchEpochs() (check func()) {
	w.t.Helper()
	end, done := make(chan struct{}), make(chan struct{})
	owners := map[string]map[string]bool{}
	look := func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		rows, err := w.db.Query(ctx, `select lane || '/' || epoch, owner::text from messaging_outbox_lane where owner is not null`)
		if err != nil {
			return // the server is away
		}
		defer rows.Close()
		for rows.Next() {
			var epoch, owner string
			if rows.Scan(&epoch, &owner) != nil {
				return
			}
			if owners[epoch] == nil {
				owners[epoch] = map[string]bool{}
			}
			owners[epoch][owner] = true
		}
	}
	go func() {
		defer close(done)
		pace := time.NewTicker(20 * time.Millisecond)
		defer pace.Stop()
		for {
			select {
			case <-end:
				look()
				return
			case <-pace.C:
				look()
			}
		}
	}()
	var once sync.Once
	stop := func() {
		once.Do(func() {
			close(end)
			<-done
		})
	}
	w.t.Cleanup(stop)
	return func() {
		stop()
		for epoch, by := range owners {
			if len(by) > 1 {
				w.t.Errorf("lane and epoch %s had %d owners", epoch, len(by))
			}
		}
		if len(owners) == 0 {
			w.t.Error("no owned lane was ever seen")
		}
	}
}
