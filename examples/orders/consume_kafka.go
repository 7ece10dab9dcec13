package orders

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/backend-skeleton/relay/messaging/transport"
)

// ConsumeEvents keeps the projection from the topic until ctx ends. It handles one record after the other, in the order of
// the partitions, and commits a poll's offsets after all its records are applied: a crash in between brings them again.
func ConsumeEvents(ctx context.Context, db *pgxpool.Pool, seeds []string, topic string) error {
	r, err := newReceiver(db, Projection, project)
	if err != nil {
		return err
	}
	cl, err := kgo.NewClient(
		kgo.SeedBrokers(seeds...),
		kgo.ConsumeTopics(topic),
		kgo.ConsumerGroup(string(Projection)+"-"+topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		// no partition changes hands between a poll and its commit
		kgo.BlockRebalanceOnPoll(),
	)
	if err != nil {
		return fmt.Errorf("consume order events: %w", err)
	}
	defer cl.CloseAllowingRebalance()
	for {
		fetches := cl.PollRecords(ctx, 100)
		if ctx.Err() != nil || fetches.IsClientClosed() {
			return nil
		}
		if err := r.apply(ctx, cl, fetches); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("consume order events: %w", err)
		}
		cl.AllowRebalance()
	}
}

func (r *receiver) apply(ctx context.Context, cl *kgo.Client, fetches kgo.Fetches) error {
	if err := fetches.Err0(); err != nil {
		return err // what may pass is tried again by the library; this does not pass
	}
	records := fetches.Records()
	for _, rec := range records {
		headers := make([]transport.Header, len(rec.Headers))
		for i, h := range rec.Headers {
			headers[i] = transport.Header{Name: h.Key, Value: h.Value}
		}
		position := fmt.Sprintf("kafka:%s/%d/%d", rec.Topic, rec.Partition, rec.Offset)
		if err := r.untilHandled(ctx, headers, rec.Value, position); err != nil {
			return err
		}
	}
	if len(records) == 0 {
		return nil
	}
	commit, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return cl.CommitRecords(commit, records...)
}
