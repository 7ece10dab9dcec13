package actuator

import (
	"net/http"
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

// The states of a destination, the most telling first.
const (
	statePaused   = "PAUSED"
	stateUnserved = "UNSERVED"
	stateBreaker  = "BREAKER_OPEN"
	stateNotReady = "NOT_READY"
	stateRunning  = "RUNNING"
)

// unregistered is the name under which rows of unknown destinations are shown,
// as in the metrics: what a writer put into the row is not repeated.
const unregistered = "unknown"

type outboxBody struct {
	AsOf         string            `json:"asOf"`
	Destinations []destinationBody `json:"destinations"`
}

type destinationBody struct {
	Name             string     `json:"name"`
	State            string     `json:"state"`
	Reason           string     `json:"reason"`
	Counts           countsBody `json:"counts"`
	Leased           int64      `json:"leased"`
	OldestAgeSeconds float64    `json:"oldestAgeSeconds"`
	// Breaker is this relay's own view; null where it does not serve the destination.
	Breaker *breakerBody `json:"breaker"`
}

// breakerBody holds the states CLOSED, OPEN or HALF_OPEN, and how many rows may
// be open after a recovery, 0 for any number.
type breakerBody struct {
	Broker      string `json:"broker"`
	Destination string `json:"destination"`
	SlowStart   int    `json:"slowStart"`
}

type countsBody struct {
	Pending          int64 `json:"pending"`
	Scheduled        int64 `json:"scheduled"`
	RetryableFailure int64 `json:"retryableFailure"`
	Ambiguous        int64 `json:"ambiguous"`
	Held             int64 `json:"held"`
	Published        int64 `json:"published"`
	Parked           int64 `json:"parked"`
}

func (h *handler) outbox(w http.ResponseWriter, r *http.Request) {
	stats, err := h.stats.get(r.Context())
	if err != nil {
		h.statsFailed(err)
		writeJSON(w, http.StatusServiceUnavailable, errorBody{Error: "the outbox cannot be read"})
		return
	}
	writeJSON(w, http.StatusOK, outboxOf(stats, h.health.Health()))
}

func outboxOf(stats Stats, health Health) outboxBody {
	own := make(map[messaging.DestinationName]DestinationHealth, len(health.Destinations))
	for _, d := range health.Destinations {
		own[d.Name] = d
	}
	body := outboxBody{AsOf: timeText(stats.AsOf), Destinations: make([]destinationBody, 0, len(stats.Destinations))}
	for _, d := range stats.Destinations {
		b := destinationBody{
			Name: string(d.Name), Leased: d.Leased, OldestAgeSeconds: seconds(d.Oldest),
			Counts: countsBody{
				Pending: d.Pending, Scheduled: d.Scheduled, RetryableFailure: d.RetryableFailure, Ambiguous: d.Ambiguous,
				Held: d.Held, Published: d.Published, Parked: d.Parked,
			},
		}
		b.State, b.Reason = stateOf(d, own)
		if here, served := own[d.Name]; served && here.OwnBreaker != "" {
			b.Breaker = &breakerBody{Broker: here.BrokerBreaker, Destination: here.OwnBreaker, SlowStart: here.SlowStart}
		}
		if d.Name == "" {
			b.Name = unregistered
		}
		body.Destinations = append(body.Destinations, b)
	}
	return body
}

// stateOf joins what the database knows with what this relay knows. A breaker is
// this relay's own: another relay of the fleet may still reach the broker.
func stateOf(d DestinationStats, own map[messaging.DestinationName]DestinationHealth) (state, reason string) {
	here, served := own[d.Name]
	switch {
	case d.Name == "":
		return stateUnserved, "no relay's configuration names the destination"
	case d.Paused != "":
		return statePaused, d.Paused
	case served && here.BreakerOpen:
		return stateBreaker, here.Reason
	case served && !here.Ready:
		return stateNotReady, here.Reason
	case !served && !d.Served:
		return stateUnserved, "no running relay serves the destination"
	default:
		return stateRunning, ""
	}
}

// timeText is RFC 3339 in UTC.
func timeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// seconds keeps milliseconds.
func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }
