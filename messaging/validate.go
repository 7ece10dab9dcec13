package messaging

import (
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Validate holds the rules that a writer must keep, before anything is encoded or
// stored: required fields, forms and limits, then what the profile asks. The zero
// profile asks nothing. ID and ProducedAt may still be unset, the platform fills
// them. The error is an [ErrValidation] that names the field, never its value.
func (e *Envelope[T]) Validate(p Profile) error {
	if err := e.validateRequired(); err != nil {
		return err
	}
	if err := e.validateOptional(); err != nil {
		return err
	}
	if p.KeyRequired && e.OrderingKey == "" {
		return invalid("ordering key", "is missing: the destination is ordered by key")
	}
	if err := p.Tenants.Check(e.Tenant); err != nil {
		return err
	}
	if err := e.Headers.within(p.MaxHeaders, p.MaxHeaderBytes); err != nil {
		return err
	}
	return e.validateType(p.Types)
}

func (e *Envelope[T]) validateRequired() error {
	if _, err := ParseMessageType(string(e.Type)); err != nil {
		return err
	}
	if e.Version < 1 || e.Version > MaxSchemaVersion {
		return invalid("schema version", "is not a whole number from 1 to 2147483647")
	}
	if _, err := ParseProducerID(string(e.Producer)); err != nil {
		return err
	}
	if isNil(&e.Payload) {
		return invalid("payload", "is nil")
	}
	return nil
}

func (e *Envelope[T]) validateOptional() error {
	for _, field := range []struct {
		what, value string
		limit       int
	}{
		{"correlation id", string(e.Correlation), MaxCorrelationID},
		{"tenant", string(e.Tenant), MaxTenant},
		{"content type", e.ContentType, MaxContentType},
		{"partition key", e.PartitionKey, MaxKey},
		{"ordering key", e.OrderingKey, MaxKey},
	} {
		if field.value == "" {
			continue
		}
		if err := checkText(field.what, field.value, field.limit); err != nil {
			return err
		}
	}
	if !e.OccurredAt.IsZero() && (e.OccurredAt.UTC().Year() < 1 || !e.OccurredAt.Before(endOfTime)) {
		return invalid("occurred at", "is outside the years 1 to 9999")
	}
	return nil
}

// endOfTime leaves room for every time zone within the four digits of RFC 3339.
var endOfTime = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// validateType asks the catalogue, where there is one.
func (e *Envelope[T]) validateType(types map[MessageType]TypeRule) error {
	if types == nil {
		return nil
	}
	rule, known := types[e.Type]
	if !known {
		return invalid("message type", "is not in the catalogue of this destination")
	}
	if !rule.Has(e.Version) {
		return invalid("schema version", "is not in the catalogue")
	}
	if rule.Kind.IsEvent() && e.OccurredAt.IsZero() {
		return invalid("occurred at", "is missing: an event says when it happened")
	}
	return nil
}

// isNil asks the type first: most payloads are structs, which need no look.
func isNil[T any](v *T) bool {
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Func, reflect.Chan:
		return reflect.ValueOf(v).Elem().IsNil()
	case reflect.Interface:
		in := reflect.ValueOf(v).Elem()
		if in.IsNil() {
			return true
		}
		switch held := in.Elem(); held.Kind() {
		case reflect.Pointer, reflect.Map, reflect.Slice, reflect.Func, reflect.Chan:
			return held.IsNil()
		}
	}
	return false
}

// Limits of trace context in characters, as the database holds them: what W3C
// asks of carriers.
const (
	maxTrace   = 512
	maxBaggage = 8192
)

// Sanitized gives the parts that can travel. A part that is not one line of
// UTF-8 text within its limit is dropped, as W3C advises: a broken trace must not
// refuse a business message.
func (t TraceContext) Sanitized() TraceContext {
	clean := func(s string, limit int) string {
		if utf8.RuneCountInString(s) > limit || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
			return ""
		}
		return s
	}
	out := TraceContext{Parent: clean(t.Parent, maxTrace), State: clean(t.State, maxTrace), Baggage: clean(t.Baggage, maxBaggage)}
	if out.Parent == "" { // a state without parent means nothing
		out.State = ""
	}
	return out
}

// WithBaggage keeps the members of the baggage whose keys are allowed, as they
// were written, and drops all others.
func (t TraceContext) WithBaggage(allowed []string) TraceContext {
	if t.Baggage == "" {
		return t
	}
	var kept []string
	for member := range strings.SplitSeq(t.Baggage, ",") {
		key, _, _ := strings.Cut(member, "=")
		if slices.Contains(allowed, strings.TrimSpace(key)) {
			kept = append(kept, strings.TrimSpace(member))
		}
	}
	t.Baggage = strings.Join(kept, ",")
	return t
}
