package brokertest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// adminLimit bounds one administrative call to a broker.
const adminLimit = 30 * time.Second

// TopicOption changes what Topic makes.
type TopicOption func(*topicOptions)

type topicOptions struct {
	partitions  int32
	replication int16
	configs     map[string]*string
}

// Partitions sets the number of partitions; default 3.
func Partitions(n int32) TopicOption { return func(o *topicOptions) { o.partitions = n } }

// Replication sets the number of replicas; default is the broker's: 1, and 3 on a cluster of three.
func Replication(n int16) TopicOption { return func(o *topicOptions) { o.replication = n } }

// TopicConfig sets one configuration entry, such as max.message.bytes.
func TopicConfig(name, value string) TopicOption {
	return func(o *topicOptions) { o.configs[name] = &value }
}

// Topic creates a topic of this test's own under the prefix "relay.", on which the users producer and consumer have
// their rights, waits until every partition has a leader, and deletes it when the test ends.
func Topic(t testing.TB, bootstrap string, opts ...TopicOption) string {
	t.Helper()
	o := topicOptions{partitions: 3, replication: -1, configs: map[string]*string{}}
	for _, opt := range opts {
		opt(&o)
	}
	admin := Admin(t, bootstrap)
	name := Name(t, "relay.")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), adminLimit)
	defer cancel()
	if _, err := admin.CreateTopic(ctx, o.partitions, o.replication, o.configs, name); err != nil {
		t.Fatalf("create a topic: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 5*time.Second)
		defer cancel()
		// The test may have ended the broker, or deleted the topic itself: what is left goes with the servers.
		_, _ = admin.DeleteTopics(ctx, name)
	})
	WaitForLeaders(t, admin, name)
	return name
}

// WaitForLeaders waits until every partition of a new topic is led by a broker that knows of it: what the metadata says of
// the leader is true some moments before that.
func WaitForLeaders(t testing.TB, admin *kadm.Client, topic string) {
	t.Helper()
	Eventually(t, adminLimit, "every partition of the new topic has a leader", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		ends, err := admin.ListEndOffsets(ctx, topic)
		return err == nil && len(ends[topic]) > 0 && ends.Error() == nil
	})
}

// Admin opens an administrative client on the broker's plaintext listener, where everything is allowed. It is closed
// when the test ends.
func Admin(t testing.TB, bootstrap string) *kadm.Client {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...))
	if err != nil {
		t.Fatalf("make an administrative Kafka client: %v", err)
	}
	t.Cleanup(client.Close)
	return kadm.NewClient(client)
}

// Stored counts the records that a topic has taken, by its offsets; markers of transactions count too.
func Stored(t testing.TB, bootstrap, topic string) int64 {
	t.Helper()
	admin := Admin(t, bootstrap)
	var sum int64
	Eventually(t, adminLimit, "the broker tells the end of each partition", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		sum = 0
		ends, err := admin.ListEndOffsets(ctx, topic)
		if err != nil {
			return false
		}
		if err := ends.Error(); err != nil {
			if errors.Is(err, kerr.UnknownTopicOrPartition) {
				t.Fatalf("count records: %v", err)
			}
			return false
		}
		ends.Each(func(end kadm.ListedOffset) { sum += end.Offset })
		return true
	})
	return sum
}
