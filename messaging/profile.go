package messaging

import "slices"

// Profiles gives what a writer must know of a destination.
type Profiles interface {
	Profile(name DestinationName) (Profile, bool)
}

// Profile is what a writer must know of a destination. The zero value checks
// form only.
type Profile struct {
	// KeyRequired refuses a message without ordering key.
	KeyRequired bool
	// KeyFromAggregate copies the aggregate id into an empty ordering key.
	KeyFromAggregate bool
	// MaxBytes is the payload limit, 0 for the default; over OffloadBytes the
	// payload goes to the object store, 0 for never.
	MaxBytes, OffloadBytes int64
	// ContentType is used where the envelope names none.
	ContentType string
	// Types is the catalogue's part for this destination; nil means there is no
	// catalogue, so every type may be written.
	Types map[MessageType]TypeRule
	// RawBytes is the grant of payloads without schema.
	RawBytes bool
	// Tenants is the allow-list; nil checks the form alone.
	Tenants *Tenants
	// MaxHeaders and MaxHeaderBytes lower the limits of user headers, see
	// [MaxHeaders] and [MaxHeaderBytes]; 0 for those.
	MaxHeaders, MaxHeaderBytes int
}

// TypeRule is the catalogue's entry of one message type.
type TypeRule struct {
	Kind     MessageKind
	Versions []SchemaVersion
	// ContentType of the catalogue's codec, used where neither envelope nor
	// profile names one.
	ContentType string
}

// Has tells whether the catalogue lists the version; a rule without versions has
// every one.
func (r TypeRule) Has(v SchemaVersion) bool {
	return len(r.Versions) == 0 || slices.Contains(r.Versions, v)
}
