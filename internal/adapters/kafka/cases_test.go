package kafka

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// TestB21_BatchTooLargeThoughEachRecordFits: a set over the topic's limit goes out in
// pieces, in order, also where the limit cannot be read.
func TestB21_BatchTooLargeThoughEachRecordFits(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, c cluster, limit string, change ...func(*Config)) {
		topic := c.topic(t, 1, "max.message.bytes", limit)
		_, p := c.adapter(t, change...)
		rs := publish(t, p, endpoint(topic), 20*time.Second, numbered("k", "m", 20, 200_000)...)
		expectAll(t, rs, confirmedVerdict)
		var want []string
		for i := range 20 {
			want = append(want, fmt.Sprintf("m%d", i))
		}
		if got := values(c.stored(t, topic)); !slices.Equal(got, want) {
			t.Errorf("stored %v", got)
		}
	}
	onBoth(t, func(t *testing.T, c cluster) { check(t, c, "1048576") })
	t.Run("limit not readable", func(t *testing.T) {
		t.Parallel()
		check(t, realCluster(t), "450000", asUser(t, "SCRAM-SHA-512", "PRODUCER", right(t, "PRODUCER")))
	})
}

// TestB22_OneGiantMessage: it is refused with its size and the limit, the others go.
func TestB22_OneGiantMessage(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c cluster) {
		topic := c.topic(t, 3, "max.message.bytes", "1048576")
		_, p := c.adapter(t)
		ms := []transport.Message{}
		for i := range 101 {
			ms = append(ms, message(fmt.Sprint("k", i), fmt.Sprint("v", i)))
		}
		ms[50].Value = make([]byte, 5<<20)
		rs := publish(t, p, endpoint(topic), 20*time.Second, ms...)
		for i, r := range rs {
			if i != 50 {
				expect(t, r, confirmedVerdict)
			}
		}
		expect(t, rs[50], "REJECTED VALIDATION TOO_LARGE TRANSMITTED NOT_APPLICABLE")
		if m := rs[50].Failure.Message; !strings.Contains(m, "52429") || !strings.Contains(m, "1048576") {
			t.Errorf("sizes are not told: %s", m)
		}
		if n := len(c.stored(t, topic)); n != 100 {
			t.Errorf("%d records, want 100", n)
		}
	})
}

// TestB23_UnknownTopicHoldsOnlyItsOwn: a missing topic is told within the publish
// timeout, holds nobody else up, and is found without a restart once it exists.
func TestB23_UnknownTopicHoldsOnlyItsOwn(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c cluster) {
		good, nope := c.topic(t, 3), topicName(t)
		a, p := c.adapter(t)
		lost, fine := newResults(t, 1000), newResults(t, 100)
		ctx, cancel := contextFor(5 * time.Second)
		defer cancel()
		p.Publish(ctx, endpoint(nope), numbered("k", "n", 1000, 0), lost.done)
		started := time.Now()
		p.Publish(ctx, endpoint(good), numbered("k", "g", 100, 0), fine.done)
		expectAll(t, fine.wait(5*time.Second), confirmedVerdict)
		if d := time.Since(started); d > 5*time.Second {
			t.Errorf("the good topic's messages took %s", d)
		}
		expectAll(t, lost.wait(5*time.Second), "REJECTED CONFIGURATION UNKNOWN_TOPIC NOT_TRANSMITTED NOT_APPLICABLE")

		ds, err := a.Inspect(t.Context(), []transport.Endpoint{endpoint(nope), endpoint(good)})
		if want := (transport.Drift{Destination: "orders", Field: "topic", Want: "present", Have: "absent"}); err != nil || !slices.Equal(ds, []transport.Drift{want}) {
			t.Errorf("Inspect: %+v, %v", ds, err)
		}
		c.create(t, nope, 1)
		brokertest.Eventually(t, 20*time.Second, "Inspect sees the topic", func() bool {
			ds, err := a.Inspect(t.Context(), []transport.Endpoint{endpoint(nope)})
			return err == nil && len(ds) == 0
		})
		expectAll(t, publish(t, p, endpoint(nope), 20*time.Second, numbered("k", "n", 1000, 0)...), confirmedVerdict)
	})
}

// TestB24_SessionForgotten: the broker forgets the producer with the topic; what
// comes after is published under a new session, with no restart and nothing refused
// for good.
func TestB24_SessionForgotten(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c cluster) {
		topic := c.topic(t, 1)
		_, p := c.adapter(t)
		expectAll(t, publish(t, p, endpoint(topic), 20*time.Second, numbered("k", "a", 10, 0)...), confirmedVerdict)
		admin := c.admin(t)
		if _, err := admin.DeleteTopics(t.Context(), topic); err != nil {
			t.Fatal(err)
		}
		brokertest.Eventually(t, 20*time.Second, "the topic is made anew", func() bool {
			_, err := admin.CreateTopic(t.Context(), 1, -1, nil, topic)
			return err == nil
		})
		// The server may confirm the first ones into the log that it is about to delete: they went with it.
		brokertest.Eventually(t, 15*time.Second, "ten more are published and stored in order", func() bool {
			rs := publish(t, p, endpoint(topic), 20*time.Second, numbered("k", "b", 10, 0)...)
			for _, r := range rs {
				if r.Failure != nil && r.Failure.Category == messaging.CategoryValidation {
					t.Fatalf("refused for good: %s", verdict(r))
				}
			}
			if rs[9].Completion != messaging.Confirmed {
				return false
			}
			got := values(c.stored(t, topic))
			if len(got) == 0 {
				return false
			}
			if len(got) < 10 || !slices.IsSorted(got[len(got)-10:]) {
				t.Fatalf("stored %v", got)
			}
			return true
		})
	})
}

// TestB25_SomeOfASet: outcomes are per message.
func TestB25_SomeOfASet(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c cluster) {
		topic := c.topic(t, 1, "max.message.bytes", "2000")
		_, p := c.adapter(t)
		ms := []transport.Message{message("1", "1"), message("2", "2"), message("3", "3"), message("4", "4"), message("5", "5")}
		ms[2].Value = make([]byte, 4000)
		rs := publish(t, p, endpoint(topic), 20*time.Second, ms...)
		for i, r := range rs {
			want := confirmedVerdict
			if i == 2 {
				want = "REJECTED VALIDATION TOO_LARGE TRANSMITTED NOT_APPLICABLE"
			}
			expect(t, r, want)
		}
		if got := values(c.stored(t, topic)); !slices.Equal(got, []string{"1", "2", "4", "5"}) {
			t.Errorf("stored %v", got)
		}
	})
}

// TestB28_TimeOfTheRecord: milliseconds, of publishing or as given; an old time does
// not make the record vanish at once.
func TestB28_TimeOfTheRecord(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, c cluster) {
		topic := c.topic(t, 1, "retention.ms", fmt.Sprint((7 * 24 * time.Hour).Milliseconds()))
		_, p := c.adapter(t)
		old := time.Now().Add(-2 * time.Hour).Truncate(time.Millisecond)
		ms := []transport.Message{message("k", "new"), message("k", "given")}
		ms[1].PublishedAt = old.Add(123 * time.Microsecond)
		expectAll(t, publish(t, p, endpoint(topic), 20*time.Second, ms...), confirmedVerdict)
		rs := c.stored(t, topic)
		if len(rs) != 2 {
			t.Fatalf("%d records", len(rs))
		}
		if d := time.Since(rs[0].Timestamp); d < 0 || d > 5*time.Second {
			t.Errorf("the new record is %s old", d)
		}
		if !rs[1].Timestamp.Equal(old) {
			t.Errorf("the given time is %s, want %s", rs[1].Timestamp, old)
		}
	})
}

// TestNewPartitionsAreUsed: more partitions are found while in use.
func TestNewPartitionsAreUsed(t *testing.T) {
	t.Parallel()
	c := fakeCluster(t)
	topic := c.topic(t, 1)
	a, p := c.adapter(t)
	expectAll(t, publish(t, p, endpoint(topic), 20*time.Second, message("k", "1")), confirmedVerdict)
	if rs, err := c.admin(t).UpdatePartitions(t.Context(), 4, topic); err != nil || rs.Error() != nil {
		t.Fatal(err, rs.Error())
	}
	<-a.topic(topic).refresh() // as after metadataEvery
	ms := make([]transport.Message, 40)
	for i := range ms {
		ms[i] = message(fmt.Sprint("k", i), fmt.Sprint(i))
	}
	expectAll(t, publish(t, p, endpoint(topic), 20*time.Second, ms...), confirmedVerdict)
	ends, err := c.admin(t).ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset == 0 {
			t.Errorf("partition %d has nothing", o.Partition)
		}
	})
}
