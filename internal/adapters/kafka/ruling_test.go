package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/backend-skeleton/relay/messaging"
)

func (s step) String() string {
	return [...]string{"unset", "stored", "again", "unsure", "renew", "split", "refuse", "give up"}[s]
}

func code(c int16) answer {
	return answer{begun: true, part: kmsg.ProduceResponseTopicPartition{ErrorCode: c}}
}

// TestJudge is the evidence table of single writes: what each proves, alone and
// after an earlier write of the same batch whose answer is not known.
func TestJudge(t *testing.T) {
	t.Parallel()
	refusedDial := fmt.Errorf("unable to dial: %w", &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED})
	cases := []struct {
		name         string
		a            answer
		alone, later string // step and code
	}{
		{"stored", code(0), "stored", "stored"},
		{"message too large", code(kerr.MessageTooLarge.Code), "split TOO_LARGE", "give up UNKNOWN_OUTCOME"},
		{"record list too large", code(kerr.RecordListTooLarge.Code), "split TOO_LARGE", "give up UNKNOWN_OUTCOME"},
		{"invalid record", code(kerr.InvalidRecord.Code), "split RECORD_REFUSED", "give up UNKNOWN_OUTCOME"},
		{"invalid timestamp", code(kerr.InvalidTimestamp.Code), "split RECORD_REFUSED", "give up UNKNOWN_OUTCOME"},
		{"damaged on its way", code(kerr.CorruptMessage.Code), "again RECORD_REFUSED", "unsure"},
		{"no right on the topic", code(kerr.TopicAuthorizationFailed.Code), "refuse NOT_AUTHORIZED", "give up UNKNOWN_OUTCOME"},
		{"no right on the cluster", code(kerr.ClusterAuthorizationFailed.Code), "refuse NOT_AUTHORIZED", "give up UNKNOWN_OUTCOME"},
		{"bad topic name", code(kerr.InvalidTopicException.Code), "refuse BROKER_CONFIGURATION", "give up UNKNOWN_OUTCOME"},
		{"unknown topic", code(kerr.UnknownTopicOrPartition.Code), "again UNKNOWN_TOPIC", "unsure"},
		{"not enough replicas before the append", code(kerr.NotEnoughReplicas.Code), "again NOT_ENOUGH_REPLICAS", "unsure"},
		{"not enough replicas after the append", code(kerr.NotEnoughReplicasAfterAppend.Code), "unsure CONFIRM_TIMEOUT", "unsure CONFIRM_TIMEOUT"},
		{"the broker's own timeout", code(kerr.RequestTimedOut.Code), "unsure CONFIRM_TIMEOUT", "unsure CONFIRM_TIMEOUT"},
		{"leader no longer, maybe after its append", code(kerr.NotLeaderForPartition.Code), "unsure UNKNOWN_OUTCOME", "unsure UNKNOWN_OUTCOME"},
		{"disk error", code(kerr.KafkaStorageError.Code), "unsure UNKNOWN_OUTCOME", "unsure UNKNOWN_OUTCOME"},
		{"unknown server error", code(kerr.UnknownServerError.Code), "unsure UNKNOWN_OUTCOME", "unsure UNKNOWN_OUTCOME"},
		{"a code of the future", code(9999), "unsure UNKNOWN_OUTCOME", "unsure UNKNOWN_OUTCOME"},
		{"out of order sequence", code(kerr.OutOfOrderSequenceNumber.Code), "renew PRODUCER_SESSION_LOST", "give up UNKNOWN_OUTCOME"},
		{"unknown producer", code(kerr.UnknownProducerID.Code), "renew PRODUCER_SESSION_LOST", "give up UNKNOWN_OUTCOME"},
		{"fenced by epoch", code(kerr.InvalidProducerEpoch.Code), "renew PRODUCER_SESSION_LOST", "give up UNKNOWN_OUTCOME"},
		{"duplicate sequence", code(kerr.DuplicateSequenceNumber.Code), "give up UNKNOWN_OUTCOME", "stored"},
		{"quota", code(kerr.ThrottlingQuotaExceeded.Code), "refuse THROTTLED", "give up UNKNOWN_OUTCOME"},
		{"partition left out of the answer", answer{begun: true, err: errNoAnswer}, "unsure UNKNOWN_OUTCOME", "unsure UNKNOWN_OUTCOME"},
		{"connection ended after the write", answer{begun: true, err: io.EOF}, "unsure CONNECTION_LOST", "unsure CONNECTION_LOST"},
		{"connection reset after the write", answer{begun: true, err: syscall.ECONNRESET}, "unsure CONNECTION_LOST", "unsure CONNECTION_LOST"},
		{"no answer in time", answer{begun: true, err: os.ErrDeadlineExceeded}, "unsure CONFIRM_TIMEOUT", "unsure CONFIRM_TIMEOUT"},
		{"called off after the write", answer{begun: true, err: context.Canceled}, "unsure CONFIRM_TIMEOUT", "unsure CONFIRM_TIMEOUT"},
		{"client closed after the write", answer{begun: true, err: kgo.ErrClientClosed}, "unsure CONNECTION_LOST", "unsure CONNECTION_LOST"},
		{"refused dial", answer{err: refusedDial}, "again BROKER_UNREACHABLE", "unsure"},
		{"connection ended before the write", answer{err: io.EOF}, "again BROKER_UNREACHABLE", "unsure"},
		{"called off before the write", answer{err: context.Canceled}, "again", "unsure"},
		{"wrong password", answer{err: fmt.Errorf("x: %w", kerr.SaslAuthenticationFailed)}, "refuse AUTHENTICATION_FAILED", "unsure"},
		{"unreadable password", answer{err: errNoPassword}, "refuse AUTHENTICATION_FAILED", "unsure"},
		{"alert of the peer's TLS", answer{err: &net.OpError{Op: "remote error", Err: errors.New("x")}}, "refuse AUTHENTICATION_FAILED", "unsure"},
	}
	for _, c := range cases {
		show := func(r ruling) string {
			if r.cause == nil {
				return r.step.String()
			}
			return r.step.String() + " " + r.cause.code
		}
		if got := show(judge(c.a, false)); got != c.alone {
			t.Errorf("%s: %s, want %s", c.name, got, c.alone)
		}
		if got := show(judge(c.a, true)); got != c.later {
			t.Errorf("%s, after a write without answer: %s, want %s", c.name, got, c.later)
		}
	}
}

// TestJudgeNeverRefusesWithoutProof walks through every code the protocol has: only
// named ones reject, and after a write without answer none does.
func TestJudgeNeverRefusesWithoutProof(t *testing.T) {
	t.Parallel()
	for c := int16(-1); c < 300; c++ {
		_, named := rulings[c]
		if r := judge(code(c), false); !named && r.step != stepUnsure {
			t.Errorf("code %d proves nothing, judged %s", c, r.step)
		}
		switch r := judge(code(c), true); r.step {
		case stepStored, stepUnsure, stepGiveUp:
		default:
			t.Errorf("code %d after a write without answer: %s", c, r.step)
		}
	}
}

// TestCausesFollowTheContract holds codes and categories together.
func TestCausesFollowTheContract(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cause    *cause
		category messaging.Category
		code     string
	}{
		{causeNotSent, messaging.CategoryTransientInfrastructure, "NOT_SENT"},
		{causeUnreachable, messaging.CategoryTransientInfrastructure, "BROKER_UNREACHABLE"},
		{causePredecessor, messaging.CategoryTransientInfrastructure, "PREDECESSOR_NOT_STORED"},
		{causeReplicas, messaging.CategoryTransientInfrastructure, "NOT_ENOUGH_REPLICAS"},
		{causeSessionLost, messaging.CategoryTransientInfrastructure, "PRODUCER_SESSION_LOST"},
		{causeClosed, messaging.CategoryTransientInfrastructure, "CLOSED"},
		{causeBackpressure, messaging.CategoryThrottled, "BACKPRESSURE"},
		{causeThrottled, messaging.CategoryThrottled, "THROTTLED"},
		{causeNoTopic, messaging.CategoryConfiguration, "UNKNOWN_TOPIC"},
		{causeBadTopic, messaging.CategoryConfiguration, "BROKER_CONFIGURATION"},
		{causeNotAuthorized, messaging.CategoryAuthorization, "NOT_AUTHORIZED"},
		{causeNoRights, messaging.CategoryAuthorization, "NOT_AUTHORIZED"},
		{causeNotKnown, messaging.CategoryAuthentication, "AUTHENTICATION_FAILED"},
		{causeNoSecret, messaging.CategoryAuthentication, "AUTHENTICATION_FAILED"},
		{causeCertificate, messaging.CategoryAuthentication, "AUTHENTICATION_FAILED"},
		{causeHeader, messaging.CategoryValidation, "HEADER_REJECTED"},
		{causeRecord, messaging.CategoryValidation, "RECORD_REFUSED"},
		{causeTooMuch, messaging.CategoryValidation, "TOO_LARGE"},
		{causeNoConfirm, messaging.CategoryAmbiguous, "CONFIRM_TIMEOUT"},
		{causeCut, messaging.CategoryAmbiguous, "CONNECTION_LOST"},
		{causeCannotTell, messaging.CategoryAmbiguous, "UNKNOWN_OUTCOME"},
	} {
		if c.cause.category != c.category || c.cause.code != c.code {
			t.Errorf("%s %s, want %s %s", c.cause.category, c.cause.code, c.category, c.code)
		}
	}
}
