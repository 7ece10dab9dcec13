package brokertest

import (
	"context"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestKafkaProxyLeadsToEveryBroker(t *testing.T) {
	t.Parallel()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(9, "relay.spread"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	p := NewKafkaProxy(t, cluster.ListenAddrs()[0])
	seed := p.Addr()
	client := producer(t, seed, "relay.spread", kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range 9 {
		r := record(i)
		r.Partition = int32(i)
		if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
			t.Fatalf("partition %d: %v", i, err)
		}
	}
	brokers, err := Admin(t, seed).ListBrokers(t.Context())
	if err != nil || len(brokers) != 3 {
		t.Fatalf("brokers %v, %v", brokers, err)
	}
	for _, broker := range brokers {
		if addr := net.JoinHostPort(broker.Host, strconv.Itoa(int(broker.Port))); slices.Contains(cluster.ListenAddrs(), addr) {
			t.Errorf("broker %d is known by its own address %s", broker.NodeID, addr)
		}
	}
	// The coordinator's address is another way past the proxy.
	reader, err := kgo.NewClient(kgo.SeedBrokers(seed), kgo.ConsumerGroup("g"), kgo.ConsumeTopics("relay.spread"),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	got := 0
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for got < 9 && ctx.Err() == nil {
		got += reader.PollFetches(ctx).NumRecords()
	}
	if got != 9 {
		t.Errorf("a group read %d records, want 9", got)
	}
	p.Down()
	short, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	if err := client.Ping(short); err == nil {
		t.Error("a broker is reached past the proxy")
	}
}

// trapped is a topic behind a proxy, with what the broker stores beside it.
func trapped(t *testing.T, opts ...kgo.Opt) (p *Proxy, client *kgo.Client, stored func() int64) {
	t.Helper()
	bootstrap := Require(t, "KAFKA_BOOTSTRAP")
	topic := Topic(t, bootstrap, Partitions(1))
	p = NewKafkaProxy(t, bootstrap)
	client = producer(t, p.Addr(), topic, opts...)
	return p, client, func() int64 { return Stored(t, bootstrap, topic) }
}

func once() []kgo.Opt { return []kgo.Opt{kgo.DisableIdempotentWrite(), kgo.RecordRetries(0)} }

func TestKafkaTrapCutBefore(t *testing.T) {
	t.Parallel()
	p, client, stored := trapped(t, once()...)
	trap := p.Trap(CutBefore, 1, nil)
	if err := client.ProduceSync(t.Context(), record(1)).FirstErr(); err == nil {
		t.Error("a record whose request was cut is reported stored")
	}
	trap.Wait(t, 1, time.Second)
	if n := stored(); n != 0 {
		t.Errorf("the broker stored %d records, want 0", n)
	}
	produce(t, client, 2, 3)
	if n := stored(); n != 1 || trap.Struck() != 1 {
		t.Errorf("the broker stored %d records after %d faults, want 1 and 1", n, trap.Struck())
	}
}

func TestKafkaTrapCutAtAnswer(t *testing.T) {
	t.Parallel()
	p, client, stored := trapped(t, once()...)
	trap := p.Trap(CutAtAnswer, 1, nil)
	if err := client.ProduceSync(t.Context(), record(1)).FirstErr(); err == nil {
		t.Error("a record whose answer was lost is reported stored")
	}
	trap.Wait(t, 1, time.Second)
	if n := stored(); n != 1 {
		t.Errorf("the broker stored %d records, want 1", n)
	}
}

func TestKafkaTrapCutAfter(t *testing.T) {
	t.Parallel()
	p, client, stored := trapped(t) // idempotent: tries again, stored once
	trap := p.Trap(CutAfter, 1, nil)
	produce(t, client, 1, 2)
	trap.Wait(t, 1, time.Second)
	if n := stored(); n != 1 {
		t.Errorf("the broker stored %d records, want 1", n)
	}
}

func TestKafkaTrapHoldAndMute(t *testing.T) {
	t.Parallel()
	p, client, stored := trapped(t, kgo.ProduceRequestTimeout(time.Second), kgo.RequestTimeoutOverhead(time.Second))
	held := p.Trap(HoldAnswer, 1, nil)
	done := make(chan error, 1)
	client.Produce(t.Context(), record(1), func(_ *kgo.Record, err error) { done <- err })
	held.Wait(t, 1, 10*time.Second)
	select {
	case err := <-done:
		t.Errorf("answered though the answer is held: %v", err)
	default:
	}
	if n := stored(); n != 1 {
		t.Errorf("the broker stored %d records, want 1", n)
	}
	held.Release()
	if err := <-done; err != nil {
		t.Errorf("after release: %v", err)
	}
	mute := p.Trap(MuteFrom, 1, nil)
	dials := p.Dials()
	produce(t, client, 2, 3) // gives the mute connection up and tries again on another
	if mute.Struck() != 1 || p.Dials() == dials || stored() != 2 {
		t.Errorf("%d faults, %d new connections, %d records; want 1, some, 2", mute.Struck(), p.Dials()-dials, stored())
	}
}

func TestKafkaTrapMatches(t *testing.T) {
	t.Parallel()
	bootstrap := Require(t, "KAFKA_BOOTSTRAP")
	struck, spared := Topic(t, bootstrap), Topic(t, bootstrap)
	p := NewKafkaProxy(t, bootstrap)
	trap := p.Trap(CutBefore, -1, func(request *Publish) bool { return slices.Contains(request.Topics, struck) })
	client := producer(t, p.Addr(), spared, once()...)
	produce(t, client, 0, 1)
	r := record(1)
	r.Topic = struck
	if err := client.ProduceSync(t.Context(), r).FirstErr(); err == nil || trap.Struck() == 0 {
		t.Errorf("error %v after %d faults, want one", err, trap.Struck())
	}
	trap.Remove()
	r = record(2)
	r.Topic = struck
	if err := client.ProduceSync(t.Context(), r).FirstErr(); err != nil {
		t.Errorf("after the trap was removed: %v", err)
	}
	if !strings.HasPrefix(struck, "relay.") {
		t.Errorf("topic %s is not under relay.", struck)
	}
}
