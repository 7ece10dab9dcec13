package config

import (
	"reflect"
	"testing"

	"github.com/backend-skeleton/relay/messaging"
)

// everything is what no broker has: all capabilities.
func everything() messaging.Capabilities {
	var c messaging.Capabilities
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		v.Field(i).SetBool(true)
	}
	return c
}

// Each row takes capabilities away and expects exactly the findings that it names.
func TestCapabilitiesAreHeldAgainstTheProfile(t *testing.T) {
	t.Parallel()
	type lacks func(*messaging.Capabilities)
	for _, c := range []struct {
		name, of string
		edits    []string
		without  lacks
		want     []string
	}{
		{"nothing is missing", "order-events", nil, func(*messaging.Capabilities) {}, nil},
		{"no acknowledgement", "order-events", nil, func(c *messaging.Capabilities) { c.BrokerAcknowledgement = false }, []string{"messaging.destinations.order-events.guarantees.delivery: AT_LEAST_ONCE needs a broker that acknowledges"}},
		{"a classic, transient queue", "email-work", nil, func(c *messaging.Capabilities) { c.ReplicationOrPersistenceEvidence = false }, []string{"messaging.destinations.email-work.producer.confirmation: REPLICATION_OR_PERSISTENCE_ACK is not proved by rabbit-primary"}},
		{"no order of keys", "order-events", nil, func(c *messaging.Capabilities) { c.KeyedOrdering = false }, []string{"messaging.destinations.order-events.guarantees.ordering: KEY needs a broker that keeps"}},
		{"no ordered stream", "kafka-command", nil, func(c *messaging.Capabilities) { c.OrderedStream = false }, []string{"messaging.destinations.kafka-command.guarantees.ordering: PARTITION needs an ordered stream"}},
		{"no delay", "email-work", []string{rd + "grants = [DELAYED_PUBLISH]"}, func(c *messaging.Capabilities) { c.DelayedDelivery = false }, []string{"messaging.destinations.email-work.grants: DELAYED_PUBLISH cannot be granted"}},
		{"no transaction", "order-events", []string{kd + "grants = [KAFKA_TRANSACTION]"}, func(c *messaging.Capabilities) { c.BrokerTransaction = false }, []string{"messaging.destinations.order-events.grants: KAFKA_TRANSACTION cannot be granted"}},

		{"nothing is missing to consume", "order-projection", nil, func(*messaging.Capabilities) {}, nil},
		{"no settlement", "email-sender", nil, func(c *messaging.Capabilities) { c.PerMessageSettlement, c.BatchSettlement = false, false }, []string{"messaging.consumers.email-sender.destination: AT_LEAST_ONCE needs a broker that settles"}},
		{"settlement of batches is enough", "email-sender", nil, func(c *messaging.Capabilities) { c.PerMessageSettlement = false }, nil},
		{"manual without settlement", "email-sender", []string{rc + "grants = [MANUAL_SETTLEMENT]"}, func(c *messaging.Capabilities) { c.PerMessageSettlement, c.BatchSettlement = false, false }, []string{"messaging.consumers.email-sender.destination: AT_LEAST_ONCE", "messaging.consumers.email-sender.grants: MANUAL_SETTLEMENT cannot be granted"}},
		{"a queue without single active consumer", "order-projection", nil, func(c *messaging.Capabilities) { c.KeyedOrdering = false }, []string{"messaging.consumers.order-projection.destination: order-events is ordered by KEY, which its queue does not keep"}},
		{"a stream that keeps no order", "order-projection", []string{kd + "guarantees/ordering = PARTITION"}, func(c *messaging.Capabilities) { c.OrderedStream = false }, []string{"messaging.consumers.order-projection.destination: order-events is ordered by PARTITION"}},
		{"a broker that cannot delay", "email-sender", []string{rc + "retry = {mode: BROKER_DELAYED}"}, func(c *messaging.Capabilities) { c.DelayedDelivery = false }, []string{"messaging.consumers.email-sender.retry.mode: BROKER_DELAYED needs"}},
		{"a broker without transactions", "order-projection", []string{kd + "guarantees/processing = BROKER_TRANSACTIONAL", kc + "grants = [KAFKA_TRANSACTION]"}, func(c *messaging.Capabilities) { c.BrokerTransaction = false }, []string{"messaging.consumers.order-projection.grants: KAFKA_TRANSACTION cannot be granted"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			file, _, findings := load(t, edited(t, production, c.edits...))
			if findings != nil {
				t.Fatal(findings)
			}
			able := everything()
			c.without(&able)
			check := file.CheckPublishing
			if _, consumes := file.Messaging.Consumers[c.of]; consumes {
				check = file.CheckConsuming
			}
			got := check(c.of, able)
			if len(got) != len(c.want) {
				t.Fatalf("%v, want %q", got, c.want)
			}
			for i, w := range c.want {
				if text := got[i].Path + ": " + got[i].Message; !anyContains([]string{text}, w) {
					t.Errorf("%s, want %s", text, w)
				}
			}
			if err := file.Refusal(got); (err == nil) != (len(c.want) == 0) {
				t.Errorf("refusal %v", err)
			}
		})
	}
}

// The production file is the valid example of every kind of destination on every stable broker.
func TestTheProductionFileHoldsEveryKind(t *testing.T) {
	t.Parallel()
	c, _, _ := load(t, production)
	seen := map[string]bool{}
	for _, d := range c.Messaging.Destinations {
		seen[string(c.Messaging.Brokers[d.Broker].Kind)+" "+string(d.Kind)] = true
	}
	for _, broker := range []BrokerKind{Kafka, RabbitMQ} {
		for _, kind := range DestinationKind("").Values() {
			if !seen[string(broker)+" "+kind] {
				t.Errorf("there is no %s on %s", kind, broker)
			}
		}
	}
}

func TestProfileIsWhatAWriterMustKnow(t *testing.T) {
	t.Parallel()
	c, _, findings := load(t, edited(t, production, "security/tenants = [acme]", "messaging/limits = {headers-count: {value: 10}, logical-payload: {value: 512KiB}}", "- "+kd+"payload"))
	if findings != nil {
		t.Fatal(findings)
	}
	p, ok := c.Profile("order-events")
	if !ok || !p.KeyRequired || !p.KeyFromAggregate || p.MaxBytes != 512<<10 || p.ContentType != "application/json" || p.MaxHeaders != 10 || p.MaxHeaderBytes != messaging.MaxHeaderBytes {
		t.Errorf("%+v", p)
	}
	rule := p.Types["order.created"]
	if rule.Kind != messaging.KindIntegrationEvent || len(rule.Versions) != 2 || rule.ContentType != "application/json" {
		t.Errorf("%+v", rule)
	}
	if p.Tenants.Check("acme") != nil || p.Tenants.Check("globex") == nil {
		t.Error("the allow-list is not the file's")
	}
	if p, _ := c.Profile("email-work"); p.KeyRequired {
		t.Error("a destination without order asks for a key")
	}
	if _, ok := c.Profile("nowhere"); ok {
		t.Error("an unknown destination has a profile")
	}
}
