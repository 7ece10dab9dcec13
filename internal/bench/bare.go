package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// bare gives the rate at which the broker's client alone publishes what a drain publishes: 1,000 messages, then their
// confirmations, and so on. It is the median of the repeats.
func (b *bench) bare(ctx context.Context, publish func(ctx context.Context, body []byte, n int) error) (float64, error) {
	body := payload()
	if err := publish(ctx, body, floorBatch); err != nil { // connections, metadata
		return 0, fmt.Errorf("publish without a relay: %w", err)
	}
	var rates []float64
	for range b.o.Repeat {
		start := time.Now()
		n := 0
		for ; n < b.o.Rows; n += floorBatch {
			if err := publish(ctx, body, floorBatch); err != nil {
				return 0, fmt.Errorf("publish without a relay: %w", err)
			}
		}
		rates = append(rates, float64(n)/time.Since(start).Seconds())
	}
	slices.Sort(rates)
	return rates[len(rates)/2], nil
}

func (k *kafkaCluster) publish(ctx context.Context, body []byte, n int) error {
	records := make([]*kgo.Record, n)
	for i := range records {
		records[i] = &kgo.Record{Value: body, Headers: []kgo.RecordHeader{{Key: "msg.type", Value: []byte("bench.order.placed")}, {Key: "x-headers", Value: []byte(headers)}}}
	}
	return k.admin.ProduceSync(ctx, records...).FirstErr()
}

func (q *rabbitQueue) publish(ctx context.Context, body []byte, n int) (err error) {
	ch, err := q.conn.Channel()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ch.Close()) }()
	if err := ch.Confirm(false); err != nil {
		return err
	}
	open := make([]*amqp.DeferredConfirmation, n)
	for i := range open {
		open[i], err = ch.PublishWithDeferredConfirmWithContext(ctx, q.name, "bench", true, false, amqp.Publishing{
			DeliveryMode: amqp.Persistent, Body: body, Headers: amqp.Table{"msg.type": "bench.order.placed", "x-headers": headers},
		})
		if err != nil {
			return err
		}
	}
	for _, c := range open {
		if ok, err := c.WaitContext(ctx); err != nil || !ok {
			return errors.Join(err, errors.New("a message was not confirmed"))
		}
	}
	return nil
}
