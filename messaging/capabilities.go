package messaging

// Capabilities is what a destination can do. False means that a request which
// needs it is refused loudly, never weakened in silence.
type Capabilities struct {
	BrokerAcknowledgement            bool // the broker answers a publish
	ReplicationOrPersistenceEvidence bool // replication or durable storage was seen from the broker's settings
	PerMessageSettlement             bool
	BatchSettlement                  bool
	OrderedStream                    bool
	KeyedOrdering                    bool
	Replay                           bool
	DelayedDelivery                  bool
	BrokerTransaction                bool
	DeduplicatedPublish              bool
	NativeDeadLetter                 bool
	TopologyManagement               bool
}
