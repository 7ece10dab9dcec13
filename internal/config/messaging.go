package config

// Messaging is what relay and services must agree on.
type Messaging struct {
	// Which rules of safety hold: staging and production demand TLS with host names verified, broker
	// authentication, proved replication or persistence, and topology made by administrators.
	Environment Environment `yaml:"environment" required:"true"`
	// The brokers, by name.
	Brokers map[string]Broker `yaml:"brokers"`
	// The logical destinations, by the name that applications and the destination column use.
	Destinations map[string]Destination `yaml:"destinations"`
	// The consumers, by the name that inbox, metrics and commands use: `a-z 0-9 . _ -`, up to 200 characters.
	Consumers map[string]Consumer `yaml:"consumers"`
	// The message types, by name. Local and test environments may run without; where it stands, a row of another type
	// is parked.
	Catalogue map[string]CatalogueType `yaml:"catalogue"`
	// Limits that are lowered freely and raised only with a reason.
	Limits Limits `yaml:"limits"`
	// Where consumers put what they can neither handle nor dead-letter.
	Parking ParkingPlaces `yaml:"parking"`
	// Who makes topics, exchanges and queues.
	Topology Topology `yaml:"topology"`
}

// Broker is one broker or cluster.
type Broker struct {
	// The kind. `nats` and `pulsar` are experimental and not part of this program.
	Kind BrokerKind `yaml:"kind" required:"true"`
	// Addresses to start from, as `host:port`.
	Seeds []string `yaml:"seeds" required:"true"`
	// RabbitMQ: the virtual host; `/` if absent.
	VHost string `yaml:"vhost"`
	// TLS; `{}` is enough with the system's certificate authorities. Absent: plain text.
	TLS *TLS `yaml:"tls"`
	// Name of the credential that publishes.
	ProducerIdentity string `yaml:"producer-identity"`
	// Name of the credential that consumes.
	ConsumerIdentity string `yaml:"consumer-identity"`
	// RabbitMQ: the management API, asked read-only for what the queues of a destination are.
	Management *Management `yaml:"management"`
	// Allow a broker kind of the experimental grade. Not available in this program.
	Experimental bool `yaml:"experimental" default:"false"`
}

// TLS is how a connection is secured. Host names are always checked unless it is switched off here.
type TLS struct {
	// Use TLS.
	Enabled bool `yaml:"enabled" default:"true"`
	// File with the PEM certificates of the authorities to trust; absent: the system's.
	CA string `yaml:"ca"`
	// File with the client's PEM certificate; together with key.
	Certificate string `yaml:"certificate"`
	// File with the client's PEM key; together with certificate.
	Key string `yaml:"key"`
	// Host name to expect in the certificate; absent: the one that is dialled.
	ServerName string `yaml:"server-name"`
	// Check that the certificate is for the host. The chain is checked in any case.
	VerifyHostName bool `yaml:"verify-host-name" default:"true"`
}

// Management is RabbitMQ's management API.
type Management struct {
	// Address, such as `https://rabbit:15671`; without user and password.
	URL string `yaml:"url" required:"true"`
	// Name of the credential, with read-only rights.
	Identity string `yaml:"identity"`
	// TLS of the API; absent: the broker's.
	TLS *TLS `yaml:"tls"`
}

// Destination is the profile of a logical destination.
type Destination struct {
	// Name of the broker.
	Broker string `yaml:"broker" required:"true"`
	// What it is for.
	Kind DestinationKind `yaml:"kind" required:"true"`
	// Where it is on the broker.
	Physical Physical `yaml:"physical"`
	// Encoding of the payloads.
	Schema Schema `yaml:"schema"`
	// What is promised.
	Guarantees Guarantees `yaml:"guarantees"`
	// How it is published.
	Producer Producer `yaml:"producer"`
	// How the outbox treats its rows; absent keys: the default under relay.
	Outbox Outbox `yaml:"outbox"`
	// How large a message may be.
	Payload Payload `yaml:"payload"`
	// Abilities beyond typed publishing that its publishers may use.
	Grants []Grant `yaml:"grants"`
}

// Physical is where a destination is on its broker.
type Physical struct {
	// Kafka: the topic.
	Topic string `yaml:"topic"`
	// RabbitMQ: the exchange that is published to.
	Exchange string `yaml:"exchange"`
	// RabbitMQ: the routing key of every message, up to 255 bytes.
	RoutingKey string `yaml:"routing-key"`
	// RabbitMQ: take the routing key from each message instead.
	RoutingKeyFrom RoutingKeyFrom `yaml:"routing-key-from"`
	// RabbitMQ: the queue that a WORK_QUEUE consumer reads by default, and whose type proves persistence.
	Queue string `yaml:"queue"`
}

// Schema is the encoding of payloads.
type Schema struct {
	// The codec; absent: the catalogue's. This version has `json`, and `raw` with the grant `RAW_BYTES`.
	Codec Codec `yaml:"codec"`
	// How the schema may change; absent: the catalogue's.
	Compatibility Compatibility `yaml:"compatibility"`
}

// Guarantees is what a destination promises.
type Guarantees struct {
	// `AT_LEAST_ONCE`: duplicates are possible, loss is not. `AT_MOST_ONCE`: consumers settle before they handle.
	Delivery Delivery `yaml:"delivery" default:"AT_LEAST_ONCE"`
	// What consumers' processing relies on.
	Processing Processing `yaml:"processing"`
	// The scope of order. `KEY`: messages of one ordering key are published in the order of their commits.
	Ordering Ordering `yaml:"ordering" default:"NONE"`
}

// Producer is how a destination is published.
type Producer struct {
	// The proof that a row needs before it is PUBLISHED. `BROKER_ACK` is allowed in local, test and development.
	Confirmation Confirmation `yaml:"confirmation" default:"REPLICATION_OR_PERSISTENCE_ACK"`
	// When an unanswered publish becomes AMBIGUOUS; shorter than `relay.lease` less 250ms.
	Timeout Duration `yaml:"timeout" default:"5s" range:"10ms..10m"`
	// Kafka: how long the broker may wait for its in-sync replicas; up to timeout. Absent: 2s, or timeout if that is less.
	RequestTimeout *Duration `yaml:"request-timeout" range:"10ms..10m"`
	// Kafka: how long the client writes an unanswered record again; at least timeout less 1s. Absent: 20s, or twice
	// timeout if that is more. A broker that stands still for less makes no message come twice.
	DeliveryTimeout *Duration `yaml:"delivery-timeout" range:"10ms..1h"`
	// When a publish that is still unresolved is given up by closing the producer's session; at least the delivery
	// timeout, on RabbitMQ the timeout. Absent: 60s, or the delivery timeout if that is more.
	AbandonAfter *Duration `yaml:"abandon-after" range:"100ms..1h"`
	// RabbitMQ: a message that reaches no queue is returned. Always on.
	MandatoryRouting *bool `yaml:"mandatory-routing"`
	// RabbitMQ: publisher confirms. Always on.
	Confirms *bool `yaml:"confirms"`
	// RabbitMQ: returns of unroutable messages. Always on.
	Returns *bool `yaml:"returns"`
	// Kafka: the idempotent producer. Always on.
	Idempotence *bool `yaml:"idempotence"`
	// Kafka: the acknowledgement asked for. Always `all`.
	Acks Acks `yaml:"acks"`
}

// Outbox is how the outbox treats the rows of one destination.
type Outbox struct {
	// Tries of a row before it is PARKED.
	Attempts *int `yaml:"attempts" range:"1..2147483647"`
	// Waits between the tries of a row.
	Backoff BackoffOverride `yaml:"backoff"`
	// What a parked row does to the later rows of its key.
	HeadPolicy HeadPolicy `yaml:"head-policy"`
	// A row without ordering key on an `ordering: KEY` destination.
	Keyless Keyless `yaml:"keyless"`
	// The client copies the aggregate id into an empty ordering key at insert.
	KeyFrom KeyFrom `yaml:"key-from"`
	// How long a row may wait for a destination that is refused for its configuration or rights before it is parked.
	// Absent: relay.blocked-for.
	BlockedFor *Duration `yaml:"blocked-for" range:"1s..3650d"`
}

// Payload is how large a message may be.
type Payload struct {
	// Most bytes of one payload; absent: `messaging.limits.logical-payload`, else 1 MiB. Above that only with a reason.
	MaxBytes *Size `yaml:"max-bytes" range:"1B..8MiB"`
	// Why the limit is raised; logged at start.
	Reason string `yaml:"reason"`
}

// CatalogueType is one message type.
type CatalogueType struct {
	// What it is; events must say when they occurred.
	Kind MessageKind `yaml:"kind" required:"true"`
	// Schema versions that may be sent.
	Versions []int `yaml:"versions" required:"true" range:"1..2147483647"`
	// The codec. This version has `json`, and `raw` for bytes that no codec touches.
	Codec Codec `yaml:"codec" default:"json"`
	// Directory of its schemas and golden messages, relative to the file: `v1/schema.json`, `v1/valid.json`,
	// `v1/invalid/…`. Services hold payloads against them; `relay schema check` holds the versions against each other.
	Schema string `yaml:"schema"`
	// How its schema may change. Absent: `BACKWARD_TRANSITIVE`, for a COMMAND `BACKWARD`.
	Compatibility Compatibility `yaml:"compatibility"`
}

// ParkingPlaces names destinations.
type ParkingPlaces struct {
	// For what cannot be decoded or is foreign.
	Schema string `yaml:"schema"`
	// For what fails integrity, tenant or authority checks.
	Security string `yaml:"security"`
	// For what a person must look at.
	ManualReview string `yaml:"manual-review"`
}

// Topology is who makes topics, exchanges and queues.
type Topology struct {
	// `VALIDATE_ONLY`: what is missing is reported. `ADMIN_MANAGED` and `AUTO_CREATE_DEV` are not available in this
	// version; the latter never in staging and production.
	Mode TopologyMode `yaml:"mode" default:"VALIDATE_ONLY"`
}

// Limits are bounds; each holds its default if it is absent.
type Limits struct {
	// Payload bytes of one message; default 1 MiB, at most 8 MiB.
	LogicalPayload SizeLimit `yaml:"logical-payload" limit:"1MiB" range:"1B..8MiB"`
	// Bytes of all headers of one message; default 32 KiB.
	HeadersTotal SizeLimit `yaml:"headers-total" limit:"32KiB" range:"1B..1MiB"`
	// Headers of one message; default 64.
	HeadersCount CountLimit `yaml:"headers-count" limit:"64" range:"1..10000"`
	// Bytes of one header name; default 128.
	HeaderKey SizeLimit `yaml:"header-key" limit:"128B" range:"1B..1KiB"`
	// Bytes of one header value; default 4 KiB.
	HeaderValue SizeLimit `yaml:"header-value" limit:"4KiB" range:"1B..1MiB"`
	// Messages of one batch call; default 500.
	M2BatchMessages CountLimit `yaml:"m2-batch-messages" limit:"500" range:"1..100000"`
	// Bytes of one batch call; default 4 MiB.
	M2BatchBytes SizeLimit `yaml:"m2-batch-bytes" limit:"4MiB" range:"1B..64MiB"`
	// Handlers of one consumer that run at once; default 16.
	Handlers CountLimit `yaml:"handlers" limit:"16" range:"1..10000"`
	// Messages of one producer that wait for the broker's answer; default 1,000.
	ProducerInFlight CountLimit `yaml:"producer-in-flight" limit:"1000" range:"1..100000"`
	// Publishes to retry places of one consumer at once; default 4.
	RetryPublishes CountLimit `yaml:"retry-publishes" limit:"4" range:"1..1000"`
	// Messages of one redrive step; default 100.
	RedriveBatch CountLimit `yaml:"redrive-batch" limit:"100" range:"1..10000"`
}

// SizeLimit overrides a limit in bytes.
type SizeLimit struct {
	// The limit.
	Value *Size `yaml:"value"`
	// Why it is raised above its default (name the bench run); logged at start.
	Reason string `yaml:"reason"`
}

// CountLimit overrides a limit that counts.
type CountLimit struct {
	// The limit.
	Value *int `yaml:"value"`
	// Why it is raised above its default (name the bench run); logged at start.
	Reason string `yaml:"reason"`
}
