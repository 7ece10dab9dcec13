// Package brokers makes the edge of a broker out of its entry in the file: the one place that knows which kind has which
// adapter and which identity it shows. The relay and the services' platform share it.
package brokers

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/backend-skeleton/relay/internal/adapters/kafka"
	"github.com/backend-skeleton/relay/internal/adapters/rabbitmq"
	"github.com/backend-skeleton/relay/internal/config"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Role is the side on which an adapter stands: it decides which identity it shows.
type Role uint8

// The roles.
const (
	Producer Role = iota
	Consumer
)

// String names the role as the adapters' makers see it.
func (r Role) String() string {
	if r == Consumer {
		return "consumer"
	}
	return "producer"
}

// makers make the edge of a broker by its kind. They dial nothing yet.
var makers = map[config.BrokerKind]func(*config.Config, string, Role, *slog.Logger) (transport.Adapter, error){
	config.Kafka:    newKafka,
	config.RabbitMQ: newRabbit,
}

// Open makes the adapter of a broker. Nothing is dialled yet; what the error names is the file's.
func Open(c *config.Config, name string, r Role, log *slog.Logger) (transport.Adapter, error) {
	b, ok := c.Messaging.Brokers[name]
	if !ok {
		return nil, fmt.Errorf("%w: there is no broker %s", messaging.ErrConfiguration, name)
	}
	newAdapter, ok := makers[b.Kind]
	if !ok {
		return nil, fmt.Errorf("%w: this program has no adapter for the kind %s", messaging.ErrConfiguration, b.Kind)
	}
	return newAdapter(c, name, r, log)
}

func newKafka(c *config.Config, name string, r Role, log *slog.Logger) (transport.Adapter, error) {
	b := c.Messaging.Brokers[name]
	secure, err := c.TLSConfig(b.TLS)
	if err != nil {
		return nil, err
	}
	k := kafka.Config{Name: name, Seeds: b.Seeds, TLS: secure, Logger: log, ProducerInFlight: c.ProducerInFlight()}
	if cred, ok := c.Security.Credentials[b.Identity(r == Consumer)]; ok && cred.Mechanism != config.External {
		k.Credentials = kafka.Credentials{Mechanism: string(cred.Mechanism), Username: cred.Username, Password: password(cred)}
	}
	return kafka.New(k)
}

func newRabbit(c *config.Config, name string, r Role, log *slog.Logger) (transport.Adapter, error) {
	b := c.Messaging.Brokers[name]
	secure, err := c.TLSConfig(b.TLS)
	if err != nil {
		return nil, err
	}
	out := rabbitmq.Config{
		Name: name, Seeds: b.Seeds, VHost: b.VHost, TLS: secure, Logger: log,
		ProducerInFlight: c.ProducerInFlight(),
	}
	if cred, ok := c.Security.Credentials[b.Identity(r == Consumer)]; ok {
		out.Credentials = rabbitmq.Credentials{Mechanism: string(cred.Mechanism), Username: cred.Username}
		if cred.Mechanism != config.External {
			out.Credentials.Password = password(cred)
		}
	}
	if m := b.Management; m != nil {
		cred := c.Security.Credentials[m.Identity]
		out.Management = rabbitmq.Management{URL: m.URL, Username: cred.Username, Password: password(cred)}
		if out.Management.TLS, err = c.TLSConfig(m.TLS); err != nil {
			return nil, err
		}
	}
	return rabbitmq.New(out)
}

// password is asked at every connect, so that a rotated one is used without restart.
func password(c config.Credential) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return c.Password.Resolve() }
}
