package platform

import (
	"context"
	"io/fs"
	"log/slog"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// Options of [Open]. The zero value reads the file that RELAY_CONFIG names and logs to slog.Default.
type Options struct {
	// File is the path of relay.yaml; empty: the one that RELAY_CONFIG names.
	File string
	// Env is the environment as name=value entries; nil: the process's own.
	Env []string
	// Producer is the logical name of the service; every message that it publishes carries it. Publishers need it.
	Producer messaging.ProducerID
	// Logger is slog.Default() if nil.
	Logger *slog.Logger
	// Codecs are added to JSON and raw bytes; one of a content type that is there already takes its place. A codec of
	// the content type application/avro or application/protobuf makes that word of the file available.
	Codecs []messaging.Codec
	// Schemas is where the catalogue's directories lie; nil: beside the file.
	Schemas fs.FS
	// Trace reads the trace context of a call, to be sent along; nil keeps the envelope's own. Of the baggage only the
	// keys that security.baggage allows travel.
	Trace func(context.Context) messaging.TraceContext
	// Adapters make the edges of brokers, by the kind in the file. A kind that is built in is replaced, so that a
	// service's tests run its own relay.yaml over messagingtest; another kind becomes known to the file.
	Adapters map[string]NewAdapter
	// Observe are hooks, each any of the one-method interfaces of this package: [PublishObserver], [LateObserver],
	// [AuditObserver].
	Observe []any
}

// NewAdapter makes the adapter of one broker of the file under one identity. settings hold name, kind, seeds ([]string),
// vhost, role ("producer" or "consumer"), username, password (func(context.Context) (string, error)) and tls
// (*tls.Config, nil for plain text). It dials nothing.
type NewAdapter func(ctx context.Context, settings map[string]any) (transport.Adapter, error)
