package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/config"
)

// TestRelayFileIsAccepted reads what the demo writes as the relay does.
func TestRelayFileIsAccepted(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]services{
		"both brokers": {
			postgres: "postgres://postgres:secret@127.0.0.1:5432/postgres?sslmode=disable", kafka: "127.0.0.1:9092,127.0.0.1:9093",
			rabbit: "amqp://relay:s3cret@127.0.0.1:5672/demo", rabbitAPI: "http://relay:s3cret@127.0.0.1:15672",
			kafkaVia: "127.0.0.1:4001", rabbitVia: "127.0.0.1:4002",
		},
		"no management API": {
			postgres: "postgres://localhost/postgres", kafka: "127.0.0.1:9092", rabbit: "amqp://relay:s3cret@127.0.0.1/",
			kafkaVia: "127.0.0.1:4001", rabbitVia: "127.0.0.1:4002",
		},
		"no RabbitMQ": {postgres: "postgres://localhost/postgres", kafka: "127.0.0.1:9092", kafkaVia: "127.0.0.1:4001"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{options: options{dir: t.TempDir()}, services: &s, places: newPlaces(time.Unix(0, 0)), listen: [2]string{"127.0.0.1:4003", "127.0.0.1:4004"}}
			text := w.relayYAML()
			if strings.Contains(text, "s3cret") {
				t.Error("the file holds the password")
			}
			if err := os.WriteFile(w.relayFile(), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			c, _, err := config.Load(config.Options{File: w.relayFile(), Env: w.relayEnv(1)})
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if c.HTTP.Listen != w.listen[1] {
				t.Errorf("listens on %s, want %s", c.HTTP.Listen, w.listen[1])
			}
			if got := len(c.Messaging.Destinations); got != 1 && s.rabbit == "" || got != 2 && s.rabbit != "" {
				t.Errorf("%d destinations", got)
			}
		})
	}
}

func TestVariables(t *testing.T) {
	t.Parallel()
	got := variables("# pg17: PG_URL_17 is given\nKAFKA_BOOTSTRAP='127.0.0.1:9092'\nRABBITMQ_URL_1='amqp://u:p=1@h/'\n")
	if len(got) != 2 || got["KAFKA_BOOTSTRAP"] != "127.0.0.1:9092" || got["RABBITMQ_URL_1"] != "amqp://u:p=1@h/" {
		t.Errorf("%q", got)
	}
}

// TestVerdict: each invariant alone decides.
func TestVerdict(t *testing.T) {
	t.Parallel()
	good := column{title: "t", inserted: 10, published: 10, doubted: 3, duplicates: 2, ordered: true}
	for name, c := range map[string]struct {
		change func(*column)
		holds  bool
	}{
		"duplicates and doubt are normal": {func(*column) {}, true},
		"nothing happened":                {func(c *column) { c.inserted, c.published = 0, 0 }, false},
		"not published":                   {func(c *column) { c.published = 9 }, false},
		"left in the outbox":              {func(c *column) { c.unpublished = 1 }, false},
		"lost":                            {func(c *column) { c.lost = 1 }, false},
		"applied twice":                   {func(c *column) { c.doubled = 1 }, false},
		"another id":                      {func(c *column) { c.renamed = 1 }, false},
		"out of order":                    {func(c *column) { c.disordered = 1 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one := good
			c.change(&one)
			v := verdict{columns: []column{good, one}}
			if v.holds() != c.holds {
				t.Errorf("holds %t", v.holds())
			}
			var out strings.Builder
			v.print(&out)
			if broken := strings.Contains(out.String(), "BROKEN"); broken && c.holds {
				t.Errorf("the table says BROKEN:\n%s", out.String())
			}
		})
	}
}

// TestEnvFileIsPrivate: it holds the passwords that the commands at the end need.
func TestEnvFileIsPrivate(t *testing.T) {
	t.Parallel()
	s := services{postgres: "postgres://u:it's@h/d", kafka: "127.0.0.1:9092"}
	w := &world{options: options{dir: t.TempDir()}, services: &s}
	if err := w.leaveFiles(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(w.dir, "env"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v: others could read the passwords", info.Mode())
	}
}
