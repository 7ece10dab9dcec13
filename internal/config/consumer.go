package config

// Consumer is one consumer of a service. The relay itself does not consume; since relay and services share the file,
// it is checked here as a whole.
type Consumer struct {
	// Name of the destination that it reads.
	Destination string `yaml:"destination" required:"true"`
	// Kafka: the consumer group; absent: the consumer's name.
	Group string `yaml:"group"`
	// RabbitMQ: the queue; absent: the destination's. A PUBSUB consumer names its own.
	Queue string `yaml:"queue"`
	// Experimental brokers: how the members of the consumer share the destination. Kafka: `SHARE_GROUP`; NATS:
	// `ORDERED`; Pulsar: `SHARED`, `KEY_SHARED`. Not available in this program.
	Subscription SubscriptionType `yaml:"subscription"`
	// Handlers that run at once; above 16 only with `messaging.limits.handlers`.
	Concurrency int `yaml:"concurrency" default:"1" range:"1..10000"`
	// RabbitMQ: deliveries that the broker sends ahead. Absent: twice the concurrency.
	Prefetch *int `yaml:"prefetch" range:"1..65535"`
	// Kafka: handlers of one partition that run at once; above 1 the keys run in parallel.
	MaxInFlightPerPartition *int `yaml:"max-in-flight-per-partition" range:"1..10000"`
	// When a handler's context ends.
	HandlerTimeout Duration `yaml:"handler-timeout" default:"30s" range:"1ms..1d"`
	// What happens after a failure that may pass.
	Retry Retry `yaml:"retry"`
	// Where exhausted and permanently failed messages go.
	DLQ DLQ `yaml:"dlq"`
	// Where this consumer parks; absent places: messaging.parking. They are on the broker of its destination.
	Parking ParkingPlaces `yaml:"parking"`
	// When the attempts are used up: `DEAD_LETTER` lets the key's later messages go on, `BLOCK` waits for an operator.
	OnExhausted OnExhausted `yaml:"on-exhausted" default:"DEAD_LETTER"`
	// What the handler's effects outside the broker rely on.
	ExternalSideEffect SideEffect `yaml:"external-side-effect" default:"IDEMPOTENCY_REQUIRED"`
	// A catalogue type without handler. Absent: `IGNORE` for EVENT_STREAM and PUBSUB, `PARK` for COMMAND and WORK_QUEUE.
	Unhandled Unhandled `yaml:"unhandled"`
	// Put what is exhausted with a possible side effect to manual review instead of the DLQ.
	ReviewDoubtful bool `yaml:"review-doubtful" default:"false"`
	// Abilities beyond typed handling that it may use.
	Grants []Grant `yaml:"grants"`
}

// Retry is what happens after a failure that may pass.
type Retry struct {
	// How the next attempt is waited for.
	Mode RetryMode `yaml:"mode" default:"NONE"`
	// Calls of the handler in all, the first included. Absent: 3, with mode NONE 1.
	MaxAttempts *int `yaml:"max-attempts" range:"1..1000"`
	// Wait before the second attempt. Absent: 1s, or max-delay if that is less.
	InitialDelay *Duration `yaml:"initial-delay" range:"1ms..7d"`
	// The longest wait. Absent: 30s, with mode INLINE 5s, or initial-delay if that is more.
	MaxDelay *Duration `yaml:"max-delay" range:"1ms..7d"`
	// Growth of the wait from attempt to attempt. Absent: 2.
	Multiplier *float64 `yaml:"multiplier" range:"1..10"`
	// Spread of the waits. Absent: `full`, with modes RETRY_DESTINATION and BROKER_DELAYED `none`.
	Jitter Jitter `yaml:"jitter"`
	// Whether a retry may break order. Absent: `PRESERVE` with modes BLOCKING and PAUSE_PARTITION, else `ALLOW_REORDER`.
	OrderingImpact OrderingImpact `yaml:"ordering-impact"`
	// Failure categories to retry; absent: TRANSIENT_INFRASTRUCTURE, THROTTLED and PROCESSING_TRANSIENT. Never among them:
	// DESERIALIZATION, AUTHENTICATION, AUTHORIZATION, CONFIGURATION and VALIDATION.
	Retryable []Category `yaml:"retryable"`
	// Failure categories never to retry.
	NonRetryable []Category `yaml:"non-retryable"`
}

// DLQ is where failed messages go.
type DLQ struct {
	// Name of the destination, on the same broker.
	Destination string `yaml:"destination"`
}

// Inbox is how long consumers remember what they have handled.
type Inbox struct {
	// How long a message id is remembered. With an INBOX_TRANSACTIONAL consumer at least assumed-broker-retention,
	// `windows.dlq`, the longer one of `windows.replay` and `windows.redrive`, and `windows.margin` together: less is
	// refused in staging and production, a warning elsewhere.
	Retention Duration `yaml:"retention" default:"30d" range:"1m..3650d"`
	// How long a broker is taken to keep a message. This version does not ask brokers, so an INBOX_TRANSACTIONAL consumer in
	// production must have it.
	AssumedBrokerRetention *Duration `yaml:"assumed-broker-retention"`
	// The windows that retention must cover besides the broker's own.
	Windows InboxWindows `yaml:"windows"`
}

// InboxWindows are the times in which a message may come back.
type InboxWindows struct {
	// How long a DLQ is kept.
	DLQ *Duration `yaml:"dlq"`
	// How far back a replay may reach.
	Replay *Duration `yaml:"replay"`
	// How late a redrive may come.
	Redrive *Duration `yaml:"redrive"`
	// Margin on top.
	Margin *Duration `yaml:"margin"`
}

// ClaimCheck is object stores for large payloads.
type ClaimCheck struct {
	// Stores by name. Not available in this version.
	Stores map[string]Store `yaml:"stores"`
}

// Store is one object store.
type Store struct {
	// The kind.
	Kind StoreKind `yaml:"kind" required:"true"`
	// File store: the directory.
	Directory string `yaml:"directory"`
	// S3: address of the service.
	Endpoint string `yaml:"endpoint"`
	// S3: region.
	Region string `yaml:"region"`
	// S3: bucket.
	Bucket string `yaml:"bucket"`
	// S3: access key id.
	AccessKey string `yaml:"access-key"`
	// S3: secret key, by reference.
	SecretKey Secret `yaml:"secret-key"`
	// How long an object is kept; longer than any copy of its message.
	Retention *Duration `yaml:"retention"`
}

// Admin is the admin plane.
type Admin struct {
	// Open the admin listener. Not available in this version.
	Enabled bool `yaml:"enabled" default:"false"`
	// Address and port.
	Listen string `yaml:"listen" default:"127.0.0.1:8081"`
}

// CDC is publishing by change data capture.
type CDC struct {
	// Publish by change data capture. Not available in this version.
	Enabled bool `yaml:"enabled" default:"false"`
}

// Experimental is what is outside the stable grade.
type Experimental struct {
	// Allow experimental brokers and features. Not available in this program.
	Enabled bool `yaml:"enabled" default:"false"`
}
