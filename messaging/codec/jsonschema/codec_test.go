package jsonschema_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/codec/golden"
	"github.com/backend-skeleton/relay/messaging/codec/jsonschema"
)

type order struct {
	ID     string            `json:"id"`
	Cents  int64             `json:"cents"`
	Labels map[string]string `json:"labels,omitempty"`
}

var created = messaging.Destination[order]{Name: "order-events", Type: "order.created", Version: 2}

const schemaText = `{"type":"object","required":["id","cents"],"properties":{"id":{"type":"string","maxLength":8},
	"cents":{"type":"integer","minimum":0},"labels":{"additionalProperties":{"maxLength":3}}}}`

func schemas() fstest.MapFS {
	return fstest.MapFS{
		"schemas/order.created/v1/schema.json":        {Data: []byte(`{"type":"object","required":["id"]}`)},
		"schemas/order.created/v1/valid.json":         {Data: []byte(`{"id":"1"}`)},
		"schemas/order.created/v2/schema.json":        {Data: []byte(schemaText)},
		"schemas/order.created/v2/valid.json":         {Data: []byte(`{"id":"1","cents":9007199254740993}`)},
		"schemas/order.created/v2/invalid/minus.json": {Data: []byte(`{"id":"1","cents":-1}`)},
		"schemas/order.created/invalid/empty.json":    {Data: []byte(`{}`)},
		"schemas/order.created/README.md":             {Data: []byte("ignored")},
	}
}

func newCodec(t *testing.T) *jsonschema.Codec {
	t.Helper()
	c, err := jsonschema.New(jsonschema.Config{
		Schemas: schemas(), Types: map[messaging.MessageType]string{"order.created": "schemas/order.created"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestPayloadsAreHeldAgainstTheirSchema(t *testing.T) {
	t.Parallel()
	const secret = "s3cret"
	c := newCodec(t)
	for name, tc := range map[string]struct {
		v     messaging.SchemaVersion
		value order
		code  string // "" for accepted
		place string
	}{
		"valid":           {2, order{ID: "1", Cents: 1}, "", ""},
		"negative":        {2, order{ID: "1", Cents: -1}, messaging.CodeSchemaViolation, "#/properties/cents/minimum"},
		"too long":        {2, order{ID: strings.Repeat(secret, 2)}, messaging.CodeSchemaViolation, "#/properties/id/maxLength"},
		"a key of a map":  {2, order{ID: "1", Labels: map[string]string{secret: secret}}, messaging.CodeSchemaViolation, "#/properties/labels/additionalProperties/maxLength"},
		"unknown version": {3, order{ID: "1"}, messaging.CodeSchemaUnknown, ""},
	} {
		data, _, err := c.Encode(context.Background(), created.Type, tc.v, tc.value)
		var f *messaging.Failure
		if tc.code == "" {
			if err != nil || c.Decode(context.Background(), created.Type, tc.v, nil, data, new(order)) != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.Is(err, messaging.ErrSchemaIncompatible) || !errors.As(err, &f) || f.Code != tc.code || f.Category != messaging.CategoryValidation {
			t.Errorf("%s: %v", name, err)
		} else if !strings.Contains(err.Error(), tc.place) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
	err := c.Decode(context.Background(), created.Type, 2, nil, []byte(`{"id":"1","cents":-5}`), new(order))
	var f *messaging.Failure
	if !errors.As(err, &f) || f.Category != messaging.CategoryDeserialization || f.Code != messaging.CodeSchemaViolation || f.Retryable {
		t.Errorf("decoding: %v", err)
	}
	// A type without schemas passes.
	if _, _, err := c.Encode(context.Background(), "order.paid", 1, order{}); err != nil {
		t.Errorf("a type without schemas: %v", err)
	}
	if !c.Has("order.created", 2) || c.Has("order.created", 3) || c.Has("order.paid", 1) {
		t.Error("Has is wrong about what is validated")
	}
}

// A service's own test of its golden messages: two lines.
func TestGoldenMessagesOfAService(t *testing.T) {
	t.Parallel()
	versions, err := golden.Read(schemas(), "schemas/order.created")
	if err != nil || len(versions) != 2 {
		t.Fatal(versions, err)
	}
	if problems := golden.Decode(context.Background(), newCodec(t), created, versions); len(problems) > 0 {
		t.Error(problems)
	}
	files := schemas()
	files["schemas/order.created/v2/valid.old.json"] = &fstest.MapFile{Data: []byte(`{"id":7}`)}
	files["schemas/order.created/v2/invalid/fine.json"] = &fstest.MapFile{Data: []byte(`{"id":"1","cents":1}`)}
	if versions, err = golden.Read(files, "schemas/order.created"); err != nil {
		t.Fatal(err)
	}
	problems := golden.Decode(context.Background(), newCodec(t), created, versions)
	if len(problems) != 2 || !strings.Contains(problems[0].Error(), "v2/valid.old.json is refused") || !strings.Contains(problems[1].Error(), "v2/invalid/fine.json is accepted") {
		t.Error(problems)
	}
}

func TestSchemasAreRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	beside := filepath.Join(t.TempDir(), "beside.json")
	if err := os.WriteFile(beside, []byte(`{"type":"object"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"no JSON": `{`, "no schema": `{"type":1}`, "from the network": `{"$ref":"https://example.com/x.json"}`, "from a file": `{"$ref":"file://` + filepath.ToSlash(beside) + `"}`,
	} {
		files := schemas()
		files["schemas/order.created/v2/schema.json"] = &fstest.MapFile{Data: []byte(text)}
		_, err := jsonschema.New(jsonschema.Config{Schemas: files, Types: map[messaging.MessageType]string{"order.created": "schemas/order.created"}})
		if !errors.Is(err, messaging.ErrConfiguration) || !strings.Contains(err.Error(), "order.created version 2") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := jsonschema.New(jsonschema.Config{Schemas: schemas(), Types: map[messaging.MessageType]string{"order.paid": "schemas/order.paid"}}); !errors.Is(err, messaging.ErrConfiguration) {
		t.Errorf("an absent directory: %v", err)
	}
}
