package messaging

import "context"

// Codec turns a value into bytes and back. It is safe for concurrent use. The
// context is there because a registry may be asked; that registry's outage is
// TRANSIENT_INFRASTRUCTURE, never DESERIALIZATION. Decode does not
// keep into once it has returned: it is used again.
type Codec interface {
	ContentType() string
	Encode(ctx context.Context, t MessageType, v SchemaVersion, value any) ([]byte, *SchemaReference, error)
	Decode(ctx context.Context, t MessageType, v SchemaVersion, ref *SchemaReference, data []byte, into any) error
}

// SchemaReference says by which schema of which registry a payload was encoded.
// On the wire it is compact JSON.
type SchemaReference struct {
	Registry string `json:"registry"`
	Subject  string `json:"subject"`
	Version  int    `json:"version"`
	ID       int    `json:"id"`
}
