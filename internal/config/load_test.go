package config

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAcceptedFiles(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"production": production, "local": local} {
		c, warnings, findings := load(t, text)
		if len(findings) > 0 {
			t.Fatalf("%s: %v", name, findings)
		}
		if len(warnings) > 0 {
			t.Errorf("%s: warnings %q", name, warnings)
		}
		if len(c.Served()) == 0 {
			t.Errorf("%s serves nothing", name)
		}
	}
}

func TestDefaultsAreTheDocumentedOnes(t *testing.T) {
	t.Parallel()
	c, _, findings := load(t, local)
	if findings != nil {
		t.Fatal(findings)
	}
	r := c.Relay
	got := []any{
		r.Lease.Std(), r.Poll.Std(), r.Batch, r.WakeUp, r.Attempts, r.Backoff.Initial.Std(), r.Backoff.Max.Std(),
		r.Backoff.Multiplier, r.Backoff.Jitter, r.HeadPolicy, r.Keyless, r.BlockedFor == nil,
		r.UnknownDestinationGrace.Std(), r.Retention.Published.Std(), r.Drain.Std(), r.Breaker.Failures,
		r.Breaker.OpenFor.Std(), r.Breaker.OpenMax.Std(), c.Database.PoolMax, c.Database.Pooler, c.HTTP.Listen,
		c.Inbox.Retention.Std(), c.LogicalPayload(), c.ProducerInFlight(), c.Handlers(),
	}
	want := []any{
		30 * time.Second, 500 * time.Millisecond, 100, WakeUpAuto, 20, time.Second, 5 * time.Minute,
		2.0, JitterFull, Block, RefuseKeyless, true,
		time.Minute, 7 * day, 30 * time.Second, 5,
		time.Second, 30 * time.Second, 10, PoolerNone, "127.0.0.1:8080",
		30 * day, int64(1048576), 1000, 16,
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("default %d: %v, want %v", i, got[i], want[i])
		}
	}
	s := c.Served()[1]
	if s.Name != "order-events" || s.Timeout != 5*time.Second || s.RequestTimeout != 2*time.Second ||
		s.DeliveryTimeout != 20*time.Second || s.AbandonAfter != time.Minute || s.MaxBytes != 1<<20 || s.Types != nil {
		t.Errorf("served: %+v", s)
	}
}

func TestServedInheritsFromRelayWhatItDoesNotSet(t *testing.T) {
	t.Parallel()
	text := edited(t, local,
		"relay/attempts = 7", "relay/backoff = {initial: 2s, max: 1m, jitter: none}",
		"relay/head-policy = SKIP", "relay/keyless = allow", "relay/serve = [order-*]",
		"messaging/destinations/order-events/outbox = {backoff: {max: 10s}}",
		"messaging/destinations/order-events/guarantees = {ordering: KEY}")
	c, _, findings := load(t, text)
	if findings != nil {
		t.Fatal(findings)
	}
	served := c.Served()
	if len(served) != 1 {
		t.Fatalf("served %v", served)
	}
	s := served[0]
	want := Backoff{Initial: Duration(2 * time.Second), Max: Duration(10 * time.Second), Multiplier: 2, Jitter: JitterNone}
	if s.Backoff != want || s.Attempts != 7 || s.HeadPolicy != Skip || s.Keyless != AllowKeyless {
		t.Errorf("served: %+v", s)
	}
	if got := c.Registered(); strings.Join(got, " ") != "email-work order-events" {
		t.Errorf("registered %q", got)
	}
}

func TestEnvironmentWinsOverTheFile(t *testing.T) {
	t.Parallel()
	text := edited(t, local, "relay/lease = soon", "relay/wake-up = off")
	c, warnings, findings := load(t, text,
		"RELAY_RELAY_LEASE=45s", "RELAY_RELAY_BREAKER_OPEN_FOR=2s", "RELAY_RELAY_SERVE=order-events, email-work",
		"RELAY_RELAY_DRAIN=1h", "RELAY_DATABASE_URL=postgres://relay:S3cr3t@db/orders", "RELAY_HTTP_LISTEN=",
		"RELAY_MESSAGING_ENVIRONMENT=test", "RELAY_PORT=tcp://10.0.0.1:80", "RELAY_SERVICE_HOST=10.0.0.1",
		"RELAY_MESSAGING_LIMITS_HANDLERS_VALUE=8", "RELAY_RELAY_RETENTION_ARCHIVE=false")
	if findings != nil {
		t.Fatal(findings)
	}
	if c.Relay.Lease.Std() != 45*time.Second || c.Relay.Breaker.OpenFor.Std() != 2*time.Second ||
		len(c.Relay.Serve) != 2 || c.Relay.Serve[1] != "email-work" || c.Relay.Drain.Std() != time.Hour ||
		c.HTTP.Listen != "127.0.0.1:8080" || c.Messaging.Environment != Test || c.Relay.WakeUp != WakeUpOff || c.Handlers() != 8 {
		t.Errorf("%+v", c.Relay)
	}
	if len(warnings) != 2 || !strings.Contains(warnings[0], "RELAY_PORT") || !strings.Contains(warnings[1], "RELAY_SERVICE_HOST") {
		t.Errorf("warnings %q", warnings)
	}
	if c.Database.URL.String() != "env:RELAY_DATABASE_URL" {
		t.Errorf("database.url prints %q", c.Database.URL)
	}
	if url, err := c.Database.URL.Resolve(); err != nil || url != "postgres://relay:S3cr3t@db/orders" {
		t.Errorf("database.url: %v", err)
	}
}

func TestEnvironmentFindingNamesTheVariable(t *testing.T) {
	t.Parallel()
	_, _, findings := load(t, local, "RELAY_RELAY_LEASE=30", "RELAY_DATABASE_POOL_MAX=0", "RELAY_RELAY_WAKE_UP=maybe")
	want := []string{
		`database.pool-max (RELAY_DATABASE_POOL_MAX): "0" is out of range (1 to 1000)`,
		`relay.lease (RELAY_RELAY_LEASE): "30" has no unit`,
		`relay.wake-up (RELAY_RELAY_WAKE_UP): "maybe" is not one of auto, off`,
	}
	if len(findings) != len(want) {
		t.Fatalf("%v", findings)
	}
	for i, w := range want {
		if !strings.HasPrefix(findings[i].String(), w) {
			t.Errorf("%s, want %s", findings[i], w)
		}
	}
}

func TestVariablesAreUniqueAndNoTopLevelKeyMeetsAnInjectedOne(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for variable, s := range settings() {
		if seen[s.path] {
			t.Errorf("%s stands for two paths", variable)
		}
		seen[s.path] = true
		if strings.HasPrefix(variable, "RELAY_PORT") || strings.HasPrefix(variable, "RELAY_SERVICE") || variable == VariableFile {
			t.Errorf("%s is a name that Kubernetes injects or that names the file", variable)
		}
	}
	if len(seen) < 60 {
		t.Errorf("only %d settings found", len(seen))
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "relay.yaml")
	if err := os.WriteFile(name, []byte(local), 0o600); err != nil {
		t.Fatal(err)
	}
	c, _, err := Load(Options{Env: []string{"RELAY_CONFIG=" + name}})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Path("ca.pem"); got != filepath.Join(dir, "ca.pem") {
		t.Errorf("a relative path became %s", got)
	}
	for _, o := range []Options{{Env: []string{}}, {File: filepath.Join(dir, "absent.yaml"), Env: []string{}}} {
		if _, _, err := Load(o); err == nil || !strings.Contains(err.Error(), "1 finding") {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestExplainNamesTheSource(t *testing.T) {
	t.Parallel()
	c, _, findings := load(t, edited(t, local, "relay/lease = 1m"), "RELAY_RELAY_POLL=1s", "RELAY_DATABASE_URL=postgres://u:S3cr3t@h/d")
	if findings != nil {
		t.Fatal(findings)
	}
	want := map[string]Effective{
		"relay.poll":   {Value: "1s", Source: "RELAY_RELAY_POLL"},
		"relay.batch":  {Value: "100", Source: "default"},
		"relay.serve":  {Value: "[*]", Source: "default"},
		"database.url": {Value: "env:RELAY_DATABASE_URL", Source: "RELAY_DATABASE_URL"},
		"messaging.consumers.order-projection.group":                 {Value: "order-projection", Source: "derived"},
		"messaging.consumers.order-projection.retry.max-attempts":    {Value: "1", Source: "derived"},
		"messaging.consumers.email-sender.unhandled":                 {Value: "PARK", Source: "derived"},
		"messaging.destinations.order-events.producer.abandon-after": {Value: "1m", Source: "derived"},
		"messaging.destinations.order-events.payload.max-bytes":      {Value: "1MiB", Source: "derived"},
		"messaging.brokers.kafka.seeds":                              {Value: "[127.0.0.1:9092]", Source: "line 5"},
		"security.credentials.guest.password":                        {Value: "env:RABBITMQ_PASSWORD", Source: "line 13"},
	}
	for _, e := range c.Explain() {
		w, ok := want[e.Path]
		delete(want, e.Path)
		if ok && e.Value != w.Value || ok && !strings.HasPrefix(w.Source, "line") && e.Source != w.Source {
			t.Errorf("%+v, want %+v", e, w)
		}
		if strings.Contains(e.Value, "S3cr3t") {
			t.Errorf("%s shows a secret", e.Path)
		}
	}
	if len(want) > 0 {
		t.Errorf("not explained: %v", want)
	}
}

func TestReadyNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	text := edited(t, production, "messaging/brokers/kafka-primary/tls/certificate = c.pem", "messaging/brokers/kafka-primary/tls/key = k.pem", "- database")
	c, _, findings := load(t, text, "KAFKA_PASSWORD=x")
	if findings != nil {
		t.Fatal(findings)
	}
	err := c.Ready("relay.yaml")
	var refused *Error
	if !errors.As(err, &refused) {
		t.Fatalf("%v", err)
	}
	var paths []string
	for _, f := range refused.Findings {
		paths = append(paths, f.Path)
	}
	want := []string{
		"database.url", "messaging.brokers.kafka-primary.tls", "messaging.brokers.rabbit-primary.tls",
		"security.credentials.rabbit-producer.password", "security.credentials.rabbit-reader.password",
	}
	slices.Sort(paths)
	if !slices.Equal(paths, want) {
		t.Errorf("%v", err)
	}
	c, _, _ = load(t, local, "RABBITMQ_PASSWORD=guest", "RELAY_DATABASE_URL=postgres://h/d")
	if err := c.Ready("relay.yaml"); err != nil {
		t.Error(err)
	}
}
