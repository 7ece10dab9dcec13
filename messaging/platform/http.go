package platform

import (
	"encoding/json"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Handler serves the pages of the platform for the service's own router, all of them read-only: /healthz (the process
// answers), /readyz (503 while draining; each destination with what it lacks), /metrics (Prometheus), /info and
// /actuator/messaging (a summary). Mount it at the root, or behind http.StripPrefix.
func (p *Platform) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "UP"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		body := p.readiness()
		status := http.StatusOK
		if !body.Ready {
			status = http.StatusServiceUnavailable
		}
		writeJSON(w, status, body)
	})
	mux.HandleFunc("GET /info", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"name": string(p.o.Producer), "version": version(), "startedAt": p.opened.UTC().Format(time.RFC3339)})
	})
	mux.HandleFunc("GET /actuator/messaging", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, p.summary())
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(p.watch.Registry(), promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: 4}))
	return mux
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

// version is the module's, as the program was built with it.
func version() string {
	const module = "github.com/backend-skeleton/relay"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if info.Main.Path == module && info.Main.Version != "" {
		return info.Main.Version
	}
	for _, dep := range info.Deps {
		if dep.Path == module {
			return dep.Version
		}
	}
	return "unknown"
}
