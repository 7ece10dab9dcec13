package brokertest

import (
	"context"
	"fmt"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// CaptureRabbit takes every message out of a queue and keeps it, until the test ends. It connects again when its
// connection is lost; a message that only comes again for that reason is kept once.
func CaptureRabbit(t testing.TB, url, queue string) *Capture {
	t.Helper()
	c := newCapture()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	first, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			consume(ctx, url, queue, c, first)
			select {
			case <-time.After(100 * time.Millisecond): // before the next try
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	if err := <-first; err != nil {
		t.Fatalf("consume from %s: %v", queue, err)
	}
	return c
}

// consume runs one connection until it ends. The first outcome of all goes to first: nil once the broker has taken the
// consumer.
func consume(ctx context.Context, url, queue string, c *Capture, first chan<- error) {
	tell := func(err error) {
		select {
		case first <- err:
		default:
		}
	}
	conn, err := amqp.DialConfig(url, amqp.Config{Heartbeat: 2 * time.Second, Dial: amqp.DefaultDial(5 * time.Second)})
	if err != nil {
		tell(err)
		return
	}
	defer func() { _ = conn.CloseDeadline(time.Now().Add(2 * time.Second)) }()
	deliveries, err := open(conn, queue)
	tell(err)
	if err != nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case d, ok := <-deliveries:
			if !ok {
				return
			}
			if m := fromDelivery(&d, queue); !d.Redelivered || c.IDs()[m.ID] == 0 {
				c.add(m)
			}
			if d.Ack(false) != nil {
				return
			}
		}
	}
}

func open(conn *amqp.Connection, queue string) (<-chan amqp.Delivery, error) {
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	if err := ch.Qos(100, 0, false); err != nil {
		return nil, err
	}
	return ch.Consume(queue, "", false, false, false, false, nil)
}

func fromDelivery(d *amqp.Delivery, queue string) Message {
	m := Message{
		Key: d.RoutingKey, HasKey: true, Headers: map[string][]string{},
		Body: d.Body, From: queue, Arrived: time.Now(), Delivery: d,
	}
	for name, value := range d.Headers {
		addHeader(m.Headers, name, fmt.Sprint(value))
	}
	m.ID = m.Header(messageID)
	return m
}
