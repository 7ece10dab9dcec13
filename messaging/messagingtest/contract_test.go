package messagingtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

// theCases are the contract's cases by their names; none may be dropped.
var theCases = []string{
	"normal publish", "reject", "ambiguity", "same-id retry", "normal consume", "handler failure", "settlement loss", "redelivery",
	"retry exhausted", "DLQ confirm", "DLQ failure", "redrive identity", "ordering scope", "payload limit", "header policy",
	"schema failure", "credential", "ACL", "TLS failure", "graceful shutdown", "cardinality",
}

// kinds are the brokers that there are adapters for, or will be, with what each declares.
var kinds = map[string]struct {
	able   messaging.Capabilities
	topics bool
	// absent are the cases of which nothing applies.
	absent []string
}{
	"kafka": {able: messaging.Capabilities{
		BrokerAcknowledgement: true, ReplicationOrPersistenceEvidence: true, BatchSettlement: true, OrderedStream: true,
		KeyedOrdering: true, Replay: true, BrokerTransaction: true,
	}, topics: true},
	"kafka, one replica": {able: messaging.Capabilities{
		BrokerAcknowledgement: true, BatchSettlement: true, OrderedStream: true, KeyedOrdering: true, Replay: true,
	}, topics: true},
	"rabbitmq, quorum queues": {able: messaging.Capabilities{
		BrokerAcknowledgement: true, ReplicationOrPersistenceEvidence: true, PerMessageSettlement: true, KeyedOrdering: true,
		DelayedDelivery: true, NativeDeadLetter: true,
	}},
	"rabbitmq, classic queues": {able: messaging.Capabilities{BrokerAcknowledgement: true, PerMessageSettlement: true, KeyedOrdering: true}},
	"nats jetstream": {able: messaging.Capabilities{
		BrokerAcknowledgement: true, ReplicationOrPersistenceEvidence: true, PerMessageSettlement: true, OrderedStream: true,
		Replay: true, DelayedDelivery: true, DeduplicatedPublish: true,
	}},
	"pulsar": {able: messaging.Capabilities{
		BrokerAcknowledgement: true, ReplicationOrPersistenceEvidence: true, PerMessageSettlement: true, BatchSettlement: true,
		OrderedStream: true, KeyedOrdering: true, Replay: true, DelayedDelivery: true, DeduplicatedPublish: true, NativeDeadLetter: true,
	}, topics: true},
	"kafka share group": {able: messaging.Capabilities{
		BrokerAcknowledgement: true, ReplicationOrPersistenceEvidence: true, PerMessageSettlement: true,
	}},
	"watermill bridge": {
		able: messaging.Capabilities{PerMessageSettlement: true},
		absent: []string{
			"reject", "same-id retry", "handler failure", "retry exhausted", "DLQ confirm", "DLQ failure",
			"redrive identity", "schema failure",
		},
	},
	"everything": {able: Everything, topics: true},
}

func TestContractOnEveryKindOfBroker(t *testing.T) {
	t.Parallel()
	for name, tt := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := rehearse(t, MemorySubject(tt.able, tt.topics))
			if len(report.Failed)+len(report.NotProved) > 0 {
				t.Errorf("the report:\n%s", report)
			}
			listed := slices.Clone(report.Proved)
			for _, c := range theCases {
				if slices.Contains(tt.absent, c) {
					if slices.Contains(report.Proved, c) {
						t.Errorf("%s is proved, though nothing of it applies", c)
					}
				} else if !slices.Contains(report.Proved, c) {
					t.Errorf("%s is not proved", c)
				}
			}
			for _, line := range report.NotApplicable {
				c, _, _ := strings.Cut(line, "/")
				c, _, _ = strings.Cut(c, ":")
				listed = append(listed, c)
			}
			for _, c := range theCases {
				if !slices.Contains(listed, c) {
					t.Errorf("%s is dropped from the report", c)
				}
			}
		})
	}
}

func TestContractHasItsCases(t *testing.T) {
	t.Parallel()
	var names []string
	for _, c := range contract() {
		names = append(names, c.name)
	}
	slices.Sort(names)
	want := slices.Sorted(slices.Values(theCases))
	if !slices.Equal(names, want) {
		t.Errorf("the cases are %v", names)
	}
}

// TestRunContract runs it as an adapter's author does, in real time.
func TestRunContract(t *testing.T) {
	t.Parallel()
	memory := MemorySubject(kinds["rabbitmq, quorum queues"].able, false)
	report := RunContract(t, func(tb testing.TB) Subject {
		s := memory(tb)
		s.Quiet = 50 * time.Millisecond
		return s
	})
	if len(report.Proved) != len(theCases) {
		t.Errorf("%d cases proved of %d", len(report.Proved), len(theCases))
	}
}

// TestWhatCannotBeProvokedIsNotProved shows that a set-up without handles proves little, and says so.
func TestWhatCannotBeProvokedIsNotProved(t *testing.T) {
	t.Parallel()
	whole := MemorySubject(Everything, true)
	report := rehearse(t, func(tb testing.TB) Subject {
		s := whole(tb)
		s.Inject, s.As, s.Nowhere, s.PublishOnly = nil, nil, nil, false
		return s
	})
	for _, c := range []string{"ambiguity", "credential", "ACL", "TLS failure", "reject", "DLQ failure", "cardinality"} {
		if slices.Contains(report.Proved, c) {
			t.Errorf("%s is proved without any fault", c)
		}
	}
	if len(report.Failed) > 0 || len(report.NotProved) == 0 {
		t.Errorf("the report:\n%s", report)
	}
}
