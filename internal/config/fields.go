package config

import (
	"reflect"
	"slices"
	"strings"
)

// structFields are the keys of one struct type.
type structFields []reflect.StructField

// fieldsOf lists the fields of t that have a key in the file, in their order.
func fieldsOf(t reflect.Type) structFields {
	var out structFields
	for f := range t.Fields() {
		if f.IsExported() && f.Tag.Get("yaml") != "" {
			out = append(out, f)
		}
	}
	return out
}

func (fs structFields) byName(name string) (reflect.StructField, bool) {
	for _, f := range fs {
		if f.Tag.Get("yaml") == name {
			return f, true
		}
	}
	return reflect.StructField{}, false
}

func (fs structFields) names() []string {
	out := make([]string, len(fs))
	for i, f := range fs {
		out[i] = f.Tag.Get("yaml")
	}
	return out
}

// applyDefaults sets what the default tags say, in v and the structs inside it. Map entries and optional parts get
// their defaults when they are read.
func applyDefaults(v reflect.Value) {
	if v.Kind() != reflect.Struct || isScalar(v) {
		return
	}
	for _, f := range fieldsOf(v.Type()) {
		field := v.FieldByIndex(f.Index)
		text, has := f.Tag.Lookup("default")
		switch {
		case has && field.Kind() == reflect.Slice:
			field.Set(reflect.ValueOf(strings.Split(text, ",")))
		case has:
			if err := (&decoder{}).set(field, text, tagOf(field), f.Tag); err != nil {
				panic("default tag of " + f.Name + ": " + err.Error())
			}
		default:
			applyDefaults(field)
		}
	}
}

// tagOf is the YAML tag that a text for v has when it does not come from YAML.
func tagOf(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Bool:
		return "!!bool"
	case reflect.Int:
		if !isText(v) {
			return "!!int"
		}
	case reflect.Float64:
		return "!!float"
	}
	return "!!str"
}

func isText(v reflect.Value) bool { return reflect.PointerTo(v.Type()).Implements(textScalarType) }

// suggest names the key that was probably meant.
func suggest(key string, known []string) string {
	best, at := 3, ""
	for _, k := range known {
		if dist := editDistance(key, k); dist < best && dist < len(k) {
			best, at = dist, k
		}
	}
	if at != "" {
		return "; did you mean " + at + "?"
	}
	known = slices.Sorted(slices.Values(known))
	return "; known are " + strings.Join(known, ", ")
}

// editDistance counts the single-letter changes from a to b; long names are not compared.
func editDistance(a, b string) int {
	if len(a) > 60 || len(b) > 60 {
		return 60
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
