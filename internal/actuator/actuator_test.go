package actuator_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/backend-skeleton/relay/internal/actuator"
	"github.com/backend-skeleton/relay/internal/observe"
	"github.com/backend-skeleton/relay/messaging"
)

// fakeStats is an outbox that answers what it was told.
type fakeStats struct {
	stats actuator.Stats
	err   error
	cost  time.Duration
	calls atomic.Int32
	open  atomic.Int32
	both  atomic.Bool // two queries ran at one time
}

func (f *fakeStats) OutboxStats(ctx context.Context) (actuator.Stats, error) {
	f.calls.Add(1)
	if f.open.Add(1) > 1 {
		f.both.Store(true)
	}
	defer f.open.Add(-1)
	if f.cost > 0 {
		select {
		case <-time.After(f.cost):
		case <-ctx.Done():
			return actuator.Stats{}, ctx.Err()
		}
	}
	return f.stats, f.err
}

type fakeHealth struct{ h actuator.Health }

func (f *fakeHealth) Health() actuator.Health { return f.h }

func newHandler(t *testing.T, stats actuator.StatsReader, health actuator.Health, logger *slog.Logger) http.Handler {
	t.Helper()
	o, err := observe.New(observe.Config{
		Version: "1.2.3", Logger: logger,
		Destinations: map[messaging.DestinationName]string{"order-events": "kafka-primary", "email-work": "rabbit-primary"},
	})
	if err != nil {
		t.Fatal(err)
	}
	h, err := actuator.New(actuator.Config{Stats: stats, Storage: fakeStorage{}, Health: &fakeHealth{health}, Observer: o, Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func request(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

var since = time.Date(2026, 3, 1, 12, 0, 0, 0, time.FixedZone("", 9*3600))

func healthy() actuator.Health {
	return actuator.Health{LastCycle: time.Now(), Destinations: []actuator.DestinationHealth{
		{Name: "order-events", Ready: true, Since: since, BrokerBreaker: "CLOSED", OwnBreaker: "CLOSED", SlowStart: 20},
		{Name: "email-work", Reason: messaging.CodeNotAuthorized, Since: since, BreakerOpen: true, BrokerBreaker: "CLOSED", OwnBreaker: "OPEN"},
	}}
}

func someStats() actuator.Stats {
	return actuator.Stats{AsOf: since, Destinations: []actuator.DestinationStats{
		{
			Name: "order-events", Pending: 1, Scheduled: 2, RetryableFailure: 3, Ambiguous: 4, Held: 5, Published: 6, Parked: 7, Leased: 8,
			Oldest: 1500 * time.Millisecond, Served: true, Lanes: map[string]int64{"LEASED": 16},
		},
		{Name: "email-work", Pending: 9, Served: true},
		{Name: "paused", Served: true, Paused: "maintenance"},
		{Name: "elsewhere", Served: true},
		{Name: "nobodys"},
		{Pending: 2},
	}}
}

func TestOutboxPage(t *testing.T) {
	t.Parallel()
	h := newHandler(t, &fakeStats{stats: someStats()}, healthy(), nil)
	w := request(h, http.MethodGet, "/actuator/messaging/outbox")
	if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("status %d, header %v", w.Code, w.Header())
	}
	zero := `"counts":{"pending":0,"scheduled":0,"retryableFailure":0,"ambiguous":0,"held":0,"published":0,"parked":0},"leased":0,"oldestAgeSeconds":0,"breaker":null`
	want := `{"asOf":"2026-03-01T03:00:00.000Z","destinations":[` +
		`{"name":"order-events","state":"RUNNING","reason":"","counts":{"pending":1,"scheduled":2,"retryableFailure":3,"ambiguous":4,"held":5,"published":6,"parked":7},"leased":8,"oldestAgeSeconds":1.5,"breaker":{"broker":"CLOSED","destination":"CLOSED","slowStart":20}},` +
		`{"name":"email-work","state":"BREAKER_OPEN","reason":"NOT_AUTHORIZED",` + strings.NewReplacer(`"pending":0`, `"pending":9`, `null`, `{"broker":"CLOSED","destination":"OPEN","slowStart":0}`).Replace(zero) + `},` +
		`{"name":"paused","state":"PAUSED","reason":"maintenance",` + zero + `},` +
		`{"name":"elsewhere","state":"RUNNING","reason":"",` + zero + `},` +
		`{"name":"nobodys","state":"UNSERVED","reason":"no running relay serves the destination",` + zero + `},` +
		`{"name":"unknown","state":"UNSERVED","reason":"no relay's configuration names the destination",` + strings.Replace(zero, `"pending":0`, `"pending":2`, 1) + `}]}`
	if got := compact(t, w.Body.String()); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A destination that is not ready although no breaker keeps its rows back is not shown as one that has an open breaker.
func TestOutboxPageTellsABrokerThatIsSilentFromAnOpenBreaker(t *testing.T) {
	t.Parallel()
	health := healthy()
	health.Destinations[1] = actuator.DestinationHealth{Name: "email-work", Reason: messaging.CodeBrokerUnreachable, Since: since}
	w := request(newHandler(t, &fakeStats{stats: someStats()}, health, nil), http.MethodGet, "/actuator/messaging/outbox")
	if want := `{"name":"email-work","state":"NOT_READY","reason":"BROKER_UNREACHABLE",`; !strings.Contains(compact(t, w.Body.String()), want) {
		t.Errorf("no %s in %s", want, w.Body)
	}
}

func compact(t *testing.T, s string) string {
	t.Helper()
	var b strings.Builder
	inString := false
	for i, r := range s {
		if r == '"' && (i == 0 || s[i-1] != '\\') {
			inString = !inString
		}
		if inString || r != ' ' && r != '\n' {
			b.WriteRune(r)
		}
	}
	if !json.Valid([]byte(b.String())) {
		t.Fatalf("not JSON: %s", s)
	}
	return b.String()
}

func TestAFailingDatabaseIsNamedWithoutItsText(t *testing.T) {
	t.Parallel()
	var logs strings.Builder
	h := newHandler(t, &fakeStats{err: errors.New("dial db.internal: refused s3cret")}, healthy(), slog.New(slog.NewTextHandler(&logs, nil)))
	w := request(h, http.MethodGet, "/actuator/messaging/outbox")
	if w.Code != http.StatusServiceUnavailable || compact(t, w.Body.String()) != `{"error":"the outbox cannot be read"}` {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if !strings.Contains(logs.String(), "refused") {
		t.Error("the cause is not in the log")
	}
	w = request(h, http.MethodGet, "/actuator/messaging")
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"outbox": null`) || strings.Contains(w.Body.String(), "s3cret") {
		t.Errorf("summary: %d %s", w.Code, w.Body)
	}
	for _, path := range []string{"/healthz", "/readyz", "/info"} {
		if w := request(h, http.MethodGet, path); w.Code != http.StatusOK {
			t.Errorf("%s: %d while the statistics fail", path, w.Code)
		}
	}
	if w := request(h, http.MethodGet, "/metrics"); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "relay_outbox_rows") || !strings.Contains(w.Body.String(), `relay_build_info{version="1.2.3"} 1`) {
		t.Errorf("metrics: %d", w.Code)
	}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	up := []actuator.DestinationHealth{{Name: "order-events", Ready: true, Since: since}}
	down := []actuator.DestinationHealth{{Name: "order-events", Reason: messaging.CodeBrokerUnreachable, Since: since}}
	for name, c := range map[string]struct {
		health  actuator.Health
		status  int
		reasons []string
	}{
		"one of two destinations is out": {healthy(), 200, nil},
		"every destination is out":       {actuator.Health{LastCycle: time.Now(), Destinations: down}, 503, []string{"nothing can be published: every destination is out"}},
		"draining":                       {actuator.Health{LastCycle: time.Now(), Draining: true, Destinations: up}, 503, []string{"the relay is stopping"}},
		"no cycle yet":                   {actuator.Health{Destinations: up}, 503, []string{"no poll cycle has finished yet"}},
		"cycle 14 s ago":                 {actuator.Health{LastCycle: time.Now().Add(-14 * time.Second), Destinations: up}, 200, nil},
		"cycle 16 s ago":                 {actuator.Health{LastCycle: time.Now().Add(-16 * time.Second), Destinations: up}, 503, []string{"no poll cycle finished within 15s"}},
		"nothing served":                 {actuator.Health{LastCycle: time.Now()}, 503, []string{"nothing can be published: no destination is served"}},
		"several": {actuator.Health{Draining: true, Destinations: down}, 503, []string{
			"the relay is stopping", "no poll cycle has finished yet", "nothing can be published: every destination is out",
		}},
	} {
		stats := &fakeStats{}
		w := request(newHandler(t, stats, c.health, nil), http.MethodGet, "/readyz")
		var body struct {
			Ready        bool
			Reasons      []string
			Destinations []struct {
				Name, Reason, Since string
				Ready               bool
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
			t.Fatal(err)
		}
		if w.Code != c.status || body.Ready != (c.status == 200) || strings.Join(body.Reasons, "|") != strings.Join(c.reasons, "|") || body.Reasons == nil {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if len(body.Destinations) != len(c.health.Destinations) {
			t.Errorf("%s: %d destinations", name, len(body.Destinations))
		}
		for i, d := range body.Destinations {
			if want := c.health.Destinations[i]; d.Name != string(want.Name) || d.Ready != want.Ready || d.Reason != want.Reason || d.Since != "2026-03-01T03:00:00.000Z" {
				t.Errorf("%s: %+v", name, d)
			}
		}
		if stats.calls.Load() != 0 {
			t.Errorf("%s: readiness asked the database", name)
		}
	}
}

func TestOnlyGetAndHead(t *testing.T) {
	t.Parallel()
	h := newHandler(t, &fakeStats{stats: someStats()}, healthy(), nil)
	paths := []string{"/actuator/messaging", "/actuator/messaging/outbox", "/actuator/messaging/storage", "/healthz", "/readyz", "/metrics", "/info"}
	for _, path := range paths {
		for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"} {
			if w := request(h, method, path); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: %d, Allow %q", method, path, w.Code, w.Header().Get("Allow"))
			}
		}
		if w := request(h, http.MethodHead, path); w.Code != http.StatusOK {
			t.Errorf("HEAD %s: %d", path, w.Code)
		}
		if w := request(h, http.MethodGet, path); w.Code != http.StatusOK {
			t.Errorf("GET %s: %d", path, w.Code)
		}
	}
	for _, path := range []string{"/", "/debug/pprof/", "/actuator", "/actuator/messaging/outbox/x", "/admin"} {
		if w := request(h, http.MethodGet, path); w.Code != http.StatusNotFound {
			t.Errorf("GET %s: %d", path, w.Code)
		}
	}
	if w := request(h, http.MethodPost, "/admin"); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST of an unknown path: %d", w.Code)
	}
}

func TestSummaryAndInfo(t *testing.T) {
	t.Parallel()
	h := newHandler(t, &fakeStats{stats: someStats()}, healthy(), nil)
	var body struct {
		Version, State, StartedAt string
		Ready                     bool
		Destinations              struct{ Served, Ready int }
		Outbox                    struct {
			Counts           struct{ Pending, Parked int }
			Leased           int
			OldestAgeSeconds float64
		}
		Links map[string]string
	}
	w := request(h, http.MethodGet, "/actuator/messaging")
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
		t.Fatal(err)
	}
	if body.Version != "1.2.3" || body.State != "RUNNING" || !body.Ready || body.Destinations.Served != 2 || body.Destinations.Ready != 1 ||
		body.Outbox.Counts.Pending != 12 || body.Outbox.Counts.Parked != 7 || body.Outbox.Leased != 8 || body.Outbox.OldestAgeSeconds != 1.5 {
		t.Errorf("%s", w.Body)
	}
	for _, path := range body.Links {
		if w := request(h, http.MethodGet, path); w.Code != http.StatusOK {
			t.Errorf("link %s: %d", path, w.Code)
		}
	}
	if w := request(h, http.MethodGet, "/info"); !strings.Contains(w.Body.String(), `"version": "1.2.3"`) || !strings.Contains(w.Body.String(), `"go": "go`) {
		t.Errorf("info: %s", w.Body)
	}
}

func TestMetricsShareTheStatistics(t *testing.T) {
	t.Parallel()
	stats := &fakeStats{stats: someStats()}
	h := newHandler(t, stats, healthy(), nil)
	request(h, http.MethodGet, "/actuator/messaging/outbox")
	text := request(h, http.MethodGet, "/metrics").Body.String()
	for _, want := range []string{
		`relay_outbox_rows{destination="order-events",status="PARKED"} 7`, `relay_outbox_rows{destination="unknown",status="PENDING"} 2`,
		`relay_outbox_oldest_age_seconds{destination="order-events"} 1.5`, `relay_lanes{destination="order-events",status="LEASED"} 16`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if strings.Contains(text, "nobodys") {
		t.Error("a name that is not in the configuration became a label")
	}
	if n := stats.calls.Load(); n != 1 {
		t.Errorf("%d queries for two pages within a second", n)
	}
}

func TestB62_StatisticsAreOneQueryAtATimeAndCached(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stats := &fakeStats{stats: someStats(), cost: 300 * time.Millisecond}
		h := newHandler(t, stats, healthy(), nil)
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if w := request(h, http.MethodGet, "/actuator/messaging/outbox"); w.Code != http.StatusOK {
					t.Errorf("status %d", w.Code)
				}
			})
		}
		all.Wait()
		if n := stats.calls.Load(); n != 1 || stats.both.Load() {
			t.Errorf("%d queries for 50 requests at once, two at a time: %v", n, stats.both.Load())
		}
		// A query of 300 ms is worth ten times as long.
		<-time.After(2900 * time.Millisecond) // of the bubble's clock
		request(h, http.MethodGet, "/actuator/messaging/outbox")
		if n := stats.calls.Load(); n != 1 {
			t.Errorf("%d queries within the time that the first is worth", n)
		}
		<-time.After(200 * time.Millisecond) // of the bubble's clock
		request(h, http.MethodGet, "/actuator/messaging/outbox")
		if n := stats.calls.Load(); n != 2 {
			t.Errorf("%d queries after that time, want 2", n)
		}
	})
}

func TestASlowQueryIsGivenUpAndNotRepeatedByEveryWaiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stats := &fakeStats{cost: time.Hour}
		h := newHandler(t, stats, healthy(), nil)
		began := time.Now()
		var all sync.WaitGroup
		for range 10 {
			all.Go(func() {
				if w := request(h, http.MethodGet, "/actuator/messaging/outbox"); w.Code != http.StatusServiceUnavailable {
					t.Errorf("status %d", w.Code)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took != 5*time.Second || stats.calls.Load() != 1 {
			t.Errorf("%v and %d queries", took, stats.calls.Load())
		}
	})
}

func TestACallerWhoGoesAwayDoesNotSpoilTheAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stats := &fakeStats{stats: someStats(), cost: time.Second}
		h := newHandler(t, stats, healthy(), nil)
		ctx, leave := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer leave()
		var all sync.WaitGroup
		all.Go(func() {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/actuator/messaging/outbox", nil))
		})
		synctest.Wait()
		all.Go(func() {
			if w := request(h, http.MethodGet, "/actuator/messaging/outbox"); w.Code != http.StatusOK {
				t.Errorf("status %d", w.Code)
			}
		})
		all.Wait()
		if n := stats.calls.Load(); n != 1 {
			t.Errorf("%d queries", n)
		}
	})
}

func TestNewNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	if _, err := actuator.New(actuator.Config{}); err == nil {
		t.Error("an actuator without ports")
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- actuator.Serve(ctx, l, newHandler(t, &fakeStats{}, healthy(), nil), slog.New(slog.DiscardHandler))
	}()
	res, err := http.Get("http://" + l.Addr().String() + "/healthz")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("status %d", res.StatusCode)
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it does not end")
	}
	if _, err := net.DialTimeout("tcp", l.Addr().String(), time.Second); err == nil {
		t.Error("it still listens")
	}
}
