package publish

import (
	"context"
	"io"
	"reflect"
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

// publisher is a [messaging.Publisher] of one type and version at one destination.
type publisher[T any] struct {
	d     *Destination
	rules Rules
	raw   bool
}

// New makes a publisher. The error is an [messaging.ErrConfiguration] for what the catalogue or the codecs do not have,
// or an [messaging.ErrCapabilityUnavailable] for what the profile does not grant.
func New[T any](d *Destination, to messaging.Destination[T]) (messaging.Publisher[T], error) {
	return newPublisher(d, to)
}

func newPublisher[T any](d *Destination, to messaging.Destination[T]) (*publisher[T], error) {
	p := &publisher[T]{d: d, rules: d.Rules}
	p.rules.Type, p.rules.Version = to.Type, to.Version
	return p, p.check(to)
}

func (p *publisher[T]) check(to messaging.Destination[T]) error {
	refuse := func(kind error, text string) error {
		return &messaging.Error{Op: "new publisher", Kind: kind, Destination: to.Name, Cause: cause(text)}
	}
	if _, err := messaging.ParseMessageType(string(to.Type)); err != nil {
		return refuse(messaging.ErrConfiguration, "the message type is not of the form group.name")
	}
	if to.Version < 1 {
		return refuse(messaging.ErrConfiguration, "the schema version is not a whole number from 1")
	}
	if types := p.rules.Profile.Types; types != nil {
		rule, known := types[to.Type]
		if !known {
			return refuse(messaging.ErrConfiguration, "the catalogue does not have the message type "+string(to.Type))
		}
		if !rule.Has(to.Version) {
			return refuse(messaging.ErrConfiguration, "the catalogue does not have this version of "+string(to.Type))
		}
	}
	var zero T
	switch any(zero).(type) {
	case messaging.Tombstone:
		if !p.d.granted(GrantNull) {
			return refuse(messaging.ErrCapabilityUnavailable, "null payloads need the grant "+GrantNull)
		}
		return nil
	case messaging.Raw:
		if p.raw = true; !p.d.granted(GrantRaw) {
			return refuse(messaging.ErrCapabilityUnavailable, "raw bytes need the grant "+GrantRaw)
		}
	}
	if reflect.TypeFor[T]().Implements(reflect.TypeFor[io.Reader]()) {
		return refuse(messaging.ErrConfiguration, "a payload that can be read once cannot be sent again; read it into messaging.Raw")
	}
	if _, err := p.rules.codec("", any(zero)); err != nil {
		return refuse(messaging.ErrConfiguration, "no codec is registered for the destination's content type")
	}
	return nil
}

// cause is a fixed text as an error.
type cause string

func (c cause) Error() string { return string(c) }

// shot is one message of a type on its way.
type shot[T any] struct {
	flight
	e messaging.Envelope[T]
}

// load takes the first half of the way and the place: everything before the adapter.
func (p *publisher[T]) load(ctx context.Context, s *shot[T], o *messaging.PublishOptions, add request) (left time.Duration, err error) {
	r, err := p.prepare(ctx, s, o, add)
	if err != nil {
		return 0, err
	}
	if err := p.d.admit(ctx, 1, r.timeout); err != nil {
		return 0, err
	}
	s.step(QueuedLocally)
	if left = r.timeout - time.Since(s.began); left <= 0 {
		p.d.Broker.release(1)
		return 0, notSent(messaging.CategoryThrottled, messaging.CodeBackpressure, "the places for messages in flight stayed taken")
	}
	return left, nil
}

// prepare takes the first half of the way: validation, encoding, limits, the destination's own rules.
func (p *publisher[T]) prepare(ctx context.Context, s *shot[T], o *messaging.PublishOptions, add request) (request, error) {
	s.d, s.began = p.d, time.Now()
	r, err := p.d.resolve(o)
	s.required, r.delay, r.replyTo = r.required, add.delay, add.replyTo
	if err != nil {
		return r, err
	}
	if ctx.Err() != nil {
		return r, errNotSent
	}
	if err := Complete(ctx, &p.rules, &s.e); err != nil {
		return r, err
	}
	s.e.ProducedAt = s.began.UTC()
	if err := s.e.Validate(p.rules.Profile); err != nil {
		return r, err
	}
	s.step(Validated)
	payload, err := encode(ctx, &p.rules, &s.e)
	if err != nil {
		return r, err
	}
	if err := s.render(fields(&s.e, payload.ContentType), payload, r); err != nil {
		return r, err
	}
	if err := p.d.hint(&s.message[0], r.hint); err != nil {
		return r, err
	}
	s.step(Encoded)
	if hook := p.d.Broker.hooks.Audit; p.raw && hook != nil {
		hook(p.d.Name, "SCHEMA_VALIDATION_BYPASSED")
	}
	return r, nil
}

var errClosed = messaging.NewFailure(messaging.CategoryTransientInfrastructure, messaging.CodeClosed, "the platform is closed for publishes")

// Publish blocks for the verdict.
func (p *publisher[T]) Publish(ctx context.Context, e messaging.Envelope[T], o *messaging.PublishOptions) (messaging.PublishResult, error) {
	return p.publish(ctx, e, o, request{})
}

func (p *publisher[T]) publish(ctx context.Context, e messaging.Envelope[T], o *messaging.PublishOptions, add request) (messaging.PublishResult, error) {
	s := &shot[T]{e: e}
	if !p.d.Broker.enter(ctx) {
		return p.closed(ctx, s)
	}
	defer p.d.Broker.exit()
	left, err := p.load(ctx, s, o, add)
	if err != nil {
		s.refuse(err)
	} else {
		s.send(ctx, left)
	}
	err = s.finish(ctx)
	return s.result, err
}

func (p *publisher[T]) closed(ctx context.Context, s *shot[T]) (messaging.PublishResult, error) {
	s.d, s.began = p.d, time.Now()
	s.refuse(errClosed)
	err := s.finish(ctx)
	return s.result, err
}

// PublishAsync blocks for admission alone; done comes from another goroutine, also for what is refused at once.
func (p *publisher[T]) PublishAsync(ctx context.Context, e messaging.Envelope[T], o *messaging.PublishOptions, done func(messaging.PublishResult, error)) {
	p.async(ctx, &shot[T]{e: e}, o, done)
}

func (p *publisher[T]) async(ctx context.Context, s *shot[T], o *messaging.PublishOptions, done func(messaging.PublishResult, error)) {
	if !p.d.Broker.enter(ctx) {
		r, err := p.closed(ctx, s)
		s.skip()
		go done(r, err)
		return
	}
	loaded := false
	defer func() {
		if !loaded { // the codec panicked, which is the caller's to see; nothing stays open
			p.d.Broker.exit()
		}
	}()
	left, err := p.load(ctx, s, o, request{})
	loaded = true
	if err != nil {
		s.refuse(err)
		s.skip()
	}
	go func() {
		defer p.d.Broker.exit()
		if err == nil {
			s.send(ctx, left)
		}
		err := s.finish(ctx)
		done(s.result, err)
	}()
}
