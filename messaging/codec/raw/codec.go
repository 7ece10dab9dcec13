// Package raw carries bytes that no codec touches and no schema describes. A destination opens them with the grant
// RAW_BYTES, and every publish of them is an audit event.
package raw

import (
	"context"
	"errors"

	"github.com/backend-skeleton/relay/messaging"
)

// ContentType is the content type of raw bytes that name none.
const ContentType = "application/octet-stream"

// Codec is a [messaging.Codec] whose only value is [messaging.Raw]; make it with [New].
type Codec struct{ contentType string }

var _ messaging.Codec = (*Codec)(nil)

// New makes a codec of a content type, [ContentType] for "". The error is an [messaging.ErrConfiguration].
func New(contentType string) (*Codec, error) {
	if contentType == "" {
		contentType = ContentType
	}
	if err := messaging.CheckContentType(contentType); err != nil {
		return nil, &messaging.Error{Op: "raw codec", Kind: messaging.ErrConfiguration, Cause: err}
	}
	return &Codec{contentType: contentType}, nil
}

// ContentType gives the content type.
func (c *Codec) ContentType() string { return c.contentType }

// Encode gives the bytes themselves. Whatever is no [messaging.Raw], or nil, is a [messaging.ErrSerialization]; empty
// bytes are a payload.
func (c *Codec) Encode(_ context.Context, _ messaging.MessageType, _ messaging.SchemaVersion, value any) ([]byte, *messaging.SchemaReference, error) {
	data, ok := value.(messaging.Raw)
	if !ok || data == nil {
		return nil, nil, refuse("encode raw", messaging.CodeSerialization, messaging.CategoryValidation)
	}
	return data, nil, nil
}

// Decode copies the bytes into a *[messaging.Raw]; another target is a [messaging.ErrSerialization].
func (c *Codec) Decode(_ context.Context, _ messaging.MessageType, _ messaging.SchemaVersion, _ *messaging.SchemaReference, data []byte, into any) error {
	target, ok := into.(*messaging.Raw)
	if !ok || target == nil {
		return refuse("decode raw", messaging.CodeMalformedPayload, messaging.CategoryDeserialization)
	}
	*target = append(messaging.Raw{}, data...)
	return nil
}

func refuse(op, code string, category messaging.Category) error {
	return &messaging.Error{
		Op: op, Kind: messaging.ErrSerialization,
		Failure: messaging.NewFailure(category, code, "raw bytes are held by messaging.Raw alone"),
		Cause:   errors.New("the value is of another type"),
	}
}
