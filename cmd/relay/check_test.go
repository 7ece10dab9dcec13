package main

import (
	"net/url"
	"strings"
	"testing"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/cli/clitest"
	"github.com/backend-skeleton/relay/internal/dbtest"
)

// plant is a database and both brokers for one test, and the file that names them.
type plant struct {
	db    *dbtest.DB
	topic string
	vhost *brokertest.Vhost
	env   []string
	// text is the file; the names in <> are filled in by file.
	values map[string]string
}

const plantFile = `
messaging:
  environment: local
  brokers:
    kafka: {kind: kafka, seeds: ["<KAFKA>"]}
    rabbit: {kind: rabbitmq, seeds: ["<RABBIT>"], vhost: <VHOST>, producer-identity: rabbit, management: {url: "<MANAGEMENT>", identity: rabbit}}
  destinations:
    order-events: {broker: kafka, kind: EVENT_STREAM, physical: {topic: <TOPIC>}, guarantees: {ordering: KEY}, producer: {confirmation: <CONFIRMATION>, timeout: <TIMEOUT>}}
    email-work: {broker: rabbit, kind: WORK_QUEUE, physical: {exchange: <EXCHANGE>, routing-key: email, queue: mail}, producer: {timeout: 2s}}
relay: {lease: <LEASE>, poll: <POLL>, drain: <DRAIN>}
http: {listen: "127.0.0.1:0"}
security: {credentials: {rabbit: {mechanism: PLAIN, username: <USER>, password: "<PASSWORD>"}}}
`

func newPlant(t *testing.T, opts ...dbtest.Option) *plant {
	t.Helper()
	bootstrap := brokertest.Require(t, "KAFKA_BOOTSTRAP")
	p := &plant{db: dbtest.New(t, opts...), topic: brokertest.Topic(t, bootstrap), vhost: brokertest.NewVhost(t)}
	p.vhost.Exchange(t, "work", "direct")
	p.vhost.Queue(t, "mail", nil)
	p.vhost.Bind(t, "work", "mail", "email")
	u, err := url.Parse(p.vhost.URL())
	if err != nil {
		t.Fatal("the virtual host has no address")
	}
	password, _ := u.User.Password()
	api, err := url.Parse(p.vhost.API())
	if err != nil {
		t.Fatal("the management API has no address")
	}
	p.env = []string{"RELAY_DATABASE_URL=" + p.db.URL(), "RABBIT_PASSWORD=" + password}
	p.values = map[string]string{
		"KAFKA": strings.Split(bootstrap, ",")[0], "TOPIC": p.topic, "RABBIT": p.vhost.Addr(), "VHOST": p.vhost.Name, "USER": u.User.Username(),
		"MANAGEMENT": api.Scheme + "://" + api.Host, "EXCHANGE": "work", "PASSWORD": "env:RABBIT_PASSWORD",
		"TIMEOUT": "2s", "LEASE": "3s", "POLL": "100ms", "DRAIN": "5s", "CONFIRMATION": "BROKER_ACK",
	}
	return p
}

// file writes the plant's file with some values changed, given as NAME=value.
func (p *plant) file(t *testing.T, changes ...string) string {
	t.Helper()
	text := plantFile
	for _, change := range changes {
		name, value, _ := strings.Cut(change, "=")
		text = strings.ReplaceAll(text, "<"+name+">", value)
	}
	for name, value := range p.values {
		text = strings.ReplaceAll(text, "<"+name+">", value)
	}
	return file(t, text)
}

func TestCheckAsksEverything(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	check := func(env []string, changes ...string) clitest.Result {
		return relay(t, env, "check", "--config", p.file(t, changes...))
	}
	check(p.env).Want(t, 0, "database", "broker kafka", "broker rabbit", "destination order-events", "destination email-work")
	check(p.env, "TOPIC=relay.absent").Want(t, 6, "topic is absent, wanted present", "1 of 5 checks are not well")
	check(p.env, "EXCHANGE=absent").Want(t, 6, "exchange is absent, wanted present")
	check(p.env, "CONFIRMATION=REPLICATION_OR_PERSISTENCE_ACK").Want(t, 6, "cannot prove REPLICATION_OR_PERSISTENCE_ACK")
	check(p.env, "KAFKA=127.0.0.1:1").Want(t, 5, "broker kafka", "cannot be reached at 127.0.0.1:1; look at seeds", "destination email-work")
	check([]string{p.env[0], "RABBIT_PASSWORD=S3cr3t"}).Want(t, 5, "the broker refuses the credential")
	check(p.env[:1]).Want(t, 3, "security.credentials.rabbit.password (line 12): env:RABBIT_PASSWORD: the environment variable is not set")
	check(p.env[1:]).Want(t, 3, "database.url: is missing; set RELAY_DATABASE_URL")
	check(append([]string{"RELAY_DATABASE_URL=postgres://relay:S3cr3t@127.0.0.1:1/orders"}, p.env[1:]...)).Want(t, 4, "connection refused", "destination order-events")
	if r := relay(t, p.env, "check", "-o", "json", "--config", p.file(t)); r.Code != 0 || !strings.Contains(r.Stdout, `"subject": "database"`) {
		t.Errorf("exit code %d: %s", r.Code, r.Both())
	}
}

func TestStartIsRefusedWithoutAFittingSchema(t *testing.T) {
	t.Parallel()
	p := newPlant(t, dbtest.Empty())
	for _, verb := range []string{"run", "check"} {
		r := relay(t, p.env, verb, "--config", p.file(t))
		r.Want(t, 4, `the messaging schema is missing: run "relay migrate up"`)
	}
	relay(t, p.env, "migrate", "up").Want(t, 0)
	if _, err := p.db.Exec(t.Context(), `insert into messaging_schema_version (version_id, is_applied) values (9999, true)`); err != nil {
		t.Fatal(err)
	}
	relay(t, p.env, "run", "--config", p.file(t)).Want(t, 4, "newer than this program")
	relay(t, p.env, "migrate", "up").Want(t, 4, "newer than this program")
	relay(t, p.env, "migrate", "down").Want(t, 4, "newer than this program")
}

// A destination that cannot prove what the file demands is refused at start, not at the first message.
func TestStartIsRefusedWhereTheConfirmationCannotBeProved(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	r := relay(t, p.env, "run", "--config", p.file(t, "CONFIRMATION=REPLICATION_OR_PERSISTENCE_ACK"))
	r.Want(t, 3, "order-events", "REPLICATION_OR_PERSISTENCE_ACK", "min.insync.replicas")
	if strings.Contains(r.Stderr, "email-work") {
		t.Errorf("a destination on a quorum queue is blamed: %s", r.Stderr)
	}
}

// Failure case B76: no password of a broker is printed, right or wrong, in whatever goes wrong.
func TestB76_NoBrokerErrorShowsThePassword(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	secret := func(changes ...string) {
		for _, verb := range []string{"check", "run"} {
			env := []string{"RELAY_DATABASE_URL=postgres://relay:S3cr3t@127.0.0.1:1/orders", "RABBIT_PASSWORD=S3cr3t", "RELAY_OBSERVABILITY_LOG_LEVEL=debug"}
			if r := relay(t, env, verb, "--config", p.file(t, changes...)); r.Code == 0 || strings.Contains(r.Both(), "S3cr3t") {
				t.Errorf("%s %q: exit code %d: %s", verb, changes, r.Code, r.Both())
			}
		}
	}
	secret()
	for _, seed := range []string{"amqp://relay:S3cr3t@h:5672", "relay:S3cr3t@h:5672", "h:S3cr3t"} {
		secret("RABBIT=" + seed)
	}
	secret("MANAGEMENT=http://relay:S3cr3t@h:15672")
	secret("PASSWORD=S3cr3t")
}

// withUser is an address with another user and password.
func withUser(t *testing.T, address, user, password string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal("the database's address is not a URL")
	}
	u.User = url.UserPassword(user, password)
	return u.String()
}
