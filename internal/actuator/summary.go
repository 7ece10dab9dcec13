package actuator

import (
	"net/http"
	"runtime"
	"runtime/debug"
	"time"
)

type summaryBody struct {
	Version      string            `json:"version"`
	StartedAt    string            `json:"startedAt"`
	State        string            `json:"state"` // RUNNING or DRAINING
	Ready        bool              `json:"ready"`
	Reasons      []string          `json:"reasons"`
	Destinations summaryOfServed   `json:"destinations"`
	Outbox       *summaryOfOutbox  `json:"outbox"` // null while the database cannot be read
	Links        map[string]string `json:"links"`
}

type summaryOfServed struct {
	Served int `json:"served"`
	Ready  int `json:"ready"`
}

type summaryOfOutbox struct {
	AsOf             string     `json:"asOf"`
	Counts           countsBody `json:"counts"`
	Leased           int64      `json:"leased"`
	OldestAgeSeconds float64    `json:"oldestAgeSeconds"`
}

func (h *handler) summary(w http.ResponseWriter, r *http.Request) {
	health := h.health.Health()
	ready := readyOf(health, time.Now())
	body := summaryBody{
		Version: h.version, StartedAt: timeText(h.started), State: stateRunning, Ready: ready.Ready, Reasons: ready.Reasons,
		Destinations: summaryOfServed{Served: len(health.Destinations)},
		Links: map[string]string{
			"outbox": "/actuator/messaging/outbox", "storage": "/actuator/messaging/storage", "health": "/healthz", "readiness": "/readyz", "metrics": "/metrics", "info": "/info",
		},
	}
	if health.Draining {
		body.State = "DRAINING"
	}
	for _, d := range health.Destinations {
		if d.Ready {
			body.Destinations.Ready++
		}
	}
	if stats, err := h.stats.get(r.Context()); err == nil {
		body.Outbox = totalOf(stats)
	} else {
		h.statsFailed(err)
	}
	writeJSON(w, http.StatusOK, body)
}

func totalOf(stats Stats) *summaryOfOutbox {
	t := &summaryOfOutbox{AsOf: timeText(stats.AsOf)}
	for _, d := range stats.Destinations {
		t.Counts.Pending += d.Pending
		t.Counts.Scheduled += d.Scheduled
		t.Counts.RetryableFailure += d.RetryableFailure
		t.Counts.Ambiguous += d.Ambiguous
		t.Counts.Held += d.Held
		t.Counts.Published += d.Published
		t.Counts.Parked += d.Parked
		t.Leased += d.Leased
		t.OldestAgeSeconds = max(t.OldestAgeSeconds, seconds(d.Oldest))
	}
	return t
}

type infoBody struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	Go        string `json:"go"`
	Revision  string `json:"revision,omitempty"`
	StartedAt string `json:"startedAt"`
}

func (h *handler) info(w http.ResponseWriter, _ *http.Request) {
	body := infoBody{Name: "relay", Version: h.version, Go: runtime.Version(), StartedAt: timeText(h.started)}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, s := range build.Settings {
			if s.Key == "vcs.revision" {
				body.Revision = s.Value
			}
		}
	}
	writeJSON(w, http.StatusOK, body)
}
