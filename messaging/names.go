package messaging

import (
	"strconv"
	"unicode"
	"unicode/utf8"
)

// Limits of the names and texts that travel with a message, in characters. The
// database holds the same limits.
const (
	MaxDestinationName = 160
	MaxMessageType     = 240
	MaxContentType     = 120
	MaxProducerID      = 120
	MaxTenant          = 120
	MaxCorrelationID   = 255
	MaxConsumerName    = 200
	MaxAggregateType   = 160
	MaxAggregateID     = 320
	MaxKey             = 320
	MaxSchemaVersion   = 1<<31 - 1
)

// MessageType is a catalogue value such as "order.created": lower case, dotted,
// never the name of a Go type.
type MessageType string

// ProducerID is the logical name of the service that wrote a message.
type ProducerID string

// DestinationName is the logical name of a destination, as in relay.yaml; the
// physical topic or exchange stands in its profile.
type DestinationName string

// ConsumerName names a consumer: its inbox, its metric label, its pause.
type ConsumerName string

// Tenant is one of a bounded, allow-listed set of values.
type Tenant string

// CorrelationID joins the messages of one business conversation.
type CorrelationID string

// SchemaVersion is the version of a message type's schema, from 1.
type SchemaVersion int

// ParseMessageType accepts `^[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)+$` up to 240
// characters.
func ParseMessageType(s string) (MessageType, error) {
	if len(s) == 0 || len(s) > MaxMessageType {
		return "", invalid("message type", limitText(s, MaxMessageType))
	}
	if s[0] < 'a' || s[0] > 'z' {
		return "", invalid("message type", "does not begin with a lower-case letter")
	}
	dots, segment := 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == '.':
			if segment == 0 {
				return "", invalid("message type", "has an empty part")
			}
			dots, segment = dots+1, 0
		case c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '-':
			segment++
		default:
			return "", invalid("message type", "has a character outside a-z 0-9 _ - .")
		}
	}
	if dots == 0 || segment == 0 {
		return "", invalid("message type", "is not of the form group.name")
	}
	return MessageType(s), nil
}

// ParseProducerID accepts 1 to 120 characters of text.
func ParseProducerID(s string) (ProducerID, error) {
	return ProducerID(s), checkText("producer", s, MaxProducerID)
}

// ParseDestinationName accepts 1 to 160 characters of text.
func ParseDestinationName(s string) (DestinationName, error) {
	return DestinationName(s), checkText("destination", s, MaxDestinationName)
}

// ParseConsumerName accepts 1 to 200 characters out of a-z 0-9 . _ -.
func ParseConsumerName(s string) (ConsumerName, error) {
	if len(s) == 0 || len(s) > MaxConsumerName {
		return "", invalid("consumer name", limitText(s, MaxConsumerName))
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return "", invalid("consumer name", "has a character outside a-z 0-9 . _ -")
		}
	}
	return ConsumerName(s), nil
}

// ParseTenant accepts 1 to 120 characters of text; whether the value is allowed
// is asked elsewhere.
func ParseTenant(s string) (Tenant, error) {
	return Tenant(s), checkText("tenant", s, MaxTenant)
}

// ParseCorrelationID accepts 1 to 255 characters of text.
func ParseCorrelationID(s string) (CorrelationID, error) {
	return CorrelationID(s), checkText("correlation id", s, MaxCorrelationID)
}

// ParseSchemaVersion accepts decimal text without sign or leading zeros, from 1.
func ParseSchemaVersion(s string) (SchemaVersion, error) {
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil || n < 1 || s[0] < '1' || s[0] > '9' {
		return 0, invalid("schema version", "is not a whole number from 1")
	}
	return SchemaVersion(n), nil
}

// CheckContentType accepts 1 to 120 characters of text; which content types
// exist is decided by the registered codecs.
func CheckContentType(s string) error { return checkText("content type", s, MaxContentType) }

// CheckKey accepts a partition or ordering key of 1 to 320 characters of text.
// The error never quotes the key.
func CheckKey(what, s string) error { return checkText(what, s, MaxKey) }

// checkText holds the rule of every free text on the wire: not empty, bounded,
// valid UTF-8, no control characters (a NUL ends a PostgreSQL text, a line break
// splits a log line or a header).
func checkText(what, s string, limit int) error {
	if s == "" {
		return invalid(what, "is empty")
	}
	if !utf8.ValidString(s) {
		return invalid(what, "is not valid UTF-8")
	}
	if len(s) > limit && utf8.RuneCountInString(s) > limit {
		return invalid(what, limitText(s, limit))
	}
	for _, r := range s {
		if unicode.IsControl(r) {
			return invalid(what, "has a control character")
		}
	}
	return nil
}

func limitText(s string, limit int) string {
	if s == "" {
		return "is empty"
	}
	return "has " + strconv.Itoa(utf8.RuneCountInString(s)) + " characters, the limit is " + strconv.Itoa(limit)
}
