package client_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/backend-skeleton/relay/client"
	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/messaging"
)

// BenchmarkInsert compares business transactions (one insert, one update) without and with outbox rows, by 1 and 8
// writers. What an outbox row costs is the difference within one run.
//
//	go test -run '^$' -bench Insert -benchtime 2000x ./client/
func BenchmarkInsert(b *testing.B) {
	db := dbtest.New(b, dbtest.MaxConns(16))
	for _, statement := range []string{
		`create table orders (id bigint generated always as identity primary key, status text not null)`,
		`create table stock (item int primary key, n bigint not null)`,
		`insert into stock select n, 0 from generate_series(1, 10000) as n`,
	} {
		if _, err := db.Exec(b.Context(), statement); err != nil {
			b.Fatal(err)
		}
	}
	c := newClient(b, client.Config{})
	orders := newOutbox(b, c, created)
	envelope := messaging.Envelope[order]{OrderingKey: "4711", Payload: order{ID: 1, Text: strings.Repeat("x", 280)}}
	headers, err := messaging.NewHeaders(map[string]string{"x-region": "eu-west-1", "x-sample": "abc", "source": "order-service"})
	if err != nil {
		b.Fatal(err)
	}
	withHeaders := envelope
	withHeaders.Headers = headers

	var items atomic.Int64
	for _, writers := range []int{1, 8} {
		for _, kind := range []struct {
			name     string
			envelope messaging.Envelope[order]
			rows     int
		}{{"business alone", envelope, 0}, {"1 row", envelope, 1}, {"1 row with 3 headers", withHeaders, 1}, {"10 rows", envelope, 10}} {
			b.Run(map[int]string{1: "1 writer", 8: "8 writers"}[writers]+"/"+kind.name, func(b *testing.B) {
				run := func() {
					item := items.Add(1) % 10000
					ps := make([]client.Prepared, kind.rows)
					for i := range ps {
						ps[i] = prepare(b, orders, kind.envelope, nil)
					}
					if err := c.InTx(context.Background(), db.Pool, func(ctx context.Context, tx pgx.Tx) error {
						if _, err := tx.Exec(ctx, `insert into orders (status) values ('PLACED')`); err != nil {
							return err
						}
						if _, err := tx.Exec(ctx, `update stock set n = n + 1 where item = $1`, item+1); err != nil {
							return err
						}
						return c.EnqueueBatch(ctx, tx, ps...)
					}); err != nil {
						b.Error(err)
					}
				}
				if writers == 1 {
					for b.Loop() {
						run()
					}
				} else {
					b.SetParallelism(writers / 2) // of two processors
					b.RunParallel(func(pb *testing.PB) {
						for pb.Next() {
							run()
						}
					})
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tx/s")
			})
		}
	}
}
