package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Effective is one setting in force.
type Effective struct {
	// Path is its YAML path.
	Path string `json:"path"`
	// Value is its text; a secret's is its reference.
	Value string `json:"value"`
	// Source is where it comes from: the file's line, a variable, the default, or "derived" for what follows from other
	// settings.
	Source string `json:"source"`
}

// Explain lists every setting that is in force, defaults included, in the order of the documentation.
func (c *Config) Explain() []Effective {
	var out []Effective
	e := explainer{c: c, derived: c.derived(), out: &out}
	e.explain(reflect.ValueOf(c).Elem(), "")
	return out
}

type explainer struct {
	c       *Config
	derived map[string]string
	out     *[]Effective
}

func (e explainer) explain(v reflect.Value, path string) {
	if text, ok := e.derived[path]; ok {
		*e.out = append(*e.out, Effective{Path: path, Value: text, Source: "derived"})
		return
	}
	switch {
	case v.Kind() == reflect.Pointer:
		if !v.IsNil() {
			e.explain(v.Elem(), path)
		}
	case isScalar(v):
		if text := textOf(v); text != "" {
			*e.out = append(*e.out, Effective{Path: path, Value: text, Source: e.c.source(path)})
		}
	case v.Kind() == reflect.Slice:
		if v.Len() > 0 {
			items := make([]string, v.Len())
			for i := range items {
				items[i] = textOf(v.Index(i))
			}
			*e.out = append(*e.out, Effective{Path: path, Value: "[" + strings.Join(items, ", ") + "]", Source: e.c.source(path)})
		}
	case v.Kind() == reflect.Map:
		names := make([]string, 0, v.Len())
		for _, key := range v.MapKeys() {
			names = append(names, key.String())
		}
		slices.Sort(names)
		for _, name := range names {
			e.explain(v.MapIndex(reflect.ValueOf(name)), join(path, name))
		}
	case v.Kind() == reflect.Struct:
		for _, f := range fieldsOf(v.Type()) {
			e.explain(v.FieldByIndex(f.Index), join(path, f.Tag.Get("yaml")))
		}
	}
}

func (c *Config) source(path string) string {
	switch {
	case c.env[path] != "":
		return c.env[path]
	case c.known[path]:
		return fmt.Sprintf("line %d", c.lines[path])
	}
	return "default"
}

// textOf is a value as the file would hold it.
func textOf(v reflect.Value) string { return fmt.Sprint(v.Interface()) }
