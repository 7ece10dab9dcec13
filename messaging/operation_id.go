package messaging

import (
	"errors"

	"github.com/google/uuid"
)

// RedriveID identifies one redrive operation, not one message: every copy that
// the operation moves carries it.
type RedriveID uuid.UUID

// ReplayID identifies one replay operation.
type ReplayID uuid.UUID

// NewRedriveID makes the id of a new redrive operation.
func NewRedriveID() RedriveID { return RedriveID(uuid.Must(uuid.NewV7())) }

// NewReplayID makes the id of a new replay operation.
func NewReplayID() ReplayID { return ReplayID(uuid.Must(uuid.NewV7())) }

// ParseRedriveID reads the canonical text of an operation's id.
func ParseRedriveID(s string) (RedriveID, error) {
	u, err := parseCanonicalUUID(s)
	if err != nil {
		return RedriveID{}, invalid("redrive id", err.Error())
	}
	return RedriveID(u), nil
}

// ParseReplayID reads the canonical text of an operation's id.
func ParseReplayID(s string) (ReplayID, error) {
	u, err := parseCanonicalUUID(s)
	if err != nil {
		return ReplayID{}, invalid("replay id", err.Error())
	}
	return ReplayID(u), nil
}

// String gives the canonical text, or "" for the zero id.
func (id RedriveID) String() string { return operationText(uuid.UUID(id)) }

// IsZero tells whether the id was never set.
func (id RedriveID) IsZero() bool { return uuid.UUID(id) == uuid.Nil }

// String gives the canonical text, or "" for the zero id.
func (id ReplayID) String() string { return operationText(uuid.UUID(id)) }

// IsZero tells whether the id was never set.
func (id ReplayID) IsZero() bool { return uuid.UUID(id) == uuid.Nil }

func operationText(u uuid.UUID) string {
	if u == uuid.Nil {
		return ""
	}
	return u.String()
}

// parseCanonicalUUID refuses the braces, prefixes and upper case that the
// library accepts: one id must have one text, since texts are compared.
func parseCanonicalUUID(s string) (uuid.UUID, error) {
	if len(s) != 36 {
		return uuid.UUID{}, errors.New("is not canonical UUID text")
	}
	for i := range len(s) {
		if s[i] >= 'A' && s[i] <= 'Z' {
			return uuid.UUID{}, errors.New("is not in lower case")
		}
	}
	u, err := uuid.Parse(s)
	if err != nil { // the library's text quotes its input
		return uuid.UUID{}, errors.New("is not canonical UUID text")
	}
	if u == uuid.Nil {
		return uuid.UUID{}, errors.New("is the zero id")
	}
	return u, nil
}
