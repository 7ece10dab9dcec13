package reference

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/backend-skeleton/relay/internal/config"
)

// node is one JSON Schema; the order of the fields is the order of the text.
type node struct {
	Schema               string   `json:"$schema,omitempty"`
	ID                   string   `json:"$id,omitempty"`
	Title                string   `json:"title,omitempty"`
	Description          string   `json:"description,omitempty"`
	Type                 any      `json:"type,omitempty"`
	Enum                 []string `json:"enum,omitempty"`
	Default              any      `json:"default,omitempty"`
	Pattern              string   `json:"pattern,omitempty"`
	Not                  *node    `json:"not,omitempty"`
	OneOf                []*node  `json:"oneOf,omitempty"`
	Minimum              *float64 `json:"minimum,omitempty"`
	Maximum              *float64 `json:"maximum,omitempty"`
	MinLength            int      `json:"minLength,omitempty"`
	MinItems             int      `json:"minItems,omitempty"`
	Required             []string `json:"required,omitempty"`
	Items                *node    `json:"items,omitempty"`
	PropertyNames        *node    `json:"propertyNames,omitempty"`
	AdditionalProperties any      `json:"additionalProperties,omitempty"`
	Properties           members  `json:"properties,omitempty"`
}

// members keeps the keys in the order of the documentation.
type members []member

type member struct {
	name string
	node *node
}

// MarshalJSON writes the members in their order.
func (ms members) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range ms {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := plainJSON(m.node)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func plainJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// Schema is the JSON Schema of relay.yaml, indented, with a line break at its end.
func Schema(c Comments) ([]byte, error) {
	root := object(reflect.TypeFor[config.Config](), c)
	root.Schema, root.Title = "https://json-schema.org/draft/2020-12/schema", "relay.yaml"
	root.Type, root.Required = "object", []string{"messaging"}
	text, err := plainJSON(root)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

func object(t reflect.Type, c Comments) *node {
	n := &node{Type: []string{"object", "null"}, AdditionalProperties: false}
	for _, k := range config.Keys(t) {
		child := value(k, k.Type, c)
		child.Description = strings.ReplaceAll(c[k.Owner+"."+k.Field], "`", "")
		n.Properties = append(n.Properties, member{k.Name, child})
		if k.Required {
			n.Required = append(n.Required, k.Name)
			n.Type = "object"
		}
	}
	return n
}

// value is the schema of one type; k gives range and default of the key that holds it.
func value(k config.Key, t reflect.Type, c Comments) *node {
	if t.Kind() == reflect.Pointer {
		n := value(k, t.Elem(), c)
		if t.Elem().Kind() == reflect.Struct {
			n.Type = "object" // an optional part is {} or more, never empty
		}
		return n
	}
	if n := scalar(k, t); n != nil {
		return n
	}
	switch t.Kind() {
	case reflect.Slice:
		k.Default = ""
		n := &node{Type: "array", Items: value(k, t.Elem(), c)}
		if k.Required {
			n.MinItems = 1
		}
		return n
	case reflect.Map:
		return &node{Type: []string{"object", "null"}, AdditionalProperties: value(k, t.Elem(), c)}
	}
	if k.Range != "" { // an entry of messaging.limits: the range is its value's
		n := object(t, c)
		n.Properties[0].node = value(config.Key{Range: k.Range}, config.Keys(t)[0].Type, c)
		n.Properties[0].node.Description = c[t.Name()+".Value"]
		return n
	}
	return object(t, c)
}

const durationPattern = `^([0-9]+(\.[0-9]+)?d)?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))*$`

func scalar(k config.Key, t reflect.Type) *node {
	if words := config.Words(t); words != nil {
		return &node{Type: "string", Enum: words, Default: text(k.Default)}
	}
	switch reflect.New(t).Elem().Interface().(type) {
	case config.Duration:
		return &node{Type: "string", Pattern: durationPattern, MinLength: 2, Not: &node{Pattern: `^[0.dhmsuµn]*$`}, Default: text(k.Default)}
	case config.Size:
		bytes := &node{Type: "integer"}
		bytes.Minimum, bytes.Maximum = sizes(k.Range)
		return &node{OneOf: []*node{bytes, {Type: "string", Pattern: `^[0-9]*[1-9][0-9]*(B|KiB|MiB|GiB)?$`}}, Default: text(k.Default)}
	case config.Secret:
		return &node{Type: "string", Pattern: `^(env|file):.+$`}
	case config.DatabaseURL:
		return &node{Type: "string", MinLength: 1}
	}
	n := &node{}
	switch t.Kind() {
	case reflect.Bool:
		n.Type = "boolean"
		if k.Default != "" {
			n.Default = k.Default == "true"
		}
	case reflect.Int, reflect.Float64:
		n.Type = map[reflect.Kind]string{reflect.Int: "integer", reflect.Float64: "number"}[t.Kind()]
		n.Minimum, n.Maximum = numbers(k.Range)
		if k.Default != "" {
			n.Default = json.Number(k.Default)
		}
	case reflect.String:
		n.Type, n.MinLength, n.Default = "string", 1, text(k.Default)
	default:
		return nil
	}
	return n
}

func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func numbers(r string) (low, high *float64) {
	from, to, ok := strings.Cut(r, "..")
	if !ok {
		return nil, nil
	}
	a, errA := strconv.ParseFloat(from, 64)
	b, errB := strconv.ParseFloat(to, 64)
	if errA != nil || errB != nil {
		return nil, nil
	}
	return &a, &b
}

func sizes(r string) (low, high *float64) {
	from, to, _ := strings.Cut(r, "..")
	a, errA := config.ParseSize(from)
	b, errB := config.ParseSize(to)
	if errA != nil || errB != nil {
		one := 1.0
		return &one, nil
	}
	x, y := float64(a), float64(b)
	return &x, &y
}
