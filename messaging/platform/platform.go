package platform

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/backend-skeleton/relay/internal/config"
	"github.com/backend-skeleton/relay/internal/consume"
	"github.com/backend-skeleton/relay/internal/observe"
	"github.com/backend-skeleton/relay/internal/publish"
	"github.com/backend-skeleton/relay/messaging"
)

// Platform is an opened configuration: what publishers are made of. It is safe for concurrent use.
type Platform struct {
	c      *config.Config
	o      Options
	log    *slog.Logger
	codecs []messaging.Codec
	hooks  publish.Hooks
	watch  *observe.Observer
	opened time.Time

	// starting is the context of Open: constructors wait for a broker's proof no longer than it lasts. Living ends with
	// the last close.
	starting context.Context
	living   context.Context
	die      context.CancelFunc
	around   sync.WaitGroup // goroutines of the platform

	asking  sync.Mutex // guards replies
	replies map[string]*publish.Replies

	mu           sync.Mutex // guards what follows
	state        state
	brokers      map[string]*broker
	destinations map[messaging.DestinationName]*publish.Destination
	consumers    map[messaging.ConsumerName]*consume.Consumer
}

type state uint8

const (
	created state = iota
	running
	draining
	closed
)

var _ messaging.Profiles = (*Platform)(nil)

// Open reads the file, checks everything that the file alone can tell, and prepares the codecs with the schemas of the
// catalogue. Nothing is connected yet. The error is a [*ConfigError] with every finding at once, or names what a codec
// or a schema lacks. ctx bounds the start: a constructor that waits for a broker waits no longer.
func Open(ctx context.Context, o Options) (*Platform, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	for _, codec := range o.Codecs {
		if codec == nil {
			return nil, refused("open", messaging.ErrConfiguration, "", "a codec is nil")
		}
	}
	kinds := slices.Sorted(maps.Keys(o.Adapters))
	c, warnings, err := config.Load(config.Options{File: o.File, Env: o.Env, Kinds: kinds, Codecs: wordsOf(o.Codecs)})
	if err != nil {
		return nil, configError(err)
	}
	if o.Producer != "" {
		if _, err := messaging.ParseProducerID(string(o.Producer)); err != nil {
			return nil, refused("open", messaging.ErrConfiguration, "", "the producer's name: %w", err)
		}
	}
	codecs, err := codecsOf(c, o)
	if err != nil {
		return nil, err
	}
	for _, w := range warnings {
		o.Logger.Warn("configuration", "warning", w)
	}
	for _, raised := range c.Overrides() {
		o.Logger.Warn("limit raised by the configuration", "path", raised.Path, "value", raised.Value, "default", raised.Default, "reason", raised.Reason)
	}
	p := &Platform{
		c: c, o: o, log: o.Logger, codecs: codecs, opened: time.Now(), starting: ctx,
		brokers: map[string]*broker{}, destinations: map[messaging.DestinationName]*publish.Destination{},
		replies: map[string]*publish.Replies{}, consumers: map[messaging.ConsumerName]*consume.Consumer{},
	}
	p.living, p.die = context.WithCancel(context.WithoutCancel(ctx))
	if p.watch, err = p.newObserver(); err != nil {
		return nil, err
	}
	p.hooks = p.publishHooks()
	return p, nil
}

// Profile is what a writer must know of a destination, so that the outbox client checks the same rules:
// client.Config{Profiles: p}.
func (p *Platform) Profile(d messaging.DestinationName) (messaging.Profile, bool) {
	return p.c.Profile(d)
}

// Codecs are the codecs of the platform, for client.Config{Codecs: p.Codecs()}: what the outbox writes is then held
// against the same schemas.
func (p *Platform) Codecs() []messaging.Codec { return slices.Clone(p.codecs) }

// errClosed is what a constructor gives after the close.
var errClosed = errors.New("the platform is closed")
