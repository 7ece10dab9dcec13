package actuator

import (
	"net/http"
	"time"
)

// staleAfter is three times the timeout of a statement: a relay whose poll cycle
// did not finish for so long does not get through to its database.
const staleAfter = 3 * 5 * time.Second

type readyBody struct {
	Ready        bool                   `json:"ready"`
	Reasons      []string               `json:"reasons"`
	Destinations []readyDestinationBody `json:"destinations"`
}

type readyDestinationBody struct {
	Name   string `json:"name"`
	Ready  bool   `json:"ready"`
	Reason string `json:"reason"`
	Since  string `json:"since"`
}

func (h *handler) ready(w http.ResponseWriter, _ *http.Request) {
	body := readyOf(h.health.Health(), time.Now())
	status := http.StatusOK
	if !body.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, body)
}

// readyOf tells each destination's own state, and refuses readiness as a whole
// only where taking this relay out of service loses nothing: one broken
// destination among others is no reason to restart or replace it.
func readyOf(health Health, now time.Time) readyBody {
	body := readyBody{Reasons: []string{}, Destinations: make([]readyDestinationBody, 0, len(health.Destinations))}
	publishable := 0
	for _, d := range health.Destinations {
		if d.Ready {
			publishable++
		}
		body.Destinations = append(body.Destinations, readyDestinationBody{
			Name: string(d.Name), Ready: d.Ready, Reason: d.Reason, Since: timeText(d.Since),
		})
	}
	if health.Draining {
		body.Reasons = append(body.Reasons, "the relay is stopping")
	}
	switch {
	case health.LastCycle.IsZero():
		body.Reasons = append(body.Reasons, "no poll cycle has finished yet")
	case now.Sub(health.LastCycle) > staleAfter:
		body.Reasons = append(body.Reasons, "no poll cycle finished within "+staleAfter.String())
	}
	switch {
	case len(health.Destinations) == 0:
		body.Reasons = append(body.Reasons, "nothing can be published: no destination is served")
	case publishable == 0:
		body.Reasons = append(body.Reasons, "nothing can be published: every destination is out")
	}
	body.Ready = len(body.Reasons) == 0
	return body
}
