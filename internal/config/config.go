package config

// Config is the whole of relay.yaml, defaults filled in. Load makes it; it is not changed afterwards.
//
// The field comments here are the text of docs/configuration.md and of the JSON Schema; `go generate` writes both.
type Config struct {
	// Environment, brokers, destinations, consumers, message catalogue and limits. Relay and services share it.
	Messaging Messaging `yaml:"messaging"`
	// The PostgreSQL database that holds outbox and inbox.
	Database Database `yaml:"database"`
	// What the relay serves and how it leases, retries, keeps and stops.
	Relay Relay `yaml:"relay"`
	// How long a consumer remembers what it has handled.
	Inbox Inbox `yaml:"inbox"`
	// Object stores for payloads over the logical limit.
	ClaimCheck ClaimCheck `yaml:"claim-check"`
	// The listener of actuator, health and metrics.
	HTTP HTTP `yaml:"http"`
	// The listener of the admin plane.
	Admin Admin `yaml:"admin"`
	// Broker credentials, baggage and tenants that are allowed.
	Security Security `yaml:"security"`
	// Logs and traces.
	Observability Observability `yaml:"observability"`
	// Publishing by change data capture instead of polling.
	CDC CDC `yaml:"cdc"`
	// Brokers and features outside the stable grade.
	Experimental Experimental `yaml:"experimental"`

	dir    string         // of the file: relative paths start here
	file   string         // as it was named
	kinds  []string       // broker kinds of the program besides the built-in ones
	codecs []string       // codecs of the program besides json and raw
	lines  map[string]int // line of each path that the file holds
	known  map[string]bool
	env    map[string]string // path -> variable that set it
}

// Path makes a file name of the configuration (a certificate, say) absolute: relative names start at the directory of
// relay.yaml.
func (c *Config) Path(name string) string { return resolvePath(c.dir, name) }

// Database is the PostgreSQL database that holds outbox and inbox.
type Database struct {
	// Connection string of PostgreSQL 16 or newer. With a password it is a reference: `env:NAME` or `file:PATH`.
	URL DatabaseURL `yaml:"url"`
	// Most connections of one process, besides one that listens for wake-ups.
	PoolMax int `yaml:"pool-max" default:"10" range:"1..1000"`
	// A pooler between relay and server. `transaction` (PgBouncer's transaction mode): no prepared statements, and
	// no wake-up by notification.
	Pooler Pooler `yaml:"pooler" default:"none"`
}

// Relay is what the relay serves and how it leases, retries, keeps and stops.
type Relay struct {
	// Destinations that this relay publishes, by name or with the globs `*`, `?` and `[…]`. Rows of other
	// destinations are never touched.
	Serve []string `yaml:"serve" default:"*"`
	// How long a claim holds without renewal; a relay that died is replaced after at most this time. The publish
	// timeout of every served destination is shorter.
	Lease Duration `yaml:"lease" default:"30s" range:"1s..1h"`
	// The longest wait between two looks at the outbox when no wake-up comes.
	Poll Duration `yaml:"poll" default:"500ms" range:"10ms..1m"`
	// Most rows of one lane per claim.
	Batch int `yaml:"batch" default:"100" range:"1..1000"`
	// Wake-up by a PostgreSQL notification. `auto`: where the connection allows it; `off`: by polling alone.
	WakeUp WakeUp `yaml:"wake-up" default:"auto"`
	// Tries of a row before it is PARKED, where its destination says nothing else.
	Attempts int `yaml:"attempts" default:"20" range:"1..2147483647"`
	// Waits between the tries of a row, where its destination says nothing else.
	Backoff Backoff `yaml:"backoff"`
	// What a parked row does to the later rows of its key: `BLOCK` holds them, `SKIP` lets them pass.
	HeadPolicy HeadPolicy `yaml:"head-policy" default:"BLOCK"`
	// A row without ordering key on an `ordering: KEY` destination: `refuse` parks it, `allow` publishes it unordered.
	Keyless Keyless `yaml:"keyless" default:"refuse"`
	// How long a row may wait for a destination that is refused for its configuration or rights before it is parked.
	// Absent: until it is repaired.
	BlockedFor *Duration `yaml:"blocked-for" range:"1s..3650d"`
	// Age at which a row of a destination that no relay's file names is parked as unknown.
	UnknownDestinationGrace Duration `yaml:"unknown-destination-grace" default:"1m" range:"1s..30d"`
	// What happens to published rows.
	Retention Retention `yaml:"retention"`
	// The most time that a stop gives to publishes in flight.
	Drain Duration `yaml:"drain" default:"30s" range:"1s..1h"`
	// When the relay stops trying a broker or destination for a while.
	Breaker Breaker `yaml:"breaker"`
}

// Backoff is the wait between tries.
type Backoff struct {
	// Wait after the first failure.
	Initial Duration `yaml:"initial" default:"1s" range:"1ms..1d"`
	// The longest wait.
	Max Duration `yaml:"max" default:"5m" range:"1ms..7d"`
	// Growth of the wait from failure to failure.
	Multiplier float64 `yaml:"multiplier" default:"2" range:"1..10"`
	// `full`: each wait is drawn between zero and its length, so that rows spread; `none`: exactly its length.
	Jitter Jitter `yaml:"jitter" default:"full"`
}

// BackoffOverride is the wait between the tries of one destination's rows; absent keys: relay.backoff.
type BackoffOverride struct {
	// Wait after the first failure.
	Initial *Duration `yaml:"initial" range:"1ms..1d"`
	// The longest wait.
	Max *Duration `yaml:"max" range:"1ms..7d"`
	// Growth of the wait from failure to failure.
	Multiplier *float64 `yaml:"multiplier" range:"1..10"`
	// Spread of the waits.
	Jitter Jitter `yaml:"jitter"`
}

// Retention is what happens to published rows.
type Retention struct {
	// How long a published row is kept, counted from its publishing.
	Published Duration `yaml:"published" default:"7d" range:"1m..3650d"`
	// Move rows to the table messaging_outbox_archive instead of deleting them.
	Archive bool `yaml:"archive" default:"false"`
	// How long a row is kept in the archive, counted from its move there. It also holds for what is in the archive after it
	// was switched off.
	Archived Duration `yaml:"archived" default:"365d" range:"1m..3650d"`
	// Most rows that one statement of the retention looks at; slow statements are followed by smaller ones.
	Batch int `yaml:"batch" default:"5000" range:"1..50000"`
	// The most of its time that the retention works while this relay has rows to publish or while its statements are slow;
	// else it does not wait between them.
	Share float64 `yaml:"share" default:"0.25" range:"0.01..1"`
}

// Breaker says when the relay stops trying a broker or destination for a while.
type Breaker struct {
	// Failures in a row, without a success between them, that open it.
	Failures int `yaml:"failures" default:"5" range:"1..1000"`
	// First wait before the next probe.
	OpenFor Duration `yaml:"open-for" default:"1s" range:"10ms..1h"`
	// The longest wait before the next probe.
	OpenMax Duration `yaml:"open-max" default:"30s" range:"10ms..1h"`
	// Rows that a destination may have open right after it closed again. Each time so many were confirmed it doubles; above
	// 1000 it no longer counts.
	SlowStart int `yaml:"slow-start" default:"10" range:"1..1000"`
}

// HTTP is the listener of actuator, health and metrics.
type HTTP struct {
	// Address and port; port 0 takes a free one.
	Listen string `yaml:"listen" default:"127.0.0.1:8080"`
}

// Security is credentials, baggage and tenants.
type Security struct {
	// Broker credentials by name; brokers name them as producer and consumer identity.
	Credentials map[string]Credential `yaml:"credentials"`
	// Baggage keys that may travel with a message; none by default.
	Baggage []string `yaml:"baggage"`
	// Tenants that may stand in an envelope; empty: no tenant is accepted.
	Tenants []string `yaml:"tenants"`
}

// Credential is one identity at a broker.
type Credential struct {
	// How it proves itself. Kafka: `SCRAM-SHA-512`, `SCRAM-SHA-256`, `PLAIN`; RabbitMQ: `PLAIN`; both: `EXTERNAL`,
	// the client certificate of the broker's tls.
	Mechanism Mechanism `yaml:"mechanism" required:"true"`
	// User name; not with `EXTERNAL`.
	Username string `yaml:"username"`
	// Password, by reference: `env:NAME` or `file:PATH`. It is read again at every connect.
	Password Secret `yaml:"password"`
}

// Observability is logs and traces.
type Observability struct {
	// Least severe level that is written to standard error.
	LogLevel LogLevel `yaml:"log-level" default:"info"`
	// Form of a log line.
	LogFormat LogFormat `yaml:"log-format" default:"json"`
	// OpenTelemetry traces.
	Traces Traces `yaml:"traces"`
}

// Traces is OpenTelemetry.
type Traces struct {
	// Export traces. Not available in this version.
	Enabled bool `yaml:"enabled" default:"false"`
	// Address of an OTLP collector.
	Endpoint string `yaml:"endpoint"`
}
