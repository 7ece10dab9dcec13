package json

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"

	"github.com/backend-skeleton/relay/messaging"
)

// ContentType is the content type of the codec.
const ContentType = "application/json"

// Defaults and bounds of [Config].
const (
	DefaultMaxBytes = 8 << 20 // the hard payload limit
	DefaultMaxDepth = 64
)

// UnknownFields says what becomes of a field that the Go type lacks.
type UnknownFields uint8

const (
	// IgnoreUnknownFields is the default: an old consumer reads what a newer
	// producer added.
	IgnoreUnknownFields UnknownFields = iota
	// RefuseUnknownFields makes such a payload a decoding failure.
	RefuseUnknownFields
)

// Config holds the limits; the zero value is useful.
type Config struct {
	// MaxBytes is the largest payload in bytes; 0 means 8 MiB.
	MaxBytes int
	// MaxDepth is how deep objects and arrays may nest; 0 means 64.
	MaxDepth int
	// UnknownFields is [IgnoreUnknownFields] unless set.
	UnknownFields UnknownFields
}

// Codec is a [messaging.Codec]; make it with [New].
type Codec struct{ c Config }

var _ messaging.Codec = (*Codec)(nil)

// New makes a codec. A negative limit is a [messaging.ErrConfiguration].
func New(c Config) (*Codec, error) {
	if c.MaxBytes < 0 || c.MaxDepth < 0 || c.UnknownFields > RefuseUnknownFields {
		return nil, &messaging.Error{Op: "json codec", Kind: messaging.ErrConfiguration, Cause: errors.New("a limit is negative or the policy is unknown")}
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	if c.MaxDepth == 0 {
		c.MaxDepth = DefaultMaxDepth
	}
	return &Codec{c: c}, nil
}

// ContentType gives "application/json".
func (c *Codec) ContentType() string { return ContentType }

// Encode gives compact JSON without HTML escapes and no schema reference. A value
// that JSON cannot hold or that is null is a [messaging.ErrSerialization], one
// over the size limit a [messaging.ErrTooLarge]. What Decode would refuse is
// refused here with the same code: a key given twice, too much depth, text that
// is not UTF-8.
func (c *Codec) Encode(_ context.Context, _ messaging.MessageType, _ messaging.SchemaVersion, value any) ([]byte, *messaging.SchemaReference, error) {
	switch value.(type) {
	case messaging.Raw, messaging.Tombstone: // base64 and {} are not what they mean
		return nil, nil, encodeError("raw bytes and tombstones have no JSON form", nil)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, nil, encodeError("the value has no JSON form", err)
	}
	data := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if string(data) == "null" {
		return nil, nil, encodeError("the value is null", nil)
	}
	if len(data) > c.c.MaxBytes {
		return nil, nil, &messaging.Error{
			Op: "encode json", Kind: messaging.ErrTooLarge,
			Failure: messaging.NewFailure(messaging.CategoryValidation, messaging.CodeTooLarge, sizeText(len(data), c.c.MaxBytes)),
		}
	}
	if replacement(data) {
		return nil, nil, encodeRefused(refuse(messaging.CodeMalformedPayload, "a string of the value is not UTF-8"))
	}
	if f := check(data, c.c.MaxDepth, reflect.TypeOf(value)); f != nil {
		return nil, nil, encodeRefused(f)
	}
	return data, nil, nil
}

// Decode reads one JSON value into a pointer. Digits stay exact: a number goes into
// its Go type whole or is an error, and where the type is open (any) it is a
// json.Number. Of a field's key the case does not matter, as in encoding/json; two
// keys that mean one field are refused as a key given twice. Every error is a
// [messaging.ErrSerialization] of the category DESERIALIZATION: it does not go
// away by itself. The schema reference is not used.
func (c *Codec) Decode(_ context.Context, _ messaging.MessageType, _ messaging.SchemaVersion, _ *messaging.SchemaReference, data []byte, into any) error {
	if len(data) > c.c.MaxBytes {
		return decodeError(refuse(messaging.CodeTooLarge, sizeText(len(data), c.c.MaxBytes)))
	}
	if f := check(data, c.c.MaxDepth, reflect.TypeOf(into)); f != nil {
		return decodeError(f)
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // a number whose Go type is open keeps its digits, as json.Number
	if c.c.UnknownFields == RefuseUnknownFields {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(into); err != nil {
		return decodeError(c.classify(err))
	}
	return nil
}

// classify names the failure without the library's text, which quotes values.
func (c *Codec) classify(err error) *messaging.Failure {
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		return refuseTyped(messaging.CodeMalformedPayload, "a value does not fit its Go type, at byte "+strconv.FormatInt(mismatch.Offset, 10), err)
	}
	var invalid *json.InvalidUnmarshalError
	if errors.As(err, &invalid) {
		return refuseTyped(messaging.CodeMalformedPayload, "the target is not a pointer", err)
	}
	// The decoder has no type for it; syntax was checked before.
	if c.c.UnknownFields == RefuseUnknownFields && strings.HasPrefix(err.Error(), "json: unknown field") {
		return refuseTyped(messaging.CodeUnknownField, "there is a field that the Go type lacks", err)
	}
	return refuseTyped(messaging.CodeMalformedPayload, "a value was refused by its Go type", err)
}
