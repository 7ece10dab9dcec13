package config

// The words that the file knows. Each is a type of its own with its allowed Values; anything else is a finding that
// lists them.
type (
	// Environment decides which rules of safety hold.
	Environment string
	// BrokerKind chooses the adapter.
	BrokerKind string
	// DestinationKind says what a destination is for.
	DestinationKind string
	// Delivery is the delivery guarantee of a destination.
	Delivery string
	// Processing is the processing guarantee of a destination's consumers.
	Processing string
	// Ordering is the scope in which order is promised.
	Ordering string
	// Confirmation is the proof that a publish needs before the row is PUBLISHED.
	Confirmation string
	// HeadPolicy says what a parked row does to the later rows of its key.
	HeadPolicy string
	// Keyless says what becomes of a message without ordering key on a KEY destination.
	Keyless string
	// KeyFrom is the rule by which the client fills an empty ordering key.
	KeyFrom string
	// RoutingKeyFrom names what a RabbitMQ routing key is taken from.
	RoutingKeyFrom string
	// Acks is the acknowledgement that a Kafka producer asks for.
	Acks string
	// Codec names how a payload is encoded.
	Codec string
	// Compatibility is how a schema may change.
	Compatibility string
	// MessageKind is what a message of the catalogue is.
	MessageKind string
	// Grant opens one ability beyond typed publishing and handling.
	Grant string
	// RetryMode is how a consumer waits before the next attempt.
	RetryMode string
	// OrderingImpact says whether a retry may break order.
	OrderingImpact string
	// SideEffect is what a handler promises about effects outside the broker.
	SideEffect string
	// SubscriptionType is how an experimental broker shares a destination among the members of a consumer.
	SubscriptionType string
	// Unhandled says what becomes of a catalogue type without handler.
	Unhandled string
	// OnExhausted says what happens when the attempts of a delivery are used up.
	OnExhausted string
	// Jitter spreads waits.
	Jitter string
	// Pooler names what stands between the relay and PostgreSQL.
	Pooler string
	// WakeUp says whether inserts wake the relay by a notification.
	WakeUp string
	// Mechanism is how a credential proves itself to a broker.
	Mechanism string
	// TopologyMode says who makes topics, exchanges and queues.
	TopologyMode string
	// StoreKind is the kind of a claim-check store.
	StoreKind string
	// LogLevel is the least severe level that is written.
	LogLevel string
	// LogFormat is the form of a log line.
	LogFormat string
	// Category is a failure category.
	Category string
)

// Environments.
const (
	Local       Environment = "local"
	Test        Environment = "test"
	Development Environment = "development"
	Staging     Environment = "staging"
	Production  Environment = "production"
)

// Broker kinds.
const (
	Kafka    BrokerKind = "kafka"
	RabbitMQ BrokerKind = "rabbitmq"
	NATS     BrokerKind = "nats"
	Pulsar   BrokerKind = "pulsar"
)

// Destination kinds.
const (
	Command     DestinationKind = "COMMAND"
	EventStream DestinationKind = "EVENT_STREAM"
	WorkQueue   DestinationKind = "WORK_QUEUE"
	PubSub      DestinationKind = "PUBSUB"
)

// Guarantees.
const (
	AtMostOnce  Delivery = "AT_MOST_ONCE"
	AtLeastOnce Delivery = "AT_LEAST_ONCE"

	ApplicationIdempotent Processing = "APPLICATION_IDEMPOTENT"
	BrokerTransactional   Processing = "BROKER_TRANSACTIONAL"

	OrderingNone        Ordering = "NONE"
	OrderingDestination Ordering = "DESTINATION"
	OrderingPartition   Ordering = "PARTITION"
	OrderingKey         Ordering = "KEY"

	BrokerAck                   Confirmation = "BROKER_ACK"
	ReplicationOrPersistenceAck Confirmation = "REPLICATION_OR_PERSISTENCE_ACK"

	SideEffectNone      SideEffect = "NONE"
	IdempotencyRequired SideEffect = "IDEMPOTENCY_REQUIRED"
	InboxTransactional  SideEffect = "INBOX_TRANSACTIONAL"
)

// Words of the outbox.
const (
	Block HeadPolicy = "BLOCK"
	Skip  HeadPolicy = "SKIP"

	RefuseKeyless Keyless = "refuse"
	AllowKeyless  Keyless = "allow"

	KeyFromAggregateID KeyFrom = "aggregate-id"

	RoutingKeyFromPartitionKey RoutingKeyFrom = "partition-key"

	JitterFull Jitter = "full"
	JitterNone Jitter = "none"

	PoolerNone        Pooler = "none"
	PoolerTransaction Pooler = "transaction"

	WakeUpAuto WakeUp = "auto"
	WakeUpOff  WakeUp = "off"
)

// Words of retrying.
const (
	RetryNone        RetryMode = "NONE"
	RetryInline      RetryMode = "INLINE"
	RetryBlocking    RetryMode = "BLOCKING"
	PausePartition   RetryMode = "PAUSE_PARTITION"
	RetryDestination RetryMode = "RETRY_DESTINATION"
	BrokerDelayed    RetryMode = "BROKER_DELAYED"

	Preserve     OrderingImpact = "PRESERVE"
	AllowReorder OrderingImpact = "ALLOW_REORDER"
)

// Grants.
const (
	BatchPublish     Grant = "BATCH_PUBLISH"
	BatchConsume     Grant = "BATCH_CONSUME"
	ManualSettlement Grant = "MANUAL_SETTLEMENT"
	DelayedPublish   Grant = "DELAYED_PUBLISH"
	RequestReply     Grant = "REQUEST_REPLY"
	RawBytes         Grant = "RAW_BYTES"
	KafkaTombstone   Grant = "KAFKA_TOMBSTONE"
	KafkaTransaction Grant = "KAFKA_TRANSACTION"
	KafkaHints       Grant = "KAFKA_HINTS"
	RabbitHints      Grant = "RABBIT_HINTS"
)

// Subscription types.
const (
	ShareGroup      SubscriptionType = "SHARE_GROUP"
	OrderedConsumer SubscriptionType = "ORDERED"
	SharedConsumer  SubscriptionType = "SHARED"
	KeyShared       SubscriptionType = "KEY_SHARED"
)

// Credential mechanisms.
const (
	ScramSHA512 Mechanism = "SCRAM-SHA-512"
	ScramSHA256 Mechanism = "SCRAM-SHA-256"
	Plain       Mechanism = "PLAIN"
	OAuthBearer Mechanism = "OAUTHBEARER"
	External    Mechanism = "EXTERNAL"
)

// Topology modes.
const (
	ValidateOnly  TopologyMode = "VALIDATE_ONLY"
	AutoCreateDev TopologyMode = "AUTO_CREATE_DEV"
	AdminManaged  TopologyMode = "ADMIN_MANAGED"
)

// Codecs of this version.
const (
	JSON Codec = "json"
	Raw  Codec = "raw"
)

// Words of a consumer's end.
const (
	DeadLetter     OnExhausted = "DEAD_LETTER"
	BlockExhausted OnExhausted = "BLOCK"

	IgnoreUnhandled Unhandled = "IGNORE"
	ParkUnhandled   Unhandled = "PARK"
)

// enum is a word type: a string kind with its allowed values, in the order in which they are documented.
type enum interface{ Values() []string }

func words[T ~string](vs ...T) []string {
	out := make([]string, len(vs))
	for i, v := range vs {
		out[i] = string(v)
	}
	return out
}

// Values lists the allowed words.
func (Environment) Values() []string {
	return words(Local, Test, Development, Staging, Production)
}

// Values lists the allowed words.
func (BrokerKind) Values() []string { return words(Kafka, RabbitMQ, NATS, Pulsar) }

// Values lists the allowed words.
func (DestinationKind) Values() []string { return words(Command, EventStream, WorkQueue, PubSub) }

// Values lists the allowed words.
func (Delivery) Values() []string { return words(AtLeastOnce, AtMostOnce) }

// Values lists the allowed words.
func (Processing) Values() []string { return words(ApplicationIdempotent, BrokerTransactional) }

// Values lists the allowed words.
func (Ordering) Values() []string {
	return words(OrderingNone, OrderingDestination, OrderingPartition, OrderingKey)
}

// Values lists the allowed words.
func (Confirmation) Values() []string { return words(BrokerAck, ReplicationOrPersistenceAck) }

// Values lists the allowed words.
func (HeadPolicy) Values() []string { return words(Block, Skip) }

// Values lists the allowed words.
func (Keyless) Values() []string { return words(RefuseKeyless, AllowKeyless) }

// Values lists the allowed words.
func (KeyFrom) Values() []string { return words(KeyFromAggregateID) }

// Values lists the allowed words.
func (RoutingKeyFrom) Values() []string { return words(RoutingKeyFromPartitionKey) }

// Values lists the allowed words.
func (Acks) Values() []string { return []string{"all", "leader", "none"} }

// Values lists the allowed words.
func (Codec) Values() []string { return []string{"json", "avro", "protobuf", "raw"} }

// Values lists the allowed words.
func (Compatibility) Values() []string {
	return []string{
		"BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE",
		"NONE_EXPERIMENTAL",
	}
}

// Values lists the allowed words.
func (MessageKind) Values() []string {
	return []string{"COMMAND", "DOMAIN_EVENT", "INTEGRATION_EVENT", "WORK_ITEM"}
}

// Values lists the allowed words.
func (Grant) Values() []string {
	return words(BatchPublish, BatchConsume, ManualSettlement, DelayedPublish, RequestReply, RawBytes,
		KafkaTombstone, KafkaTransaction, KafkaHints, RabbitHints)
}

// Values lists the allowed words.
func (RetryMode) Values() []string {
	return words(RetryNone, RetryInline, RetryBlocking, PausePartition, RetryDestination, BrokerDelayed)
}

// Values lists the allowed words.
func (OrderingImpact) Values() []string { return words(Preserve, AllowReorder) }

// Values lists the allowed words.
func (SideEffect) Values() []string {
	return words(SideEffectNone, IdempotencyRequired, InboxTransactional)
}

// Values lists the allowed words.
func (SubscriptionType) Values() []string {
	return words(ShareGroup, OrderedConsumer, SharedConsumer, KeyShared)
}

// Values lists the allowed words.
func (Unhandled) Values() []string { return words(IgnoreUnhandled, ParkUnhandled) }

// Values lists the allowed words.
func (OnExhausted) Values() []string { return words(DeadLetter, BlockExhausted) }

// Values lists the allowed words.
func (Jitter) Values() []string { return words(JitterFull, JitterNone) }

// Values lists the allowed words.
func (Pooler) Values() []string { return words(PoolerNone, PoolerTransaction) }

// Values lists the allowed words.
func (WakeUp) Values() []string { return words(WakeUpAuto, WakeUpOff) }

// Values lists the allowed words.
func (Mechanism) Values() []string {
	return words(ScramSHA512, ScramSHA256, Plain, OAuthBearer, External)
}

// Values lists the allowed words.
func (TopologyMode) Values() []string { return words(ValidateOnly, AdminManaged, AutoCreateDev) }

// Values lists the allowed words.
func (StoreKind) Values() []string { return []string{"file", "s3"} }

// Values lists the allowed words.
func (LogLevel) Values() []string { return []string{"debug", "info", "warn", "error"} }

// Values lists the allowed words.
func (LogFormat) Values() []string { return []string{"json", "text"} }

// Values lists the allowed words.
func (Category) Values() []string {
	return []string{
		"TRANSIENT_INFRASTRUCTURE", "THROTTLED", "PROCESSING_TRANSIENT", "PERMANENT_BUSINESS", "POISON_MESSAGE",
		"DESERIALIZATION", "AUTHENTICATION", "AUTHORIZATION", "AMBIGUOUS", "CONFIGURATION", "VALIDATION",
	}
}
