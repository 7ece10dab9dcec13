package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/backend-skeleton/relay/examples/orders"
	"github.com/backend-skeleton/relay/messaging"
)

// verdict is the table: one column for each destination.
type verdict struct {
	columns []column
}

// column counts the messages of one destination and what its consumer made of them.
type column struct {
	title string

	inserted, published, doubted, duplicates int

	// invariants: each has to be 0
	unpublished, doubled, lost, renamed, disordered int
	ordered                                         bool // the destination promises an order
}

// judge reads what happened from the tables: the service's own history against the consumers' effects.
func (w *world) judge(ctx context.Context) (verdict, error) {
	var v verdict
	events, err := w.judgeOne(ctx, column{title: "order-events (Kafka)", ordered: true}, orders.Events.Name, orders.Projection,
		`select order_id, version, message_id from order_history`)
	if err != nil {
		return v, err
	}
	v.columns = append(v.columns, events)
	if w.services.rabbit == "" {
		return v, nil
	}
	mails, err := w.judgeOne(ctx, column{title: "email-work (RabbitMQ)"}, orders.Mails.Name, orders.Mailer,
		`select order_id, 1 as version, message_id from mail_requested`)
	v.columns = append(v.columns, mails)
	return v, err
}

func (w *world) judgeOne(ctx context.Context, c column, d messaging.DestinationName, consumer messaging.ConsumerName, sent string) (column, error) {
	for _, q := range []struct {
		into *int
		sql  string
		args []any
	}{
		{&c.inserted, `select count(*) from (` + sent + `) s`, nil},
		{&c.published, `select count(*) from messaging_outbox where destination = $1 and status = 'PUBLISHED'`, []any{d}},
		{&c.unpublished, `select count(*) from messaging_outbox where destination = $1 and status <> 'PUBLISHED'`, []any{d}},
		{&c.doubted, `select count(*) from messaging_outbox
			where destination = $1 and status = 'PUBLISHED' and ambiguous_attempts > 0`, []any{d}},
		{&c.duplicates, `select count(*) from delivery where consumer = $1 and outcome = 'DUPLICATE'`, []any{consumer}},
		{&c.doubled, `select count(*) - count(distinct message_id) from effect where consumer = $1`, []any{consumer}},
		{&c.lost, `select count(*) from (` + sent + `) s
			where not exists (select from effect e where e.consumer = $1 and (e.order_id, e.version) = (s.order_id, s.version))`, []any{consumer}},
		{&c.renamed, `select count(*) from effect e where e.consumer = $1
			and not exists (select from (` + sent + `) s where s.message_id = e.message_id
				and (s.order_id, s.version) = (e.order_id, e.version))`, []any{consumer}},
		{&c.disordered, `select count(*) from (
			select version - lag(version, 1, 0) over (partition by order_id order by seq) as step from effect where consumer = $1) e
			where step <> 1`, []any{consumer}},
	} {
		n, err := w.count(ctx, q.sql, q.args...)
		if err != nil {
			return c, fmt.Errorf("count what became of %s: %w", d, err)
		}
		*q.into = n
	}
	return c, nil
}

// holds says whether every invariant does.
func (v verdict) holds() bool {
	for _, c := range v.columns {
		if c.inserted == 0 || c.inserted != c.published || c.unpublished+c.doubled+c.lost+c.renamed+c.disordered > 0 {
			return false
		}
	}
	return true
}

func (v verdict) print(out io.Writer) {
	fmt.Fprintln(out)
	t := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	defer func() { _ = t.Flush() }() // nobody is left to tell that the terminal is gone
	row := func(label string, value func(column) string) {
		cells := []string{"  " + label}
		for _, c := range v.columns {
			cells = append(cells, value(c))
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	number := func(get func(column) int) func(column) string {
		return func(c column) string { return fmt.Sprint(get(c)) }
	}
	zero := func(get func(column) int) func(column) string {
		return func(c column) string {
			if n := get(c); n != 0 {
				return fmt.Sprintf("%d  BROKEN", n)
			}
			return "0  ok"
		}
	}
	row("", func(c column) string { return c.title })
	row("inserted", number(func(c column) int { return c.inserted }))
	row("published", number(func(c column) int { return c.published }))
	row("ambiguous, then confirmed", number(func(c column) int { return c.doubted }))
	row("duplicates seen", number(func(c column) int { return c.duplicates }))
	row("duplicate effects", zero(func(c column) int { return c.doubled }))
	row("lost", zero(func(c column) int { return c.lost }))
	row("changed ids", zero(func(c column) int { return c.renamed }))
	row("order breaks", func(c column) string {
		if !c.ordered {
			return "-  not promised"
		}
		return zero(func(c column) int { return c.disordered })(c)
	})
}
