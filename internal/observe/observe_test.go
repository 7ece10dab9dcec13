package observe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/backend-skeleton/relay/internal/observe"
	"github.com/backend-skeleton/relay/messaging"
)

func newObserver(t *testing.T, logs *buffer) *observe.Observer {
	t.Helper()
	c := observe.Config{
		Version:      "1.2.3",
		Destinations: map[messaging.DestinationName]string{"order-events": "kafka-primary", "email-work": "rabbit-primary"},
	}
	if logs != nil {
		c.Logger = slog.New(slog.NewJSONHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	o, err := observe.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// buffer is a log that tests may read while it is written.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) lines(t *testing.T) (lines []map[string]any) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for text := range strings.Lines(b.b.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, m)
	}
	return lines
}

func gather(t *testing.T, o *observe.Observer) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := o.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]*dto.MetricFamily, len(families))
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "go_") && !strings.HasPrefix(f.GetName(), "process_") {
			out[f.GetName()] = f
		}
	}
	return out
}

// value finds the series whose label values are those of the text, in the order
// of the label names.
func value(t *testing.T, o *observe.Observer, name string, labels ...string) float64 {
	t.Helper()
	family := gather(t, o)[name]
	for _, m := range family.GetMetric() {
		var values []string
		for _, l := range m.GetLabel() {
			values = append(values, l.GetValue())
		}
		if slices.Equal(values, labels) {
			switch {
			case m.Counter != nil:
				return m.GetCounter().GetValue()
			case m.Gauge != nil:
				return m.GetGauge().GetValue()
			default:
				return float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return -1
}

func result(c messaging.Completion, category messaging.Category, code string) messaging.PublishResult {
	r := messaging.PublishResult{Completion: c, Elapsed: 3 * time.Millisecond}
	if c != messaging.Confirmed {
		r.Failure = messaging.NewFailure(category, code, "s3cret")
	}
	return r
}

var (
	confirmed = result(messaging.Confirmed, 0, "")
	nacked    = result(messaging.Rejected, messaging.CategoryTransientInfrastructure, messaging.CodeNacked)
	tooLarge  = result(messaging.Rejected, messaging.CategoryValidation, messaging.CodeTooLarge)
	timeout   = result(messaging.Ambiguous, messaging.CategoryAmbiguous, messaging.CodeConfirmTimeout)
)

func everything(t *testing.T, o *observe.Observer, to messaging.DestinationName, brokerName string) {
	t.Helper()
	o.InFlight(brokerName, 7)
	o.Buffered(brokerName, 700)
	for _, r := range []messaging.PublishResult{confirmed, nacked, timeout, {}} {
		o.Published(to, brokerName, r)
		o.LateAnswer(brokerName, r.Completion)
	}
	o.Recorded(to, messaging.Confirmed, nil, "PUBLISHED", 2)
	o.Recorded(to, messaging.Rejected, nacked.Failure, "RETRYABLE_FAILURE", 1)
	o.Recorded(to, messaging.Rejected, tooLarge.Failure, "PARKED", 1)
	o.Recorded(to, messaging.Ambiguous, timeout.Failure, "AMBIGUOUS", 1)
	o.Recorded(to, messaging.Ambiguous, timeout.Failure, "PARKED", 1)
	o.Recorded(to, 0, nil, "", 1)
	o.TakenOver(to, 3)
	o.Unknown(2)
	o.LateConfirmed(to, 2)
	o.LateCommit(to, 1)
	o.Overtook(to, 1)
	o.LostLease(to, 4)
	o.Weak(to, 1)
	o.Pruned("outbox", 10)
	o.Breaker(brokerName, to, "OPEN", messaging.CodeNotAuthorized)
	o.Breaker(brokerName, "", "HALF_OPEN", "")
	o.SlowStart(brokerName, "", 20)
	o.Trouble("renew the lease", errors.New("connection refused"))
}

// consumers calls everything that there is for a consumer.
func consumers(t *testing.T, o *observe.Observer) {
	t.Helper()
	o.Delivered("projection", true)
	o.Handled("projection", "SUCCESS", time.Millisecond)
	o.Consumed("projection", "", "SUCCESS")
	o.Retried("projection", messaging.ModePausePartition, *timeout.Failure)
	o.HandedOver("projection", "order-dlq", "PARKED", messaging.Confirmed, *timeout.Failure)
	o.Settled("projection", "ACK", messaging.SettlementResult{Status: messaging.SettlementUnknown, Failure: timeout.Failure}, time.Millisecond)
	o.Paused("projection", "dlq-outage", true)
	err := o.CollectConsumers(func() []observe.ConsumerState {
		return []observe.ConsumerState{{Consumer: "projection", Running: 1, Paused: []string{"dlq-outage"}}}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The names and labels are read by dashboards and alarms.
func TestMetricNamesAndLabels(t *testing.T) {
	t.Parallel()
	o := newObserver(t, nil)
	everything(t, o, "order-events", "kafka-primary")
	consumers(t, o)
	if err := o.CollectTable(time.Second, func(context.Context) ([]observe.TableRows, error) {
		return []observe.TableRows{{Destination: "order-events", Rows: map[string]int64{"PENDING": 1}, Lanes: map[string]int64{"LEASED": 1}, Oldest: time.Second}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := o.CollectStorage(time.Second, func(context.Context) (observe.Storage, error) {
		return observe.Storage{AsOf: time.Now(), Tables: []observe.Table{{Name: "messaging_outbox", LastVacuum: time.Now()}}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"messaging_consume_deliveries_total{consumer,status}",
		"messaging_consume_messages_total{consumer,outcome,type}",
		"messaging_consumer_paused{consumer,reason}",
		"messaging_handler_seconds{consumer,outcome}",
		"messaging_handlers_running{consumer}",
		"messaging_handlers_stuck{consumer}",
		"messaging_handovers_total{consumer,reason,status}",
		"messaging_publish_attempts_total{broker,destination,outcome}",
		"messaging_publish_buffered_bytes{broker}",
		"messaging_publish_confirm_seconds{destination}",
		"messaging_publish_in_flight{broker}",
		"messaging_publish_late_answers_total{broker,outcome}",
		"messaging_publish_messages_total{destination,outcome}",
		"messaging_retries_total{category,consumer,stage}",
		"messaging_settlement_seconds{consumer,verb}",
		"messaging_settlements_total{consumer,outcome,verb}",
		"relay_breaker_state{broker,destination,state}",
		"relay_build_info{version}",
		"relay_lanes{destination,status}",
		"relay_late_commit_total{destination}",
		"relay_late_confirmed_total{destination}",
		"relay_lost_lease_total{}",
		"relay_outbox_oldest_age_seconds{destination}",
		"relay_outbox_outcomes_total{category,destination,outcome}",
		"relay_outbox_rows{destination,status}",
		"relay_overtook_total{destination}",
		"relay_retention_backlog_rows{}",
		"relay_retention_overdue_seconds{}",
		"relay_retention_rows_total{table}",
		"relay_slow_start_rows{broker,destination}",
		"relay_snapshot_age_seconds{reason}",
		"relay_snapshot_transactions{reason}",
		"relay_table_dead_rows{table}",
		"relay_table_index_size_bytes{table}",
		"relay_table_live_rows{table}",
		"relay_table_size_bytes{table}",
		"relay_table_vacuum_age_seconds{table}",
	}
	var got []string
	for name, family := range gather(t, o) {
		var labels []string
		for _, l := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		got = append(got, name+"{"+strings.Join(labels, ",")+"}")
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("families\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	o := newObserver(t, nil)
	everything(t, o, "order-events", "kafka-primary")
	for _, c := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{1, "messaging_publish_attempts_total", []string{"kafka-primary", "order-events", "CONFIRMED"}},
		{1, "messaging_publish_attempts_total", []string{"kafka-primary", "order-events", "REJECTED"}},
		{2, "messaging_publish_attempts_total", []string{"kafka-primary", "order-events", "AMBIGUOUS"}}, // one without verdict
		{1, "messaging_publish_confirm_seconds", []string{"order-events"}},
		{7, "messaging_publish_in_flight", []string{"kafka-primary"}},
		{700, "messaging_publish_buffered_bytes", []string{"kafka-primary"}},
		{1, "messaging_publish_late_answers_total", []string{"kafka-primary", "REJECTED"}},
		{4, "messaging_publish_messages_total", []string{"order-events", "CONFIRMED"}}, // two in time, two late
		{1, "messaging_publish_messages_total", []string{"order-events", "REJECTED"}},
		{1, "messaging_publish_messages_total", []string{"order-events", "AMBIGUOUS"}},
		{2, "relay_outbox_outcomes_total", []string{"NONE", "order-events", "CONFIRMED"}},
		{1, "relay_outbox_outcomes_total", []string{"TRANSIENT_INFRASTRUCTURE", "order-events", "REJECTED"}},
		{1, "relay_outbox_outcomes_total", []string{"VALIDATION", "order-events", "PARKED"}},
		{4, "relay_outbox_outcomes_total", []string{"AMBIGUOUS", "order-events", "AMBIGUOUS"}}, // three of a relay that died
		{2, "relay_outbox_outcomes_total", []string{"CONFIGURATION", "unknown", "PARKED"}},
		{1, "relay_outbox_outcomes_total", []string{"AMBIGUOUS", "order-events", "PARKED"}},
		{4, "relay_lost_lease_total", nil},
		{2, "relay_late_confirmed_total", []string{"order-events"}},
		{1, "relay_overtook_total", []string{"order-events"}},
		{1, "relay_late_commit_total", []string{"order-events"}},
		{1, "relay_breaker_state", []string{"kafka-primary", "order-events", "OPEN"}},
		{0, "relay_breaker_state", []string{"kafka-primary", "order-events", "CLOSED"}},
		{1, "relay_breaker_state", []string{"kafka-primary", "", "HALF_OPEN"}},
		{1, "relay_breaker_state", []string{"rabbit-primary", "email-work", "CLOSED"}}, // from the start
		{20, "relay_slow_start_rows", []string{"kafka-primary", ""}},
		{0, "relay_slow_start_rows", []string{"rabbit-primary", "email-work"}},
		{1, "relay_build_info", []string{"1.2.3"}},
		{0, "relay_late_commit_total", []string{"email-work"}}, // there before the first event
	} {
		got := value(t, o, c.name, c.labels...)
		if got != c.want {
			t.Errorf("%s%v = %v, want %v", c.name, c.labels, got, c.want)
		}
	}
}

// A row's destination is text of its writer: it must not be able to make series.
func TestCardinalityIsBounded(t *testing.T) {
	t.Parallel()
	o := newObserver(t, nil)
	everything(t, o, "order-events", "kafka-primary")
	everything(t, o, "email-work", "rabbit-primary")
	everything(t, o, "never-heard-of", "nor-of-this")
	table := []observe.TableRows{}
	for i := range 1000 {
		table = append(table, observe.TableRows{
			Destination: messaging.DestinationName(fmt.Sprint("dynamic-", i)), Oldest: time.Duration(i) * time.Second,
			Rows: map[string]int64{"PENDING": 1}, Lanes: map[string]int64{"FREE": 1},
		})
	}
	if err := o.CollectTable(time.Second, func(context.Context) ([]observe.TableRows, error) { return table, nil }); err != nil {
		t.Fatal(err)
	}
	series := func() (n int) {
		for _, f := range gather(t, o) {
			n += len(f.GetMetric())
		}
		return n
	}
	before := series()
	for i := range 1000 {
		name := fmt.Sprint("dynamic-", i)
		everything(t, o, messaging.DestinationName(name), name)
	}
	if after := series(); after != before {
		t.Errorf("%d series became %d", before, after)
	}
	if got := value(t, o, "relay_outbox_rows", "unknown", "PENDING"); got != 1000 {
		t.Errorf("rows of unknown destinations: %v, want their sum", got)
	}
	if got := value(t, o, "relay_outbox_oldest_age_seconds", "unknown"); got != 999 {
		t.Errorf("oldest of unknown destinations: %v, want the oldest", got)
	}
	for _, f := range gather(t, o) {
		for _, m := range f.GetMetric() {
			if text := m.String(); strings.Contains(text, "dynamic") || strings.Contains(text, "s3cret") {
				t.Fatalf("a series took a text from outside: %s", text)
			}
		}
	}
}

func TestTableGaugesAreAbsentWhileTheyCannotBeRead(t *testing.T) {
	t.Parallel()
	o := newObserver(t, nil)
	var failing bool
	if err := o.CollectTable(time.Second, func(context.Context) ([]observe.TableRows, error) {
		if failing {
			return nil, errors.New("no database")
		}
		return []observe.TableRows{{Destination: "order-events", Rows: map[string]int64{"PENDING": 7}}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := value(t, o, "relay_outbox_rows", "order-events", "PENDING"); got != 7 {
		t.Errorf("rows %v, want 7", got)
	}
	failing = true
	families := gather(t, o)
	if families["relay_outbox_rows"] != nil || families["relay_build_info"] == nil {
		t.Errorf("families %v: the table's must be absent, the others present", slices.Sorted(maps.Keys(families)))
	}
}

func TestLogLines(t *testing.T) {
	t.Parallel()
	var logs buffer
	o := newObserver(t, &logs)
	everything(t, o, "order-events", "kafka-primary")
	levels := map[string]string{}
	for _, l := range logs.lines(t) {
		for key, v := range l {
			switch key {
			case "time", "level", "msg", "broker", "destination", "outcome", "category", "code", "count", "operation", "error":
			default:
				t.Errorf("the log has a field %s", key)
			}
			if strings.Contains(fmt.Sprint(v), "s3cret") {
				t.Errorf("the failure's text is logged: %v", l)
			}
		}
		if o, ok := l["outcome"]; ok {
			levels[fmt.Sprint(o, " ", l["code"], " ", l["count"])] = l["level"].(string)
		}
	}
	want := map[string]string{
		"CONFIRMED <nil> 2": "INFO", "REJECTED NACKED 1": "WARN", "PARKED TOO_LARGE 1": "ERROR",
		"AMBIGUOUS CONFIRM_TIMEOUT 1": "ERROR", "PARKED CONFIRM_TIMEOUT 1": "ERROR", "AMBIGUOUS <nil> 1": "ERROR",
		"AMBIGUOUS RELAY_LOST 3": "ERROR", "PARKED UNKNOWN_DESTINATION 2": "ERROR",
	}
	if !maps.Equal(levels, want) {
		t.Errorf("lines %v, want %v", levels, want)
	}
}

func TestLogIsRateLimitedAndLosesNoCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var logs buffer
		o := newObserver(t, &logs)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { o.Run(ctx) })
		for range 1000 { // 10 s
			o.Recorded("order-events", messaging.Ambiguous, timeout.Failure, "AMBIGUOUS", 2)
			<-time.After(10 * time.Millisecond) // of the bubble's clock
		}
		cancel()
		running.Wait()
		lines := logs.lines(t)
		sum := 0
		for _, l := range lines {
			sum += int(l["count"].(float64))
		}
		if sum != 2000 {
			t.Errorf("the lines count %d, want 2000", sum)
		}
		if len(lines) < 3 || len(lines) > 4 {
			t.Errorf("%d lines in 10 s at one per 5 s", len(lines))
		}
		if first := lines[0]["count"].(float64); first != 2 {
			t.Errorf("the first line waited: it counts %v", first)
		}
	})
}

func TestNewRefusesATakenRegistry(t *testing.T) {
	t.Parallel()
	o := newObserver(t, nil)
	if _, err := observe.New(observe.Config{Registry: o.Registry()}); err == nil {
		t.Error("two observers share a registry")
	}
}

func BenchmarkRecorded(b *testing.B) {
	o, err := observe.New(observe.Config{Destinations: map[messaging.DestinationName]string{"order-events": "k"}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		o.Recorded("order-events", messaging.Confirmed, nil, "PUBLISHED", 100)
		o.Published("order-events", "k", confirmed)
	}
}
