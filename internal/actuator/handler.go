package actuator

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/backend-skeleton/relay/internal/observe"
)

// Config of the actuator; all fields but Version are required.
type Config struct {
	Stats    StatsReader
	Storage  StorageReader
	Health   HealthReader
	Observer *observe.Observer
	// Version of the program.
	Version string
}

type handler struct {
	stats    *cache[Stats]
	store    *cache[Storage]
	health   HealthReader
	observer *observe.Observer
	version  string
	started  time.Time
}

// New makes the handler, and the metrics over the table, which share its cached
// statistics. It answers GET and HEAD alone.
func New(c Config) (http.Handler, error) {
	if c.Stats == nil || c.Storage == nil || c.Health == nil || c.Observer == nil {
		return nil, errors.New("actuator: stats, storage, health and observer are required")
	}
	h := &handler{
		stats: newCache(c.Stats.OutboxStats, freshFor), store: newCache(c.Storage.Storage, storageFreshFor),
		health: c.Health, observer: c.Observer, version: c.Version, started: time.Now(),
	}
	if err := c.Observer.CollectTable(2*queryTimeout, h.table); err != nil {
		return nil, err
	}
	if err := c.Observer.CollectStorage(2*queryTimeout, h.gauges); err != nil {
		return nil, err
	}
	r := chi.NewRouter()
	r.Use(readOnly)
	r.NotFound(func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusNotFound, errorBody{Error: "there is no such page"})
	})
	for path, page := range map[string]http.HandlerFunc{
		"/actuator/messaging":         h.summary,
		"/actuator/messaging/outbox":  h.outbox,
		"/actuator/messaging/storage": h.storage,
		"/healthz":                    h.alive,
		"/readyz":                     h.ready,
		"/info":                       h.info,
		"/metrics": promhttp.HandlerFor(c.Observer.Registry(), promhttp.HandlerOpts{
			ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4, Timeout: 3 * queryTimeout,
		}).ServeHTTP,
	} {
		r.Get(path, page)
		r.Head(path, page)
	}
	return r, nil
}

// readOnly refuses every other method on every path: nothing here changes
// anything, and nothing that is added by mistake may.
func readOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			writeJSON(w, http.StatusMethodNotAllowed, errorBody{Error: "only GET and HEAD are answered"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// alive says that the process answers, nothing more: a database or broker that is
// down is no reason to restart a relay.
func (h *handler) alive(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "UP"})
}

func (h *handler) table(ctx context.Context) ([]observe.TableRows, error) {
	stats, err := h.stats.get(ctx)
	if err != nil {
		return nil, err
	}
	rows := make([]observe.TableRows, 0, len(stats.Destinations))
	for _, d := range stats.Destinations {
		rows = append(rows, observe.TableRows{
			Destination: d.Name, Oldest: d.Oldest, Lanes: d.Lanes,
			Rows: map[string]int64{
				"PENDING": d.Pending, "SCHEDULED": d.Scheduled, "RETRYABLE_FAILURE": d.RetryableFailure, "AMBIGUOUS": d.Ambiguous,
				"HELD": d.Held, "PUBLISHED": d.Published, "PARKED": d.Parked,
			},
		})
	}
	return rows, nil
}

// statsFailed keeps the text of the error from the page: it may name hosts and
// users. A request that was given up by its caller is nobody's trouble.
func (h *handler) statsFailed(err error) {
	if !errors.Is(err, context.Canceled) {
		h.observer.Trouble("read the outbox for the actuator", err)
	}
}

type errorBody struct {
	Error string `json:"error"`
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(body) // the caller went away
}
