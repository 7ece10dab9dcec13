package schema_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/backend-skeleton/relay/internal/schema"
	"github.com/backend-skeleton/relay/messaging"
)

// object makes a schema of properties, a list of those that are required, and more keywords.
func object(properties, required, more string) string {
	return `{"type":"object","properties":{` + properties + `},"required":[` + required + `]` + more + `}`
}

const (
	idOnly = `"id":{"type":"string"}`
	valid  = `{"id":"1"}`
)

// pair is a type with two versions whose golden messages are as small as can be.
func pair(first, second string) fstest.MapFS {
	golden := func(schema string) []byte {
		if strings.Contains(schema, `"id","note"`) {
			return []byte(`{"id":"1","note":"x"}`)
		}
		return []byte(valid)
	}
	return fstest.MapFS{
		"order.created/v1/schema.json": {Data: []byte(first)}, "order.created/v1/valid.json": {Data: golden(first)},
		"order.created/v2/schema.json": {Data: []byte(second)}, "order.created/v2/valid.json": {Data: golden(second)},
	}
}

func check(fsys fstest.MapFS, mode schema.Mode, versions ...messaging.SchemaVersion) (out []string) {
	for _, f := range schema.Check(fsys, schema.Type{Name: "order.created", Dir: "order.created", Versions: versions, Mode: mode}) {
		out = append(out, f.Where+": "+f.Rule)
	}
	return out
}

// Each row changes a schema and says which direction breaks.
func TestCompatibility(t *testing.T) {
	t.Parallel()
	base := object(idOnly, `"id"`, "")
	closed := object(idOnly, `"id"`, `,"additionalProperties":false`)
	for _, c := range []struct {
		name, first, second string
		backward, forward   string // a part of the finding; "" for none
	}{
		{"nothing changed", base, base, "", ""},
		{"an optional field added", base, object(idOnly+`,"note":{"type":"string"}`, `"id"`, ""), "", ""},
		{"a required field added", base, object(idOnly+`,"note":{"type":"string"}`, `"id","note"`, ""), "#/required: BACKWARD", ""},
		{"a required field removed", object(idOnly+`,"note":{"type":"string"}`, `"id","note"`, ""), base, "", "#/required: FORWARD"},
		{"a field added to a closed object", closed, object(idOnly+`,"note":{"type":"string"}`, `"id"`, `,"additionalProperties":false`), "", "#/additionalProperties: FORWARD"},
		{"closed", base, closed, "#/additionalProperties: BACKWARD", ""},
		{"a type changed", object(idOnly+`,"n":{"type":"integer"}`, `"id"`, ""), object(idOnly+`,"n":{"type":"string"}`, `"id"`, ""), "#/properties/n/type: BACKWARD", "#/properties/n/type: FORWARD"},
		{"an integer widened", object(idOnly+`,"n":{"type":"integer"}`, `"id"`, ""), object(idOnly+`,"n":{"type":"number"}`, `"id"`, ""), "", "#/properties/n/type: FORWARD"},
		{"a value added to a list", object(idOnly+`,"s":{"enum":["A"]}`, `"id"`, ""), object(idOnly+`,"s":{"enum":["A","B"]}`, `"id"`, ""), "", "#/properties/s/enum: FORWARD"},
		{"a value removed from a list", object(idOnly+`,"s":{"enum":["A","B"]}`, `"id"`, ""), object(idOnly+`,"s":{"enum":["A"]}`, `"id"`, ""), "#/properties/s/enum: BACKWARD", ""},
		{"a bound tightened", object(idOnly+`,"n":{"type":"integer","maximum":10}`, `"id"`, ""), object(idOnly+`,"n":{"type":"integer","maximum":9}`, `"id"`, ""), "#/properties/n/maximum: BACKWARD", ""},
		{"a bound given", object(idOnly+`,"n":{"type":"integer"}`, `"id"`, ""), object(idOnly+`,"n":{"type":"integer","minimum":1}`, `"id"`, ""), "#/properties/n/minimum: BACKWARD", ""},
		{"a pattern changed", object(idOnly+`,"n":{"pattern":"a"}`, `"id"`, ""), object(idOnly+`,"n":{"pattern":"b"}`, `"id"`, ""), "#/properties/n/pattern: BACKWARD", "#/properties/n/pattern: FORWARD"},
		{"items", object(idOnly+`,"l":{"items":{"type":"string"}}`, `"id"`, ""), object(idOnly+`,"l":{"items":{"type":"integer"}}`, `"id"`, ""), "#/properties/l/items/type: BACKWARD", "#/properties/l/items/type: FORWARD"},
		{
			"behind a reference", object(idOnly+`,"n":{"$ref":"#/$defs/n"}`, `"id"`, `,"$defs":{"n":{"type":"integer"}}`),
			object(idOnly+`,"n":{"$ref":"#/$defs/m"}`, `"id"`, `,"$defs":{"m":{"type":"string"}}`), "#/properties/n/type: BACKWARD", "#/properties/n/type: FORWARD",
		},
		{"other properties got a type", object(idOnly, `"id"`, ""), object(idOnly, `"id"`, `,"additionalProperties":{"type":"string"}`), "#/additionalProperties/type: BACKWARD", ""},
		{"other properties changed their type", object(idOnly, `"id"`, `,"additionalProperties":{"type":"integer"}`), object(idOnly, `"id"`, `,"additionalProperties":{"type":"string"}`), "#/additionalProperties/type: BACKWARD", "#/additionalProperties/type: FORWARD"},
		{"a property of another type than the others had", object(idOnly, `"id"`, `,"additionalProperties":{"type":"string"}`), object(idOnly+`,"n":{"type":"integer"}`, `"id"`, `,"additionalProperties":{"type":"string"}`), "#/properties/n/type: BACKWARD", "#/additionalProperties/type: FORWARD"},
		{"a property among typed others", object(idOnly+`,"n":{"type":"integer"}`, `"id"`, `,"additionalProperties":false`), object(idOnly, `"id"`, `,"additionalProperties":{"type":"string"}`), "#/additionalProperties/type: BACKWARD", "#/additionalProperties: FORWARD"},
		{
			"a bound beside a reference", object(idOnly+`,"n":{"$ref":"#/$defs/n"}`, `"id"`, `,"$defs":{"n":{"type":"string"}}`),
			object(idOnly+`,"n":{"$ref":"#/$defs/n","maxLength":3}`, `"id"`, `,"$defs":{"n":{"type":"string"}}`), "#/properties/n/maxLength: BACKWARD", "",
		},
		{"a bound tightened by one, beyond what a float64 tells apart", object(idOnly+`,"n":{"maximum":9223372036854775807}`, `"id"`, ""), object(idOnly+`,"n":{"maximum":9223372036854775806}`, `"id"`, ""), "#/properties/n/maximum: BACKWARD", ""},
		{"a large number in a list", object(idOnly+`,"n":{"enum":[9007199254740993]}`, `"id"`, ""), object(idOnly+`,"n":{"enum":[9007199254740992]}`, `"id"`, ""), "#/properties/n/enum: BACKWARD", "#/properties/n/enum: FORWARD"},
		{"a number written otherwise", object(idOnly+`,"n":{"multipleOf":1}`, `"id"`, ""), object(idOnly+`,"n":{"multipleOf":1.0}`, `"id"`, ""), "", ""},
		{"a constant that becomes a list", object(idOnly+`,"n":{"const":"A"}`, `"id"`, ""), object(idOnly+`,"n":{"enum":["A","B"]}`, `"id"`, ""), "", "#/properties/n/const: FORWARD"},
		{"what an object holds without saying so", object(idOnly, `"id"`, ""), object(idOnly, `"id"`, `,"unevaluatedProperties":false`), "#/unevaluatedProperties: BACKWARD", ""},
		{"a schema that refers to itself", object(idOnly+`,"next":{"$ref":"#"}`, `"id"`, ""), object(idOnly+`,"next":{"$ref":"#"}`, `"id"`, ""), "", ""},
	} {
		for mode, want := range map[schema.Mode][]string{
			"BACKWARD": {c.backward}, "FORWARD": {c.forward}, "FULL": {c.backward, c.forward}, schema.NoneExperimental: nil,
		} {
			got := check(pair(c.first, c.second), mode, 1, 2)
			n := 0
			for _, w := range want {
				if w == "" {
					continue
				}
				if n++; !strings.Contains(strings.Join(got, "\n"), w) {
					t.Errorf("%s, %s: no %q in %q", c.name, mode, w, got)
				}
			}
			if n == 0 && len(got) > 0 {
				t.Errorf("%s, %s: %q", c.name, mode, got)
			}
		}
	}
}

// A transitive mode holds a version against every older one.
func TestTransitiveModesLookAtEveryOlderVersion(t *testing.T) {
	t.Parallel()
	number, text := object(idOnly+`,"n":{"type":"integer"}`, `"id"`, ""), object(idOnly+`,"n":{"type":"string"}`, `"id"`, "")
	fsys := pair(number, object(idOnly, `"id"`, ""))
	fsys["order.created/v3/schema.json"] = &fstest.MapFile{Data: []byte(text)}
	fsys["order.created/v3/valid.json"] = &fstest.MapFile{Data: []byte(valid)}
	if got := check(fsys, "BACKWARD", 1, 2, 3); len(got) != 0 {
		t.Errorf("against the last alone: %q", got)
	}
	if got := check(fsys, "BACKWARD_TRANSITIVE", 1, 2, 3); len(got) != 1 || !strings.Contains(got[0], "from version 1 to 3") {
		t.Errorf("against all: %q", got)
	}
}

func TestGoldenMessagesAreHeldAgainstTheSchemas(t *testing.T) {
	t.Parallel()
	base := object(idOnly, `"id"`, "")
	for name, c := range map[string]struct {
		change func(fstest.MapFS)
		want   string
	}{
		"valid that is not":     {func(f fstest.MapFS) { f["order.created/v1/valid.json"].Data = []byte(`{"id":1}`) }, "v1/valid.json: breaks its own schema at #/properties/id/type"},
		"invalid that is valid": {func(f fstest.MapFS) { f["order.created/v2/invalid/x.json"] = &fstest.MapFile{Data: []byte(valid)} }, "v2/invalid/x.json: is accepted by the schema"},
		"invalid of the type":   {func(f fstest.MapFS) { f["order.created/invalid/x.json"] = &fstest.MapFile{Data: []byte(valid)} }, "v1/invalid/../x.json: is accepted"},
		"no golden message":     {func(f fstest.MapFS) { delete(f, "order.created/v2/valid.json") }, "v2/valid.json: is missing"},
		"no schema":             {func(f fstest.MapFS) { delete(f, "order.created/v2/schema.json") }, "v2/schema.json: is missing"},
		"a version too many":    {func(f fstest.MapFS) { f["order.created/v3/schema.json"] = &fstest.MapFile{Data: []byte(base)} }, "v3: is not in the catalogue"},
		"a version missing": {func(f fstest.MapFS) {
			delete(f, "order.created/v2/schema.json")
			delete(f, "order.created/v2/valid.json")
		}, "v2: is missing"},
		"schema that is no schema": {func(f fstest.MapFS) { f["order.created/v2/schema.json"].Data = []byte(`{"type":"strin"}`) }, "v2/schema.json: does not compile"},
		"schema from elsewhere": {func(f fstest.MapFS) {
			f["order.created/v2/schema.json"].Data = []byte(`{"$ref":"https://example.com/x.json"}`)
		}, "v2/schema.json: does not compile"},
		"what old producers wrote": {
			func(f fstest.MapFS) {
				f["order.created/v1/valid.long.json"] = &fstest.MapFile{Data: []byte(`{"id":"12345"}`)}
				f["order.created/v2/schema.json"].Data = []byte(object(`"id":{"type":"string","maxLength":3}`, `"id"`, ""))
			}, "v1/valid.long.json: a consumer of version 2 cannot read what version 1 wrote: it breaks #/properties/id/maxLength",
		},
	} {
		fsys := pair(base, base)
		c.change(fsys)
		if got := check(fsys, "BACKWARD_TRANSITIVE", 1, 2); !strings.Contains(strings.Join(got, "\n"), c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if got := check(fstest.MapFS{}, "BACKWARD", 1); len(got) != 1 || !strings.Contains(got[0], "cannot be read") {
		t.Errorf("an absent directory: %q", got)
	}
}
