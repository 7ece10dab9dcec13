package schema

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/codec/golden"
	"github.com/backend-skeleton/relay/messaging/codec/jsonschema"
)

// Type is one message type of the catalogue.
type Type struct {
	Name messaging.MessageType
	// Dir is its directory within the file system.
	Dir string
	// Versions of the catalogue.
	Versions []messaging.SchemaVersion
	// Mode is its compatibility mode.
	Mode Mode
}

// Finding is one thing that breaks a rule.
type Finding struct {
	Type    messaging.MessageType `json:"type"`
	Version int                   `json:"version,omitempty"`
	// Where is the file or the place in the schema.
	Where string `json:"where,omitempty"`
	Rule  string `json:"rule"`
}

// Check checks one type. The findings are in the order of versions and places.
func Check(fsys fs.FS, t Type) []Finding {
	k := &checker{t: t}
	versions, err := golden.Read(fsys, t.Dir)
	if err != nil {
		k.find(0, t.Dir, "cannot be read: %v", err)
		return k.found
	}
	k.complete(versions)
	compiled := k.compile(versions)
	for i, v := range versions {
		if compiled[i] == nil {
			continue
		}
		k.own(v, compiled[i])
		for j := i - 1; j >= 0; j-- {
			if compiled[j] != nil {
				k.pair(versions[j], v, compiled[j], compiled[i])
			}
			if !t.Mode.transitive() {
				break
			}
		}
	}
	slices.SortStableFunc(k.found, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.Where, b.Where))
	})
	return k.found
}

type checker struct {
	t     Type
	found []Finding
}

func (k *checker) find(v messaging.SchemaVersion, where, format string, args ...any) {
	k.found = append(k.found, Finding{Type: k.t.Name, Version: int(v), Where: where, Rule: fmt.Sprintf(format, args...)})
}

// complete holds the directory against the catalogue: every version of it has a schema and a valid golden message.
func (k *checker) complete(versions []golden.Version) {
	for _, want := range k.t.Versions {
		i := slices.IndexFunc(versions, func(v golden.Version) bool { return v.Number == want })
		switch {
		case i < 0:
			k.find(want, fmt.Sprintf("v%d", want), "is missing: the catalogue has this version")
		case versions[i].SchemaName == "":
			k.find(want, fmt.Sprintf("v%d/schema.json", want), "is missing")
		case len(versions[i].Valid) == 0:
			k.find(want, fmt.Sprintf("v%d/valid.json", want), "is missing: a version has at least one golden message")
		}
	}
	for _, v := range versions {
		if len(k.t.Versions) > 0 && !slices.Contains(k.t.Versions, v.Number) {
			k.find(v.Number, fmt.Sprintf("v%d", v.Number), "is not in the catalogue")
		}
	}
}

func (k *checker) compile(versions []golden.Version) []*jsonschema.Schema {
	out := make([]*jsonschema.Schema, len(versions))
	for i, v := range versions {
		if v.SchemaName == "" {
			continue
		}
		schema, err := jsonschema.Compile(v.Schema)
		if err != nil {
			k.find(v.Number, fmt.Sprintf("v%d/%s", v.Number, v.SchemaName), "does not compile: %v", err)
			continue
		}
		out[i] = schema
	}
	return out
}

// own holds a version's golden messages against its own schema.
func (k *checker) own(v golden.Version, s *jsonschema.Schema) {
	for _, name := range slices.Sorted(maps.Keys(v.Valid)) {
		if rule := s.Broken(v.Valid[name]); rule != "" {
			k.find(v.Number, fmt.Sprintf("v%d/%s", v.Number, name), "breaks its own schema at %s", rule)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.Invalid)) {
		if s.Broken(v.Invalid[name]) == "" {
			k.find(v.Number, fmt.Sprintf("v%d/invalid/%s", v.Number, name), "is accepted by the schema, and must be refused")
		}
	}
}

// pair holds two versions against each other, by the mode.
func (k *checker) pair(old, young golden.Version, oldSchema, youngSchema *jsonschema.Schema) {
	if k.t.Mode.backward() {
		k.reads(young, youngSchema, old, "a consumer of version %d cannot read what version %d wrote: it breaks %s")
		k.structure(young, old, young, "BACKWARD")
	}
	if k.t.Mode.forward() {
		k.reads(old, oldSchema, young, "a consumer of version %d cannot read what version %d wrote: it breaks %s")
		k.structure(old, young, young, "FORWARD")
	}
}

// reads holds the writer's golden messages against the reader's schema.
func (k *checker) reads(reader golden.Version, schema *jsonschema.Schema, writer golden.Version, text string) {
	for _, name := range slices.Sorted(maps.Keys(writer.Valid)) {
		if rule := schema.Broken(writer.Valid[name]); rule != "" {
			k.find(max(reader.Number, writer.Number), fmt.Sprintf("v%d/%s", writer.Number, name), text, reader.Number, writer.Number, rule)
		}
	}
}

// structure compares the schemas themselves.
func (k *checker) structure(reader, writer, blame golden.Version, direction string) {
	for _, d := range narrower(reader.Schema, writer.Schema) {
		k.find(blame.Number, d.place, "%s from version %d to %d: %s", direction, writer.Number, reader.Number, d.rule)
	}
}
