package messaging

import (
	"encoding/hex"

	"github.com/google/uuid"
)

// MessageID identifies a message for its whole life: publish retries,
// redeliveries, dead letters and redrives keep it. It is a UUIDv7; the zero
// value is invalid everywhere.
type MessageID struct{ id uuid.UUID }

// NewMessageID makes a fresh id. Make one only for a new business event or
// command, never for a retry. It is safe for concurrent use, and ids made by
// one process ascend.
func NewMessageID() MessageID {
	// The only possible error is the random source's, which crashes the program
	// by itself since Go 1.24.
	return MessageID{id: uuid.Must(uuid.NewV7())}
}

// ParseMessageID reads the canonical text of a UUIDv7: 36 characters, lower
// case, hyphens. Anything else, the other forms that UUID libraries accept
// included, is an [ErrValidation].
func ParseMessageID(s string) (MessageID, error) {
	u, err := parseCanonicalUUID(s)
	if err != nil {
		return MessageID{}, invalid("message id", err.Error())
	}
	return MessageIDFromUUID(u)
}

// MessageIDFromUUID takes an id as a database driver gives it. An id that is
// zero, of another version or of another variant is an [ErrValidation].
func MessageIDFromUUID(u uuid.UUID) (MessageID, error) {
	if u.Version() != 7 || u.Variant() != uuid.RFC4122 {
		return MessageID{}, invalid("message id", "is not a UUIDv7")
	}
	return MessageID{id: u}, nil
}

// String gives the canonical text, or "" for the zero id.
func (id MessageID) String() string {
	if id.IsZero() {
		return ""
	}
	return id.id.String()
}

// UUID gives the sixteen bytes, in the form that database drivers accept.
func (id MessageID) UUID() uuid.UUID { return id.id }

// IsZero tells whether the id was never set.
func (id MessageID) IsZero() bool { return id.id == uuid.UUID{} }

// AppendText appends the canonical text to b.
func (id MessageID) AppendText(b []byte) ([]byte, error) {
	if id.IsZero() {
		return b, invalid("message id", "is unset")
	}
	b = hex.AppendEncode(b, id.id[:4])
	for _, part := range [][]byte{id.id[4:6], id.id[6:8], id.id[8:10], id.id[10:]} {
		b = hex.AppendEncode(append(b, '-'), part)
	}
	return b, nil
}

// MarshalText gives the canonical text; the zero id is an [ErrValidation].
func (id MessageID) MarshalText() ([]byte, error) { return id.AppendText(nil) }

// UnmarshalText is [ParseMessageID] for decoders.
func (id *MessageID) UnmarshalText(text []byte) error {
	parsed, err := ParseMessageID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// CausationID is the id of the message that caused this one; a reply names its
// request here.
type CausationID struct{ MessageID }

// ParseCausationID reads the canonical text of the causing message's id.
func ParseCausationID(s string) (CausationID, error) {
	id, err := ParseMessageID(s)
	if err != nil {
		return CausationID{}, invalid("causation id", "is not the canonical text of a UUIDv7")
	}
	return CausationID{id}, nil
}
