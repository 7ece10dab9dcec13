package jsonschema

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	schemas "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/codec/golden"
	"github.com/backend-skeleton/relay/messaging/codec/json"
)

// Config of a [Codec].
type Config struct {
	// Codec that encodes and decodes; nil is JSON with its defaults. Its bytes must be JSON.
	Codec messaging.Codec
	// Schemas holds the directories of Types.
	Schemas fs.FS
	// Types maps each message type to its directory, laid out as package golden says. Types without a directory are not
	// validated.
	Types map[messaging.MessageType]string
}

// Codec is a [messaging.Codec] that holds payloads against the schema of their type and version, when they are sent and
// when they are received. It is safe for concurrent use; make it with [New].
type Codec struct {
	inner   messaging.Codec
	schemas map[messaging.MessageType]map[messaging.SchemaVersion]*schemas.Schema
}

var _ messaging.Codec = (*Codec)(nil)

// New compiles every schema. The error is an [messaging.ErrConfiguration] that names type and version of each that does
// not compile. A schema refers to itself and to the standard's own meta schemas; anything else is refused, so that no
// start depends on a network.
func New(c Config) (*Codec, error) {
	out := &Codec{inner: c.Codec, schemas: map[messaging.MessageType]map[messaging.SchemaVersion]*schemas.Schema{}}
	if out.inner == nil {
		standard, err := json.New(json.Config{})
		if err != nil {
			return nil, err
		}
		out.inner = standard
	}
	var found []error
	for t, dir := range c.Types {
		versions, err := golden.Read(c.Schemas, dir)
		if err != nil {
			found = append(found, fmt.Errorf("schemas of %s: %w", t, err))
			continue
		}
		out.schemas[t] = map[messaging.SchemaVersion]*schemas.Schema{}
		for _, v := range versions {
			if v.SchemaName == "" {
				continue
			}
			compiled, err := Compile(v.Schema)
			if err != nil {
				found = append(found, fmt.Errorf("schema of %s version %d: %w", t, v.Number, err))
				continue
			}
			out.schemas[t][v.Number] = compiled.schema
		}
	}
	if len(found) > 0 {
		return nil, &messaging.Error{Op: "json schema codec", Kind: messaging.ErrConfiguration, Cause: errors.Join(found...)}
	}
	return out, nil
}

// Has tells whether payloads of the type and version are held against a schema.
func (c *Codec) Has(t messaging.MessageType, v messaging.SchemaVersion) bool {
	return c.schemas[t][v] != nil
}

// ContentType is the inner codec's.
func (c *Codec) ContentType() string { return c.inner.ContentType() }

// Encode encodes and validates. A payload that breaks its schema, or has none in a type with schemas, is a
// [messaging.ErrSchemaIncompatible]; the error names the rule by its place in the schema and no value.
func (c *Codec) Encode(ctx context.Context, t messaging.MessageType, v messaging.SchemaVersion, value any) ([]byte, *messaging.SchemaReference, error) {
	data, ref, err := c.inner.Encode(ctx, t, v, value)
	if err != nil {
		return nil, nil, err
	}
	if err := c.validate("encode json", messaging.CategoryValidation, t, v, data); err != nil {
		return nil, nil, err
	}
	return data, ref, nil
}

// Decode decodes, which checks the form first, and validates. Errors of the schema are as those of Encode, of the
// category DESERIALIZATION.
func (c *Codec) Decode(ctx context.Context, t messaging.MessageType, v messaging.SchemaVersion, ref *messaging.SchemaReference, data []byte, into any) error {
	if err := c.inner.Decode(ctx, t, v, ref, data, into); err != nil {
		return err
	}
	return c.validate("decode json", messaging.CategoryDeserialization, t, v, data)
}

func (c *Codec) validate(op string, category messaging.Category, t messaging.MessageType, v messaging.SchemaVersion, data []byte) error {
	versions, known := c.schemas[t]
	if !known {
		return nil
	}
	refuse := func(code, text string) error {
		return &messaging.Error{Op: op, Kind: messaging.ErrSchemaIncompatible, Failure: messaging.NewFailure(category, code, text)}
	}
	schema := versions[v]
	if schema == nil {
		return refuse(messaging.CodeSchemaUnknown, fmt.Sprintf("there is no schema of version %d", v))
	}
	if rule := (&Schema{schema: schema}).Broken(data); rule != "" {
		return refuse(messaging.CodeSchemaViolation, "the payload breaks the schema at "+rule)
	}
	return nil
}

// Schema is one compiled schema.
type Schema struct{ schema *schemas.Schema }

// Compile compiles the text of a schema. Errors name the place in the schema.
func Compile(text []byte) (*Schema, error) {
	doc, err := schemas.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, errors.New("it is not JSON")
	}
	if unbounded(doc) {
		return nil, fmt.Errorf("it holds a number of more than %d digits", maxDigits)
	}
	c := schemas.NewCompiler()
	c.UseLoader(nowhere{})
	const name = "https://schema.invalid/self.json"
	if err := c.AddResource(name, doc); err != nil {
		return nil, err
	}
	schema, err := c.Compile(name)
	if err != nil {
		return nil, err
	}
	return &Schema{schema: schema}, nil
}

// Broken names the first rule that a payload breaks, by its place in the schema; "" for none. It quotes nothing of the
// payload, no key of it either.
func (s *Schema) Broken(data []byte) string {
	value, err := schemas.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return "its very form: it is not one JSON value"
	}
	if unbounded(value) {
		return fmt.Sprintf("a number of more than %d digits, which is not compared", maxDigits)
	}
	err = s.schema.Validate(value)
	if err == nil {
		return ""
	}
	var broken *schemas.ValidationError
	if !errors.As(err, &broken) {
		return "a place that is not known"
	}
	for len(broken.Causes) > 0 {
		broken = broken.Causes[0]
	}
	_, place, _ := strings.Cut(broken.SchemaURL, "#")
	for _, part := range broken.ErrorKind.KeywordPath() {
		place += "/" + part
	}
	return "#" + place
}

// nowhere refuses every document beside the schema itself.
type nowhere struct{}

func (nowhere) Load(string) (any, error) {
	return nil, errors.New("a schema refers to nothing outside of itself")
}
