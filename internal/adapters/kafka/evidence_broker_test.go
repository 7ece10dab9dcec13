package kafka

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/messaging"
)

const predecessor = "REJECTED TRANSIENT_INFRASTRUCTURE PREDECESSOR_NOT_STORED NOT_TRANSMITTED NOT_APPLICABLE"

// TestEvidence_Answers holds codes in the broker's answer against the verdict, once
// and for ever.
func TestEvidence_Answers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		code         *kerr.Error
		once, always string // "" is confirmed
		stored       int    // copies where it is always answered
	}{
		{"NotEnoughReplicas", kerr.NotEnoughReplicas, "", "REJECTED TRANSIENT_INFRASTRUCTURE NOT_ENOUGH_REPLICAS TRANSMITTED NOT_APPLICABLE", 0},
		{"NotEnoughReplicasAfterTheAppend", kerr.NotEnoughReplicasAfterAppend, "", "AMBIGUOUS AMBIGUOUS CONFIRM_TIMEOUT TRANSMITTED UNKNOWN", 1},
		{"BrokerTimedOut", kerr.RequestTimedOut, "", "AMBIGUOUS AMBIGUOUS CONFIRM_TIMEOUT TRANSMITTED UNKNOWN", 1},
		{"NotLeader", kerr.NotLeaderForPartition, "", "AMBIGUOUS AMBIGUOUS UNKNOWN_OUTCOME TRANSMITTED UNKNOWN", 0},
		{"ServerError", kerr.UnknownServerError, "", "AMBIGUOUS AMBIGUOUS UNKNOWN_OUTCOME TRANSMITTED UNKNOWN", 0},
		{"OutOfOrderSequence", kerr.OutOfOrderSequenceNumber, "", "REJECTED TRANSIENT_INFRASTRUCTURE PRODUCER_SESSION_LOST TRANSMITTED NOT_APPLICABLE", 0},
		{"UnknownProducer", kerr.UnknownProducerID, "", "REJECTED TRANSIENT_INFRASTRUCTURE PRODUCER_SESSION_LOST TRANSMITTED NOT_APPLICABLE", 0},
		{"FencedByEpoch", kerr.InvalidProducerEpoch, "", "REJECTED TRANSIENT_INFRASTRUCTURE PRODUCER_SESSION_LOST TRANSMITTED NOT_APPLICABLE", 0},
		{"NoRight", kerr.TopicAuthorizationFailed, "REJECTED AUTHORIZATION NOT_AUTHORIZED TRANSMITTED NOT_APPLICABLE", "REJECTED AUTHORIZATION NOT_AUTHORIZED TRANSMITTED NOT_APPLICABLE", 0},
		{"Quota", kerr.ThrottlingQuotaExceeded, "REJECTED THROTTLED THROTTLED TRANSMITTED NOT_APPLICABLE", "REJECTED THROTTLED THROTTLED TRANSMITTED NOT_APPLICABLE", 0},
		{"DamagedOnItsWay", kerr.CorruptMessage, "", "REJECTED VALIDATION RECORD_REFUSED TRANSMITTED NOT_APPLICABLE", 0},
	} {
		for times, want := range map[string]string{"once": c.once, "always": c.always} {
			t.Run(c.name+"/"+times, func(t *testing.T) {
				t.Parallel()
				cl := fakeCluster(t)
				topic := cl.topic(t, 1)
				_, p := cl.adapter(t)
				expectAll(t, publish(t, p, endpoint(topic), 20*time.Second, message("a", "before")), confirmedVerdict)
				fault := kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: c.code}
				if times == "always" {
					fault.Count = -1
				}
				h := cl.fake.Fault(fault)
				if want == "" {
					want = confirmedVerdict
				}
				// Each under a key of its own: none stands behind another.
				to, timeout := swift(topic), 5*time.Second
				if times == "once" || strings.HasPrefix(want, "REJECTED") && c.code != kerr.NotEnoughReplicas { // told by the answers, not by the end of the time
					to, timeout = settling(topic), 10*time.Second
				}
				rs := publish(t, p, to, timeout, message("a", "0"), message("b", "1"), message("c", "2"))
				expectAll(t, rs, want)
				if h.Hits() == 0 {
					t.Error("the fault did not take place")
				}
				h.Remove()
				stored := 3
				if want != confirmedVerdict {
					stored = 3 * c.stored
				}
				if got := values(cl.stored(t, topic))[1:]; len(got) != stored {
					t.Errorf("stored %v, want %d records", got, stored)
				}
				expectAll(t, publish(t, p, endpoint(topic), 20*time.Second, message("a", "after")), confirmedVerdict)
			})
		}
	}
}

// TestEvidence_RefusedAfterALostAnswer: a refusal says nothing about an earlier write
// of the same batch whose answer was lost.
func TestEvidence_RefusedAfterALostAnswer(t *testing.T) {
	t.Parallel()
	c := fakeCluster(t)
	topic, w := c.topic(t, 1), newWire()
	_, p := c.adapter(t, w.use, quick)
	w.next(faultUnread)
	c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Err: kerr.MessageTooLarge, Count: -1, When: func(kmsg.Request) bool {
		return w.count() > 1
	}})
	rs := publish(t, p, settling(topic), 20*time.Second, message("k", "0"), message("k", "1"))
	expectAll(t, rs, "AMBIGUOUS AMBIGUOUS UNKNOWN_OUTCOME TRANSMITTED UNKNOWN")
	if n := len(c.stored(t, topic)); n != 2 {
		t.Errorf("%d records stored, want the 2 of the first write", n)
	}
}

// TestEvidence_TooLarge: one record over the topic's limit is refused alone, with its
// size; what follows it under its key is not sent, others are.
func TestEvidence_TooLarge(t *testing.T) {
	t.Parallel()
	onVersions(t, func(t *testing.T, c cluster) {
		topic := c.topic(t, 1, "max.message.bytes", "3000")
		_, p := c.adapter(t)
		ms := append(numbered("a", "a", 2, 100), numbered("b", "big", 1, 5000)...)
		ms = append(ms, numbered("b", "b", 1, 100)...)
		ms = append(ms, numbered("a", "later", 1, 100)...)
		rs := publish(t, p, endpoint(topic), 20*time.Second, ms...)
		expect(t, rs[0], confirmedVerdict)
		expect(t, rs[1], confirmedVerdict)
		expect(t, rs[2], "REJECTED VALIDATION TOO_LARGE TRANSMITTED NOT_APPLICABLE")
		expect(t, rs[3], predecessor)
		expect(t, rs[4], confirmedVerdict)
		if m := rs[2].Failure.Message; !strings.Contains(m, "the record of 50") || !strings.Contains(m, "limit of 3000 bytes") {
			t.Errorf("the sizes are not told: %s", m)
		}
		if got := values(c.stored(t, topic)); !slices.Equal(got, []string{"a0", "a1", "later0"}) {
			t.Errorf("stored %v", got)
		}
	})
}

// TestEvidence_TooLargeForTheClient: what no broker would read is not sent.
func TestEvidence_TooLargeForTheClient(t *testing.T) {
	t.Parallel()
	c := fakeCluster(t)
	topic, w := c.topic(t, 1), newWire()
	_, p := c.adapter(t, w.use)
	huge := message("k", "huge")
	huge.Value = make([]byte, maxRecordBytes)
	rs := publish(t, p, endpoint(topic), 20*time.Second, huge, message("k", "behind"))
	expect(t, rs[0], "REJECTED VALIDATION TOO_LARGE NOT_TRANSMITTED NOT_APPLICABLE")
	expect(t, rs[1], predecessor)
	if w.count() != 0 {
		t.Errorf("%d produce requests", w.count())
	}
}

// TestEvidence_HeaderRejected: a header that the format cannot carry is refused here.
func TestEvidence_HeaderRejected(t *testing.T) {
	t.Parallel()
	c := fakeCluster(t)
	topic := c.topic(t, 1)
	_, p := c.adapter(t)
	bad := message("k", "1")
	bad.Header[0].Name = "secret\xff"
	rs := publish(t, p, endpoint(topic), 20*time.Second, message("k", "0"), bad, message("k", "2"), message("other", "3"))
	expect(t, rs[0], confirmedVerdict)
	expect(t, rs[1], "REJECTED VALIDATION HEADER_REJECTED NOT_TRANSMITTED NOT_APPLICABLE")
	expect(t, rs[2], predecessor)
	expect(t, rs[3], confirmedVerdict)
	if m := rs[1].Failure.Error(); strings.Contains(m, "secret") {
		t.Errorf("the header is quoted: %s", m)
	}
}

// TestEvidence_RefusedRecord: a real broker refuses a whole batch for one record;
// only that one is blamed.
func TestEvidence_RefusedRecord(t *testing.T) {
	t.Parallel()
	c := realCluster(t)
	t.Run("without key on a compacted topic", func(t *testing.T) {
		t.Parallel()
		topic := c.topic(t, 1, "cleanup.policy", "compact")
		_, p := c.adapter(t)
		ms := numbered("k", "k", 10, 0)
		ms[6] = message("", "culprit")
		rs := publish(t, p, endpoint(topic), 20*time.Second, ms...)
		for i, r := range rs {
			want := confirmedVerdict
			if i == 6 {
				want = "REJECTED VALIDATION RECORD_REFUSED TRANSMITTED NOT_APPLICABLE"
			}
			expect(t, r, want)
		}
		if got := values(c.stored(t, topic)); !slices.Equal(got, []string{"k0", "k1", "k2", "k3", "k4", "k5", "k7", "k8", "k9"}) {
			t.Errorf("stored %v", got)
		}
	})
	t.Run("with a time that the topic refuses", func(t *testing.T) {
		t.Parallel()
		topic := c.topic(t, 1, "message.timestamp.after.max.ms", "60000")
		_, p := c.adapter(t)
		ms := append(numbered("a", "a", 3, 0), numbered("b", "b", 3, 0)...)
		ms[4].PublishedAt = time.Now().Add(time.Hour)
		rs := publish(t, p, endpoint(topic), 20*time.Second, ms...)
		for i, want := range []string{confirmedVerdict, confirmedVerdict, confirmedVerdict, confirmedVerdict, "REJECTED VALIDATION RECORD_REFUSED TRANSMITTED NOT_APPLICABLE", predecessor} {
			expect(t, rs[i], want)
		}
		if got := values(c.stored(t, topic)); !slices.Equal(got, []string{"a0", "a1", "a2", "b0"}) {
			t.Errorf("stored %v", got)
		}
	})
}

// TestEvidence_UnknownTopic: rejected as such before the caller's time is over, also
// where the topic vanishes while it is in use.
func TestEvidence_UnknownTopic(t *testing.T) {
	t.Parallel()
	const unknown = "REJECTED CONFIGURATION UNKNOWN_TOPIC "
	onVersions(t, func(t *testing.T, c cluster) {
		_, p := c.adapter(t)
		rs := publish(t, p, endpoint(topicName(t)), 20*time.Second, message("k", "1"), message("", "2"))
		expectAll(t, rs, unknown+"NOT_TRANSMITTED NOT_APPLICABLE")
		if rs[0].Elapsed > 4*time.Second {
			t.Errorf("told after %s", rs[0].Elapsed)
		}
		topic := c.topic(t, 1)
		expectAll(t, publish(t, p, endpoint(topic), 20*time.Second, message("k", "1")), confirmedVerdict)
		if _, err := c.admin(t).DeleteTopics(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
		// A broker may serve a deleted topic for a moment; then it must be told.
		brokertest.Eventually(t, 20*time.Second, "the deleted topic is unknown", func() bool {
			r := publish(t, p, endpoint(topic), 20*time.Second, message("k", "2"))[0]
			return strings.HasPrefix(verdict(r), unknown)
		})
	})
}

// TestEvidence_BadTopicName: a name that Kafka does not allow is a configuration.
func TestEvidence_BadTopicName(t *testing.T) {
	t.Parallel()
	_, p := realCluster(t).adapter(t)
	rs := publish(t, p, endpoint("not a name!"), 20*time.Second, message("k", "1"))
	expectAll(t, rs, "REJECTED CONFIGURATION BROKER_CONFIGURATION NOT_TRANSMITTED NOT_APPLICABLE")
	rs = publish(t, p, endpoint(""), 20*time.Second, message("k", "1"))
	expectAll(t, rs, "REJECTED CONFIGURATION BROKER_CONFIGURATION NOT_TRANSMITTED NOT_APPLICABLE")
}

// TestEvidence_Fenced: another producer under the same id and a higher epoch fences
// the session; the adapter goes on under a new one.
func TestEvidence_Fenced(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c cluster) {
		topic := c.topic(t, 1)
		a, p := c.adapter(t)
		expectAll(t, publish(t, p, endpoint(topic), 20*time.Second, message("k", "0")), confirmedVerdict)
		_, thief := c.adapter(t)
		thief.session.id.Store(p.session.id.Load())
		expectAll(t, publish(t, thief, endpoint(topic), 20*time.Second, message("k", "warm up")), confirmedVerdict) // joins topic and place
		theirs := thief.partitionsOf(a.topic(topic), 1)[0]
		theirs.at = position{id: p.session.id.Load() - 1, epoch: 9}
		expectAll(t, publish(t, thief, endpoint(topic), 20*time.Second, message("k", "theirs")), confirmedVerdict)

		rs := publish(t, p, endpoint(topic), 20*time.Second, message("k", "1"), message("k", "2"))
		expectAll(t, rs, confirmedVerdict)
		if rs[0].Attempts != 2 {
			t.Errorf("%d attempts, want a refused one and a good one", rs[0].Attempts)
		}
		got := values(c.stored(t, topic))
		if want := []string{"theirs", "1", "2"}; !slices.Equal(got[len(got)-3:], want) {
			t.Errorf("stored %v, want the end %v", got, want)
		}
	})
}

// TestEvidence_Replicated: the stronger level is claimed only where two replicas and
// min.insync.replicas of two were seen, and the last proof is kept.
func TestEvidence_Replicated(t *testing.T) {
	t.Parallel()
	c := fakeCluster(t, kfake.NumBrokers(3))
	for minISR, want := range map[string]string{"1": "BROKER_ACK", "2": "REPLICATION_OR_PERSISTENCE_ACK"} {
		topic := topicName(t) + minISR
		c.create(t, topic, 1, "min.insync.replicas", minISR)
		a, p := c.adapter(t)
		expectAll(t, publish(t, p, endpoint(topic), 20*time.Second, message("k", "1")), fmt.Sprintf("CONFIRMED %s TRANSMITTED NOT_APPLICABLE", want))
		caps, err := a.Capabilities(t.Context(), endpoint(topic))
		if err != nil || caps.ReplicationOrPersistenceEvidence != (minISR == "2") || !caps.BrokerAcknowledgement || !caps.KeyedOrdering {
			t.Errorf("min.insync.replicas %s: %+v, %v", minISR, caps, err)
		}
		// Not readable any more: the last proof stays.
		h := c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: kerr.TopicAuthorizationFailed, Count: -1})
		if caps, err = a.Capabilities(t.Context(), endpoint(topic)); err != nil || caps.ReplicationOrPersistenceEvidence != (minISR == "2") {
			t.Errorf("settings unreadable: %+v, %v", caps, err)
		}
		// Never readable: nothing is claimed.
		other, _ := c.adapter(t)
		if caps, err = other.Capabilities(t.Context(), endpoint(topic)); err != nil || caps.ReplicationOrPersistenceEvidence {
			t.Errorf("settings never readable: %+v, %v", caps, err)
		}
		h.Remove()
	}
}

// TestEvidence_FirstProofIsWaitedFor: settings that cannot be read at first are asked
// for again before anything is confirmed below what the topic gives.
func TestEvidence_FirstProofIsWaitedFor(t *testing.T) {
	t.Parallel()
	c := fakeCluster(t, kfake.NumBrokers(3))
	topic := c.topic(t, 1, "min.insync.replicas", "2")
	h := c.fake.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.DescribeConfigs}, Err: kerr.RequestTimedOut})
	_, p := c.adapter(t)
	expectAll(t, publish(t, p, endpoint(topic), 20*time.Second, message("k", "1")), "CONFIRMED REPLICATION_OR_PERSISTENCE_ACK TRANSMITTED NOT_APPLICABLE")
	if h.Hits() == 0 {
		t.Error("the fault did not take place")
	}
}

// TestEvidence_OneReplica: a real topic of one replica confirms as the broker's word.
func TestEvidence_OneReplica(t *testing.T) {
	t.Parallel()
	c := realCluster(t)
	topic := topicName(t)
	admin := c.admin(t)
	one := "2" // min.insync.replicas of two on one replica: no append succeeds, nothing is claimed
	if _, err := admin.CreateTopic(t.Context(), 1, 1, map[string]*string{"min.insync.replicas": &one}, topic); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.admin(t).DeleteTopics(t.Context(), topic) })
	a, _ := c.adapter(t)
	var caps messaging.Capabilities
	brokertest.Eventually(t, 20*time.Second, "the topic can be asked", func() (ok bool) {
		var err error
		caps, err = a.Capabilities(t.Context(), endpoint(topic))
		return err == nil
	})
	if caps.ReplicationOrPersistenceEvidence {
		t.Error("replication is claimed for one replica")
	}
}
