package acceptance

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/testenv"
)

// A row that always fails waits for its next attempt, costs nothing meanwhile and stands in nobody's way.
func TestB37_AFailingRowWaitsItsTurn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withRabbit(true), withDatabase(dbtest.OwnDatabase()))
	w.rabbitByKey("rabbit.keyed")
	w.set("relay", m{"backoff": m{"initial": "1s", "max": "10s", "jitter": "none"}})
	tries := w.watchPublishes("unbound")
	bad := w.add("rabbit.keyed", message{partitionKey: "unbound"})
	good := w.enqueue(`select messaging_outbox_add('rabbit.keyed', 'order.created', 'shop', '{}', partition_key => 'mail')::text
	  from generate_series(1, $1)`, count(500, 200))
	p := w.startProgram(plainRelay(t), w.write())
	brokertest.Eventually(t, 10*time.Second, "the rows behind the failing one to be sent", func() bool { return w.sent(good) == len(good) })
	busy := w.transactions()
	begin := time.Now()
	w.parked(bad, "UNROUTABLE", maxAttempts)
	if n, period := w.transactions()-busy, time.Since(begin); float64(n) > 200*(1+period.Seconds()) {
		t.Errorf("%d transactions in %v of waiting for one row", n, period)
	}
	backedOff(t, tries()["{}"])
	idle, burnt := time.Duration(count(30, 3))*time.Second, p.metric("process_cpu_seconds_total")
	<-time.After(idle)
	burnt = p.metric("process_cpu_seconds_total") - burnt
	t.Logf("%.2f s of CPU in %v of idling", burnt, idle)
	if testenv.Full() && burnt > idle.Seconds()/2 {
		t.Errorf("%.1f s of CPU in %v of idling", burnt, idle)
	}
	if n := len(tries()["{}"]); n != maxAttempts {
		t.Errorf("the parked row was published again: %d publishes", n)
	}
	p.stillReady("rabbit.keyed")
}

// watchPublishes notes when messages with a routing key pass on their way to the world's RabbitMQ, by their bodies.
func (w *world) watchPublishes(routingKey string) (times func() map[string][]time.Time) {
	var mu sync.Mutex
	seen := map[string][]time.Time{}
	w.rabbitProxy.Trap(brokertest.CutBefore, -1, func(p *brokertest.Publish) bool {
		if p.RoutingKey == routingKey {
			mu.Lock()
			defer mu.Unlock()
			seen[string(p.Body)] = append(seen[string(p.Body)], time.Now())
		}
		return false
	})
	return func() map[string][]time.Time {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(seen)
	}
}

// backedOff fails unless a row was tried as often as may be, with 1 s and 2 s between.
func backedOff(t *testing.T, at []time.Time) {
	t.Helper()
	if len(at) != maxAttempts {
		t.Fatalf("%d publishes of the failing row, want %d", len(at), maxAttempts)
	}
	for i, pause := range []time.Duration{time.Second, 2 * time.Second} {
		if got := at[i+1].Sub(at[i]); got < pause || got > testenv.Within(pause+time.Second) {
			t.Errorf("%v between attempts %d and %d, want %v", got, i+1, i+2, pause)
		}
	}
}

// transactions counts those of the world's own database since its start.
func (w *world) transactions() int {
	w.t.Helper()
	return w.number(`select xact_commit + xact_rollback from pg_stat_database where datname = current_database()`)
}

// Rows that cannot go out now, because their destination is away or they are not due, take no place from those that can.
func TestB38_RowsThatCannotGoTakeNoPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKafka(false), withRabbit(true))
	w.set("relay", m{"breaker": m{"open-max": "2s"}})
	w.rabbitProxy.Down()
	rows := count(1000, 500)
	w.insert(rabbitDestination, rows, 0)
	w.enqueue(`select messaging_outbox_add($1, 'order.created', 'shop', '{}', ordering_key => 'k' || i % 5, available_at => now() + interval '1 hour')::text
	  from generate_series(1, $2) i`, kafkaDestination, rows)
	capture := w.capture(kafkaDestination)
	p := w.start()
	brokertest.Eventually(t, 20*time.Second, "readiness to say that the broker is away", func() bool {
		ready, reason := p.readiness(rabbitDestination)
		return !ready && reason != ""
	})
	attempts := func() float64 {
		return p.metric("messaging_publish_attempts_total", `destination="`+rabbitDestination+`"`)
	}
	tried, calm := 0.0, time.Now()
	brokertest.Eventually(t, 20*time.Second, "the breaker to open and the rows that were on their way to come back", func() bool {
		open := p.metric("relay_breaker_state", `broker="rabbit"`, `destination=""`, `state="OPEN"`)
		onTheWay := p.metric("messaging_publish_in_flight", `broker="rabbit"`)
		before := tried
		if tried = attempts(); open != 1 || onTheWay > 0 || tried == 0 || tried > before+1 { // probes add one row at a time
			calm = time.Now()
		}
		return time.Since(calm) > time.Second
	})
	sent := 0
	for _, outage := range []time.Duration{0, time.Duration(count(600, 3)) * time.Second} {
		<-time.After(outage)
		ids := w.insert(kafkaDestination, 10, 5)
		brokertest.Eventually(t, 5*time.Second, "the rows of the healthy destination to be sent", func() bool { return w.sent(ids) == 10 })
		sent += 10
	}
	if n := attempts() - tried; n > 50 {
		t.Errorf("%v rows were taken for a destination that is known to be away", n)
	}
	if got, want := w.statuses(), fmt.Sprintf("PENDING %d, PUBLISHED %d, SCHEDULED %d", rows, sent, rows); got != want {
		t.Errorf("rows are %q, want %q", got, want)
	}
	if n := w.number(`select max(attempts + ambiguous_attempts) from messaging_outbox where destination = $1`, rabbitDestination); n != 0 {
		t.Errorf("up to %d attempts of a destination that is away", n)
	}
	capture.WaitIDs(t, sent, 10*time.Second)
	away := w.capture(rabbitDestination)
	w.rabbitProxy.Up(t)
	brokertest.Eventually(t, 40*time.Second, "the destination to come back", func() bool {
		return w.number(`select count(*) from messaging_outbox where destination = $1 and status = 'PUBLISHED'`, rabbitDestination) == rows
	})
	away.WaitIDs(t, rows, 10*time.Second)
}

// A row that is committed late is sent however far the relay has come meanwhile, be it of the same key or of another.
func TestB39_ALateCommitIsNotSkipped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKafka(false), withRabbit(false), withDatabase(dbtest.MaxConns(60)))
	w.patient()
	w.start().address()
	for _, d := range both {
		for _, key := range []string{"", "k"} {
			late, commit := w.openInsert(d, key)
			opened := time.Now()
			early := w.add(d, message{orderingKey: key})
			brokertest.Eventually(t, 20*time.Second, "the row that was committed first to be sent", func() bool { return w.of(early, "status") == "PUBLISHED" })
			<-time.After(time.Until(opened.Add(time.Duration(count(5000, 1500)) * time.Millisecond)))
			commit()
			brokertest.Eventually(t, 2*poll+time.Second, "the row that was committed late to be sent", func() bool { return w.of(late, "status") == "PUBLISHED" })
		}
	}
	captures := map[string]*brokertest.Capture{}
	before := map[string]int{}
	for _, d := range both {
		captures[d] = w.capture(d)
		captures[d].WaitIDs(t, 4, 10*time.Second)
		before[d] = 4
	}
	const writers = 50
	all := w.number(`select count(*) from messaging_outbox`)
	var writing sync.WaitGroup
	for i := range writers {
		d, pause := both[i%2], time.Duration(rand.IntN(500))*time.Millisecond
		_, commit := w.openInsert(d, []string{"", "k"}[i/2%2])
		writing.Go(func() {
			<-time.After(pause) // the writer takes its time
			commit()
		})
	}
	writing.Wait()
	w.published(20*time.Second, all+writers)
	for _, d := range both {
		captures[d].WaitIDs(t, before[d]+writers/2, 10*time.Second)
		once(t, captures[d], w.query(`select message_id::text from messaging_outbox where destination = $1`, d))
	}
}

// openInsert adds a row in a transaction that ends when commit is called.
func (w *world) openInsert(destination, key string) (id string, commit func()) {
	w.t.Helper()
	ctx := context.Background()
	tx, err := w.db.Begin(ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = tx.Rollback(ctx) }) // where the test failed before the commit
	if err := tx.QueryRow(ctx, addMessage, destination, "", "", key, "").Scan(&id); err != nil {
		w.t.Fatal(err)
	}
	return id, func() {
		if err := tx.Commit(ctx); err != nil {
			w.t.Error(err)
		}
	}
}

// A row that makes no sense is refused by the table or parked alone, with a reason that the operator's program lists and
// the metrics count; everything else goes on.
func TestB72_ARowThatMakesNoSense(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKafka(false))
	w.set("relay", m{"unknown-destination-grace": "1s"})
	w.messaging()["catalogue"] = m{"order.created": m{"kind": "DOMAIN_EVENT", "versions": []int{1}}}
	nested := strings.Repeat(`{"a":`, 2000) + `""` + strings.Repeat(`}`, 2000)
	malformed := []string{`[]`, `"x"`, nested}
	for _, headers := range malformed {
		if constraint, _ := w.refused(kafkaDestination, message{headers: headers}); !strings.HasPrefix(constraint, "messaging_outbox_header") {
			t.Errorf("headers %.10s…: refused by %q", headers, constraint)
		}
	}
	if constraint, _ := w.refused("", message{}); constraint != "messaging_outbox_destination_length" {
		t.Errorf("no destination: refused by %q", constraint)
	}

	parked := map[string]string{} // the codes by the rows' ids
	for _, headers := range malformed {
		parked[w.smuggle(kafkaDestination, message{headers: headers})] = "HEADER_REJECTED"
	}
	parked[w.smuggle("", message{})] = "UNKNOWN_DESTINATION"
	parked[w.add("nobody.knows.it", message{})] = "UNKNOWN_DESTINATION"
	parked[w.enqueue(`select messaging_outbox_add($1, 'order.unheard-of', 'shop', '{}')::text`, kafkaDestination)[0]] = "TYPE_NOT_IN_CATALOGUE"
	p := w.start()
	w.othersFlow(kafkaDestination)
	for id, code := range parked {
		w.parked(id, code, 1)
	}
	w.othersFlow(kafkaDestination)
	p.stillReady(kafkaDestination)
	if !p.alive() {
		t.Error("the relay ended")
	}

	var listed []struct{ MessageID, Code, Detail string }
	w.inboxctl(&listed, "outbox", "list", "--status", "PARKED")
	for _, row := range listed {
		if want := parked[row.MessageID]; want == "" || row.Code != want || row.Detail == "" {
			t.Errorf("listed with %s (%s), want %s", row.Code, row.Detail, want)
		}
	}
	if len(listed) != len(parked) {
		t.Errorf("%d rows are listed as parked, want %d", len(listed), len(parked))
	}
	for destination, n := range map[string]float64{kafkaDestination: 4, "unknown": 2} {
		label := `destination="` + destination + `"`
		if got := p.metric("relay_outbox_outcomes_total", label, `outcome="PARKED"`); got != n {
			t.Errorf("%s: %v parked rows are counted, want %v", destination, got, n)
		}
		brokertest.Eventually(t, 20*time.Second, "the gauge to show the parked rows", func() bool {
			return p.metric("relay_outbox_rows", label, `status="PARKED"`) == n
		})
	}
}

// Times are instants: neither the zones of relays nor that of the database move a retry, a due time or the retention.
func TestB74_ZonesChangeNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withRabbit(true), withDatabase(dbtest.OwnDatabase()))
	w.exec(`do $$ begin execute format('alter database %I set timezone = %L', current_database(), 'America/New_York'); end $$`)
	w.db.Reset() // sessions from now on have the zone
	w.rabbitByKey("rabbit.keyed")
	// Whoever takes one zone for another is wrong by 4 hours or more.
	keep := time.Duration(count(3600, 300)) * time.Second
	w.set("relay", m{"backoff": m{"initial": "1s", "max": "10s", "jitter": "none"}, "retention": m{"published": keep.String()}})
	file := w.write()
	base := slices.Clone(w.env)
	w.env = append(slices.Clone(base), "TZ=UTC")
	relays := []*process{w.startFile(file)}
	w.env = append(slices.Clone(base), "TZ=Asia/Shanghai")
	relays = append(relays, w.startFile(file))
	for _, p := range relays {
		p.address()
	}
	w.env = base
	arrived := w.capture(rabbitDestination)

	old := w.publishedAgo(keep + 20*time.Second)
	young := w.publishedAgo(keep - 4*time.Minute)
	tries := w.watchPublishes("unbound")
	failing := w.enqueue(`select messaging_outbox_add('rabbit.keyed', 'order.created', 'shop', convert_to(i::text, 'utf8'), partition_key => 'unbound')::text
	  from generate_series(1, 16) i`)
	inserted := time.Now()
	delayed := w.enqueue(`select messaging_outbox_add($1, 'order.created', 'shop', '{}', available_at => now() + interval '5 seconds')::text
	  from generate_series(1, 16)`, rabbitDestination)
	soon := w.insert(rabbitDestination, 50, 0)

	for _, msg := range arrived.WaitFor(t, 6*time.Second, delayed...) {
		if took := msg.Arrived.Sub(inserted); slices.Contains(delayed, msg.ID) && (took < 4900*time.Millisecond || took > testenv.Within(6*time.Second)) {
			t.Errorf("a row that was due in 5 s arrived after %v", took)
		}
	}
	arrived.WaitFor(t, 10*time.Second, soon...)
	for _, id := range failing {
		w.parked(id, "UNROUTABLE", maxAttempts)
	}
	for i := range failing {
		backedOff(t, tries()[strconv.Itoa(i+1)])
	}
	if n := w.number(`select count(distinct published_by) from messaging_outbox where published_by is not null`); n != 2 {
		t.Errorf("%d relays published, want both", n)
	}
	brokertest.Eventually(t, time.Duration(count(90, 20))*time.Second, "the old row to be deleted", func() bool {
		return w.number(`select count(*) from messaging_outbox where message_id = $1`, old) == 0
	})
	if n := w.number(`select count(*) from messaging_outbox where message_id = $1`, young); n != 1 {
		t.Error("a row was deleted before its time")
	}

	for _, p := range relays {
		_, body := p.get("/actuator/messaging/outbox")
		var page struct{ AsOf string }
		decode(t, body, &page)
		utc(t, page.AsOf)
		if code, _ := p.get("/readyz"); code != 200 {
			t.Errorf("readiness is %d", code)
		}
	}
	w.env = append(slices.Clone(base), "TZ=Asia/Shanghai")
	var listed []struct{ CreatedAt, AvailableAt string }
	w.inboxctl(&listed, "outbox", "list", "--status", "PARKED")
	if len(listed) != len(failing) {
		t.Errorf("%d parked rows are listed, want %d", len(listed), len(failing))
	}
	for _, row := range listed {
		utc(t, row.CreatedAt)
		utc(t, row.AvailableAt)
	}
}

// publishedAgo adds a row that was written and published so long ago.
func (w *world) publishedAgo(age time.Duration) (id string) {
	w.t.Helper()
	ctx := context.Background()
	err := pgx.BeginFunc(ctx, w.db.Pool, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, `select messaging_outbox_add($1, 'order.created', 'shop', '{}', message_id =>
		  encode(substring(int8send(((extract(epoch from clock_timestamp()) - $2) * 1000)::bigint), 3) || '\x7000'::bytea
		    || substring(uuid_send(gen_random_uuid()), 9), 'hex')::uuid)::text`, rabbitDestination, age.Seconds()).Scan(&id)
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `update messaging_outbox set status = 'PUBLISHED', published_at = clock_timestamp() - make_interval(secs => $2)
		  where message_id = $1`, id, age.Seconds())
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return id
}

// utc fails unless text is a moment of these minutes, written in UTC with its offset.
func utc(t *testing.T, text string) {
	t.Helper()
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || !strings.HasSuffix(text, "Z") && !strings.HasSuffix(text, "+00:00") {
		t.Errorf("%q is no time in UTC with its offset", text)
		return
	}
	if d := time.Since(at).Abs(); d > 10*time.Minute {
		t.Errorf("%q is off by %v", text, d)
	}
}
