package config

import (
	"cmp"
	"slices"

	"github.com/backend-skeleton/relay/messaging"
)

var _ messaging.Profiles = (*Config)(nil)

// contentTypes are the content types of the file's words for codecs.
var contentTypes = map[Codec]string{
	JSON:       "application/json",
	Raw:        "application/octet-stream",
	"avro":     "application/avro",
	"protobuf": "application/protobuf",
}

// ContentType is the content type that the word of a codec stands for.
func (c Codec) ContentType() string { return contentTypes[c] }

// Profile is what a writer must know of a destination; false for one that the file does not have.
func (c *Config) Profile(name messaging.DestinationName) (messaging.Profile, bool) {
	dest, ok := c.Messaging.Destinations[string(name)]
	if !ok {
		return messaging.Profile{}, false
	}
	return messaging.Profile{
		KeyRequired:      dest.Guarantees.Ordering == OrderingKey && cmp.Or(dest.Outbox.Keyless, c.Relay.Keyless) != AllowKeyless,
		KeyFromAggregate: dest.Outbox.KeyFrom == KeyFromAggregateID,
		MaxBytes:         int64(orDefault(dest.Payload.MaxBytes, Size(c.LogicalPayload()))),
		ContentType:      dest.Schema.Codec.ContentType(),
		Types:            c.typeRules(),
		RawBytes:         dest.Granted(RawBytes),
		Tenants:          c.tenants(),
		MaxHeaders:       orDefault(c.Messaging.Limits.HeadersCount.Value, messaging.MaxHeaders),
		MaxHeaderBytes:   int(orDefault(c.Messaging.Limits.HeadersTotal.Value, messaging.MaxHeaderBytes)),
	}, true
}

// typeRules is the catalogue as writers see it; nil for a file without one.
func (c *Config) typeRules() map[messaging.MessageType]messaging.TypeRule {
	if len(c.Messaging.Catalogue) == 0 {
		return nil
	}
	out := make(map[messaging.MessageType]messaging.TypeRule, len(c.Messaging.Catalogue))
	for name, t := range c.Messaging.Catalogue {
		kind, _ := messaging.ParseMessageKind(string(t.Kind)) // the decoder knows the same words
		rule := messaging.TypeRule{Kind: kind, ContentType: t.Codec.ContentType()}
		for _, v := range t.Versions {
			rule.Versions = append(rule.Versions, messaging.SchemaVersion(v))
		}
		out[messaging.MessageType(name)] = rule
	}
	return out
}

func (c *Config) tenants() *messaging.Tenants {
	list := make([]messaging.Tenant, len(c.Security.Tenants))
	for i, t := range c.Security.Tenants {
		list[i] = messaging.Tenant(t)
	}
	return messaging.NewTenants(list...)
}

// NamedType is one message type of the catalogue with its name.
type NamedType struct {
	Name string
	CatalogueType
}

// Types lists the catalogue by name.
func (c *Config) Types() (out []NamedType) {
	for name, t := range each(c.Messaging.Catalogue) {
		out = append(out, NamedType{Name: name, CatalogueType: t})
	}
	return out
}

// Compatible is the compatibility mode of a message type: its own, or the default of its kind.
func (t CatalogueType) Compatible() Compatibility {
	if t.Compatibility != "" {
		return t.Compatibility
	}
	if t.Kind == "COMMAND" {
		return "BACKWARD"
	}
	return "BACKWARD_TRANSITIVE"
}

// Granted tells whether the destination opens an ability.
func (d Destination) Granted(g Grant) bool { return slices.Contains(d.Grants, g) }

// Granted tells whether the consumer may use an ability.
func (c Consumer) Granted(g Grant) bool { return slices.Contains(c.Grants, g) }

// Guarded tells an environment in which the rules of production hold: staging and production.
func (e Environment) Guarded() bool { return e == Staging || e == Production }
