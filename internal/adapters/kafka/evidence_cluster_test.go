package kafka

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/messaging"
)

// TestEvidence_BrokerPaused: a frozen broker takes bytes and answers nothing. What it
// was given is in doubt, and settled when it wakes up in time; what it was not given
// is not sent.
func TestEvidence_BrokerPaused(t *testing.T) {
	t.Parallel()
	s := brokertest.StartKafka(t, brokertest.KafkaOptions{})
	c := cluster{seeds: s.Env("KAFKA_BOOTSTRAP")}
	settled, doubted, untouched := c.topic(t, 1), c.topic(t, 1), c.topic(t, 1)
	_, p := c.adapter(t, quick)
	_, fresh := c.adapter(t, quick) // connects only when the broker is frozen
	for _, topic := range []string{settled, doubted} {
		expectAll(t, publish(t, p, endpoint(topic), 10*time.Second, message("k", "before")), confirmedVerdict)
	}

	s.Pause(1)
	late := newResults(t, 2)
	ctx, cancel := contextFor(10 * time.Second)
	defer cancel()
	p.Publish(ctx, endpoint(settled, "request-timeout", 300*time.Millisecond, "delivery-timeout", 30*time.Second), numbered("k", "late", 2, 0), late.done)
	for _, r := range publish(t, p, swift(doubted), 5*time.Second, numbered("k", "doubt", 2, 0)...) {
		// The code depends on whose patience ended first: the batch's own, or that of
		// the one before it on the same connection.
		if r.Completion != messaging.Ambiguous || r.Evidence.Transmission != messaging.MayHaveBeenTransmitted {
			t.Errorf("the frozen broker was given the batch: %s", verdict(r))
		}
	}
	r := publish(t, fresh, swift(untouched), 5*time.Second, message("k", "unsent"))[0]
	if r.Completion != messaging.Rejected || r.Evidence.Transmission != messaging.NotTransmitted {
		t.Errorf("nothing was written: %s", verdict(r))
	}
	s.Resume(1)

	expectAll(t, late.wait(30*time.Second), confirmedVerdict)
	if got := values(c.stored(t, settled)); !slices.Equal(got, []string{"before", "late0", "late1"}) {
		t.Errorf("stored %v, want each once", got)
	}
	expectAll(t, publish(t, p, endpoint(doubted), 10*time.Second, message("k", "after")), confirmedVerdict)
	// The frozen broker had the batch in its socket: it may have come in, once, and
	// not behind what was published later.
	got := values(c.stored(t, doubted))
	if in, out := []string{"before", "doubt0", "doubt1", "after"}, []string{"before", "after"}; !slices.Equal(got, in) && !slices.Equal(got, out) {
		t.Errorf("stored %v", got)
	}
	if got := c.stored(t, untouched); len(got) != 0 {
		t.Errorf("stored %v of what was not sent", values(got))
	}
}

// TestEvidence_Cluster: replication as it is: its proof, a dead leader, a frozen
// leader, and too few replicas.
func TestEvidence_Cluster(t *testing.T) {
	brokertest.FullTier(t)
	s := brokertest.StartKafka(t, brokertest.KafkaOptions{Nodes: 3, Conf: []string{"broker.session.timeout.ms=1500", "broker.heartbeat.interval.ms=200"}})
	c := cluster{seeds: s.Env("KAFKA_BOOTSTRAP")}
	topic := c.topic(t, 1)
	a, p := c.adapter(t)
	const replicated = "CONFIRMED REPLICATION_OR_PERSISTENCE_ACK TRANSMITTED NOT_APPLICABLE"
	patient := endpoint(topic, "timeout", 20*time.Second, "request-timeout", 2*time.Second, "delivery-timeout", 40*time.Second)
	expectAll(t, publish(t, p, patient, 20*time.Second, message("k", "start")), replicated)
	if caps, err := a.Capabilities(t.Context(), patient); err != nil || !caps.ReplicationOrPersistenceEvidence {
		t.Fatalf("%+v, %v", caps, err)
	}
	leader := func() int {
		n, fault := a.topic(topic).leader(0)
		if fault != nil {
			t.Fatal(fault.text)
		}
		return int(n)
	}

	want := []string{"start"}
	stream := func(what string, during func()) {
		t.Helper()
		ms := numbered("k", what, 200, 0)
		r := newResults(t, len(ms))
		ctx, cancel := contextFor(20 * time.Second)
		defer cancel()
		p.Publish(ctx, patient, ms[:100], r.done)
		during()
		p.Publish(ctx, patient, ms[100:], func(i int, res messaging.PublishResult) { r.done(100+i, res) })
		expectAll(t, r.wait(time.Minute), replicated)
		for i := range ms {
			want = append(want, string(ms[i].Header[0].Value))
		}
	}
	var dead int
	stream("killed", func() { dead = leader(); s.Kill(dead) })
	s.StartNode(dead)
	brokertest.Eventually(t, 30*time.Second, "all replicas are in sync", func() bool {
		m, err := c.admin(t).Metadata(t.Context(), topic)
		return err == nil && len(m.Topics[topic].Partitions[0].ISR) == 3
	})
	<-a.topic(topic).refresh()
	stream("paused", func() { dead = leader(); s.Pause(dead) })
	s.Resume(dead)
	if got := values(c.stored(t, topic)); !slices.Equal(got, want) {
		t.Errorf("%d records stored, want %d, each once, in order: %s", len(got), len(want), strings.Join(got[:min(len(got), 300)], " "))
	}

	<-a.topic(topic).refresh()
	for n := 1; n <= 3; n++ {
		if n != leader() {
			s.Kill(n)
		}
	}
	brief := endpoint(topic, "timeout", 3*time.Second, "request-timeout", time.Second) // what was written before the set shrank stays in doubt
	brokertest.Eventually(t, time.Minute, "the in-sync set shrinks", func() bool {
		r := publish(t, p, brief, 3*time.Second, message("k", "few"))[0]
		return verdict(r) == "REJECTED TRANSIENT_INFRASTRUCTURE NOT_ENOUGH_REPLICAS TRANSMITTED NOT_APPLICABLE"
	})
}
