package main

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// leaveFiles writes what the commands below need: the relays' file with the brokers' own addresses in place of the proxies,
// and the environment. The latter holds passwords and is readable by its owner alone.
func (w *world) leaveFiles() error {
	direct := *w.services
	direct.kafkaVia, _, _ = strings.Cut(w.services.kafka, ",")
	if u, err := url.Parse(w.services.rabbit); err == nil {
		direct.rabbitVia = u.Host
	}
	after := *w
	after.services = &direct
	if err := os.WriteFile(w.relayFile(), []byte(after.relayYAML()), 0o644); err != nil {
		return err
	}
	var env strings.Builder
	for _, e := range w.relayEnv(0) {
		name, value, _ := strings.Cut(e, "=")
		fmt.Fprintf(&env, "%s='%s'\n", name, strings.ReplaceAll(value, "'", `'\''`))
	}
	return os.WriteFile(w.envFile(), []byte(env.String()), 0o600)
}

func (w *world) envFile() string { return filepath.Join(w.dir, "env") }

// printWhereNext names what is left to look at. The servers run on; the relays have been stopped.
func (w *world) printWhereNext(out io.Writer) {
	fmt.Fprintf(out, `
  Done in %.0f s: %s.
  "Duplicates seen" came over the wire a second time, under the same id; the inbox applied none of them again.

  Where to look next
    addresses for the shell   set -a; . %s; set +a
    rows and their evidence   psql "$RELAY_DATABASE_URL" -c "select * from messaging_outbox_status where ambiguous_attempts > 0"
    counts                    %s outbox stats
`, w.took.Seconds(), w.faults, shown(w.envFile()), shown(w.programs.program("inboxctl")))
	if w.services.embedded == nil {
		fmt.Fprintf(out, "    run a relay again         %s run --config %s\n", shown(w.programs.program("relay")), shown(w.relayFile()))
		fmt.Fprintf(out, "      its actuator            http://%s/actuator/messaging/outbox   /readyz   /metrics\n", w.listen[0])
		fmt.Fprintf(out, "    Kafka                     %s, topic %s\n", w.services.kafka, w.places.Topic)
	}
	if api, err := url.Parse(w.services.rabbitAPI); err == nil && api.Host != "" {
		api.User = nil
		fmt.Fprintf(out, "    RabbitMQ                  %s, queue %s\n", api, w.places.Queue)
	}
	fmt.Fprintf(out, `    logs                      %s
    the example's code        examples/orders, from service.go on
    stop the servers          tools/services/down.sh   (what the demo started; the next demo starts in seconds)
`, shown(filepath.Join(w.dir, "log")))
}

// shown is a path as one would type it.
func shown(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if rel, err := filepath.Rel(here, path); err == nil && !strings.HasPrefix(rel, "..") {
		return rel
	}
	return path
}
