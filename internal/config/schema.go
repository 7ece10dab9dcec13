package config

import (
	_ "embed"
	"reflect"
)

// FileSchema is the JSON Schema (draft 2020-12) of relay.yaml, generated from the types of this package.
//
//go:embed relay.schema.json
var FileSchema []byte

// Key is one key of the file, for the generators of schema and documentation.
type Key struct {
	// Name is the key's own name.
	Name string
	// Type is the type of its value, Field the Go field that holds it, Owner the struct of the field.
	Type         reflect.Type
	Field, Owner string
	// Default and Range are the tags' texts; Range is low..high. Limit is the default of an entry of messaging.limits.
	Default, Range, Limit string
	// Required keys must stand there.
	Required bool
}

// Keys lists the keys of a struct type of the file, in the order of the documentation; nil for any other type.
func Keys(t reflect.Type) []Key {
	if t.Kind() != reflect.Struct || isScalar(reflect.New(t).Elem()) {
		return nil
	}
	var out []Key
	for _, f := range fieldsOf(t) {
		out = append(out, Key{
			Name: f.Tag.Get("yaml"), Type: f.Type, Field: f.Name, Owner: t.Name(),
			Default: f.Tag.Get("default"), Range: f.Tag.Get("range"), Limit: f.Tag.Get("limit"),
			Required: f.Tag.Get("required") == "true",
		})
	}
	return out
}

// Words are the allowed values of a word type, nil for any other type.
func Words(t reflect.Type) []string {
	if e, ok := reflect.New(t).Elem().Interface().(enum); ok {
		return e.Values()
	}
	return nil
}
