package client_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/backend-skeleton/relay/client"
	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/messaging"
)

// doors are the ways by which prepared messages get into the table.
var doors = map[string]func(c *client.Client, db *dbtest.DB, handle *sql.DB, ps ...client.Prepared) error{
	"pgx": func(c *client.Client, db *dbtest.DB, _ *sql.DB, ps ...client.Prepared) error {
		return c.InTx(context.Background(), db.Pool, func(ctx context.Context, tx pgx.Tx) error { return c.EnqueueBatch(ctx, tx, ps...) })
	},
	"database/sql": func(c *client.Client, _ *dbtest.DB, handle *sql.DB, ps ...client.Prepared) error {
		return c.InTxSQL(context.Background(), handle, func(ctx context.Context, tx *sql.Tx) error { return c.EnqueueBatchSQL(ctx, tx, ps...) })
	},
}

// throughDoors runs the test for each door, server and for one message alone and among others, which are two statements.
func throughDoors(t *testing.T, test func(t *testing.T, db *dbtest.DB, c *client.Client, enqueue func(...client.Prepared) error)) {
	t.Parallel()
	dbtest.Majors(t, func(t *testing.T, major int) {
		for name, door := range doors {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				db, c := dbtest.New(t, dbtest.Major(major)), newClient(t, client.Config{})
				handle := db.SQL(t)
				test(t, db, c, func(ps ...client.Prepared) error { return door(c, db, handle, ps...) })
			})
		}
	})
}

func TestEnqueueStoresTheEnvelope(t *testing.T) {
	throughDoors(t, func(t *testing.T, db *dbtest.DB, c *client.Client, enqueue func(...client.Prepared) error) {
		headers, err := messaging.NewHeaders(map[string]string{"X-Region": `eu "west" \ 😀`, "source": "web"})
		if err != nil {
			t.Fatal(err)
		}
		cause := messaging.NewMessageID()
		later := time.Now().Add(time.Hour)
		full := messaging.Envelope[order]{
			ID: messaging.NewMessageID(), OccurredAt: time.Date(2026, 1, 2, 3, 4, 5, 678900000, time.FixedZone("", 7200)),
			Correlation: "co'rr", Causation: messaging.CausationID{MessageID: cause}, PartitionKey: "pk,{}", OrderingKey: `o"k\`,
			Tenant: "te", Trace: messaging.TraceContext{Parent: "tp", State: "ts", Baggage: "bg"}, Headers: headers,
			Payload: order{ID: 7, Text: "<größe>\u0000"},
		}
		orders := newOutbox(t, c, created)
		for _, others := range []int{0, 2} {
			full.ID = messaging.NewMessageID()
			p := prepare(t, orders, full, &client.EnqueueOptions{AvailableAt: later, AggregateType: "order", AggregateID: "7"})
			least := []client.Prepared{p}
			for range others {
				least = append(least, prepare(t, orders, messaging.Envelope[order]{Payload: order{ID: 1}}, nil))
			}
			if err := enqueue(least...); err != nil {
				t.Fatal(err)
			}
			if !one[bool](t, db, `
				select destination = 'order-events' and message_type = 'order.created' and schema_version = 1 and producer = 'shop'
					and content_type = 'application/json' and occurred_at = '2026-01-02 01:04:05.6789+00' and correlation_id = 'co''rr'
					and causation_id = $2 and partition_key = 'pk,{}' and ordering_key = 'o"k\' and tenant = 'te'
					and traceparent = 'tp' and tracestate = 'ts' and baggage = 'bg' and aggregate_type = 'order' and aggregate_id = '7'
					and headers = jsonb_build_object('x-region', 'eu "west" \ 😀', 'source', 'web')
					and payload = convert_to('{"id":7,"text":"<größe>\u0000"}', 'UTF8')
					and status = 'SCHEDULED' and available_at = $3 and schema_ref is null and claim_check is null
				from messaging_outbox where message_id = $1`, full.ID.String(), cause.String(), later.Truncate(time.Microsecond)) {
				t.Errorf("with %d others: %s", others, one[string](t, db, `select row_to_json(o)::text from messaging_outbox as o where message_id = $1`, full.ID.String()))
			}
		}
		if n := one[int](t, db, `
			select count(*) from messaging_outbox where payload = '{"id":1}' and status = 'PENDING' and headers = '{}'
				and coalesce(correlation_id, partition_key, ordering_key, tenant, traceparent, aggregate_type, aggregate_id) is null
				and causation_id is null and occurred_at is null and available_at <= now()`); n != 2 {
			t.Errorf("%d rows hold the least, want 2", n)
		}
	})
}

func TestBatchKeepsTheOrderOfItsKey(t *testing.T) {
	throughDoors(t, func(t *testing.T, db *dbtest.DB, c *client.Client, enqueue func(...client.Prepared) error) {
		orders, mails := newOutbox(t, c, created), newOutbox(t, c, messaging.Destination[string]{Name: "mails", Type: "mail.send", Version: 2})
		var batch []client.Prepared
		for i := range 500 {
			batch = append(batch,
				prepare(t, orders, messaging.Envelope[order]{OrderingKey: "k", Payload: order{ID: i}}, nil),
				prepare(t, mails, messaging.Envelope[string]{OrderingKey: "k", Payload: fmt.Sprint(i)}, nil))
		}
		// Ids must not be what orders them.
		batch[0], batch[998] = batch[998], batch[0]
		if err := enqueue(batch...); err != nil {
			t.Fatal(err)
		}
		rows, err := db.Query(t.Context(), `select message_id::text from messaging_outbox order by seq`)
		if err != nil {
			t.Fatal(err)
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(ids) != len(batch) {
			t.Fatalf("%d rows, %v", len(ids), err)
		}
		for i, p := range batch {
			if ids[i] != p.ID().String() {
				t.Fatalf("row %d is not message %d", i, i)
			}
		}
	})
}

func TestEnqueueExecModes(t *testing.T) {
	t.Parallel()
	db, c := dbtest.New(t), newClient(t, client.Config{})
	orders := newOutbox(t, c, created)
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		config, err := pgx.ParseConfig(db.URL())
		if err != nil {
			t.Fatal(err)
		}
		config.DefaultQueryExecMode = mode
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.Background())
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		e := messaging.Envelope[order]{OrderingKey: "k", OccurredAt: time.Now(), Causation: messaging.CausationID{MessageID: messaging.NewMessageID()}}
		if _, err := orders.Enqueue(t.Context(), tx, e, nil); err != nil {
			t.Errorf("%v: one message: %v", mode, err)
		}
		if err := c.EnqueueBatch(t.Context(), tx, prepare(t, orders, e, nil), prepare(t, orders, messaging.Envelope[order]{}, nil)); err != nil {
			t.Errorf("%v: a batch: %v", mode, err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Errorf("%v: %v", mode, err)
		}
	}
	if n := one[int](t, db, `select count(*) from messaging_outbox where payload = '{"id":0}'`); n != 15 {
		t.Errorf("%d rows, want 15", n)
	}
}

func TestEnqueueReturnsTheID(t *testing.T) {
	t.Parallel()
	db, c := dbtest.New(t), newClient(t, client.Config{})
	orders := newOutbox(t, c, created)
	given := messaging.NewMessageID()
	var fresh, bySQL messaging.MessageID
	err := c.InTx(t.Context(), db.Pool, func(ctx context.Context, tx pgx.Tx) error {
		id, err := orders.Enqueue(ctx, tx, messaging.Envelope[order]{ID: given}, nil)
		if err != nil || id != given {
			return fmt.Errorf("id %v, %w", id, err)
		}
		fresh, err = orders.Enqueue(ctx, tx, messaging.Envelope[order]{}, nil)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.InTxSQL(t.Context(), db.SQL(t), func(ctx context.Context, tx *sql.Tx) (err error) {
		bySQL, err = orders.EnqueueSQL(ctx, tx, messaging.Envelope[order]{}, nil)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if n := one[int](t, db, `select count(*) from messaging_outbox where message_id in ($1, $2, $3)`, given.String(), fresh.String(), bySQL.String()); n != 3 {
		t.Errorf("%d of 3 returned ids are in the table", n)
	}
	var pg *pgconn.PgError
	err = c.InTx(t.Context(), db.Pool, func(ctx context.Context, tx pgx.Tx) error {
		_, err := orders.Enqueue(ctx, tx, messaging.Envelope[order]{ID: given}, nil)
		return err
	})
	if !errors.As(err, &pg) || pg.Code != "23505" || strings.Contains(err.Error(), given.String()) {
		t.Errorf("the same id again: %v", err)
	}
}

func TestLockKeySerialisesWriters(t *testing.T) {
	t.Parallel()
	db, c := dbtest.New(t), newClient(t, client.Config{})
	handle := db.SQL(t)
	err := c.InTx(t.Context(), db.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if err := c.LockKey(ctx, tx, "order-events", "k"); err != nil {
			return err
		}
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		if err := c.InTxSQL(short, handle, func(ctx context.Context, tx *sql.Tx) error { return c.LockKeySQL(ctx, tx, "order-events", "k") }); err == nil {
			t.Error("two transactions hold the lock of one key")
		}
		return c.InTxSQL(ctx, handle, func(ctx context.Context, tx *sql.Tx) error { return c.LockKeySQL(ctx, tx, "order-events", "other") })
	})
	if err != nil {
		t.Fatal(err)
	}
}

func prepare[T any](t testing.TB, o *client.Outbox[T], e messaging.Envelope[T], x *client.EnqueueOptions) client.Prepared {
	t.Helper()
	p, err := o.Prepare(context.Background(), e, x)
	if err != nil {
		t.Fatal(err)
	}
	return p
}
