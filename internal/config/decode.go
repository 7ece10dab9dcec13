package config

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Bounds of a file, so that a hostile one (aliases of aliases, deep nesting) costs nothing.
const (
	maxFileBytes = 4 << 20
	maxNodes     = 200_000
	maxDepth     = 64
)

// decoder fills structs from YAML nodes and collects findings instead of stopping at the first.
type decoder struct {
	findings []Finding
	lines    map[string]int    // where each path stands
	present  map[string]bool   // paths that were set, by file or environment
	broken   map[string]bool   // paths with a finding of their own
	env      map[string]string // path -> variable that set it
	dir      string
	lookup   func(string) (string, bool)
	nodes    int
	kinds    []string // broker kinds besides the built-in ones
}

func newDecoder(dir string, lookup func(string) (string, bool)) *decoder {
	return &decoder{
		lines: map[string]int{}, present: map[string]bool{}, broken: map[string]bool{}, env: map[string]string{},
		dir: dir, lookup: lookup,
	}
}

func (d *decoder) find(path string, line int, format string, args ...any) {
	d.broken[path] = true
	d.findings = append(d.findings, Finding{Path: path, Line: line, Variable: d.env[path], Message: fmt.Sprintf(format, args...)})
}

var yamlLine = regexp.MustCompile(`^line ([0-9]+): (.*)$`)

// parse reads the one document of a file. The root is nil where the file holds nothing.
func (d *decoder) parse(data string) *yaml.Node {
	dec := yaml.NewDecoder(strings.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if !errors.Is(err, io.EOF) {
			line, text := syntaxError(err)
			d.find("", line, "broken YAML: %s", text)
		}
		return nil
	}
	var second yaml.Node
	switch err := dec.Decode(&second); {
	case err == nil:
		d.find("", second.Line, "a second YAML document; the file holds one")
		return nil
	case !errors.Is(err, io.EOF):
		line, text := syntaxError(err)
		d.find("", line, "broken YAML: %s", text)
		return nil
	}
	return doc.Content[0]
}

// syntaxError gives line and text of a parser's error. A text that quotes the file is replaced: it could be a secret.
func syntaxError(err error) (int, string) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 0
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		_, _ = fmt.Sscan(m[1], &line)
		text = m[2]
	}
	if strings.Contains(text, "unknown anchor") {
		return line, "an alias without anchor"
	}
	if strings.ContainsAny(text, "'\"`") {
		return line, "it cannot be parsed"
	}
	return line, text
}

// value fills v from n. tag is the struct tag of the field that asks: ranges stand there.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag, depth int) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
		depth++
	}
	if d.nodes++; d.nodes > maxNodes || depth > maxDepth {
		if d.nodes == maxNodes+1 || depth > maxDepth {
			d.find(path, n.Line, "the file is nested too deeply or repeats itself too often by aliases")
		}
		return
	}
	if isNull(n) {
		if v.Kind() != reflect.Struct && v.Kind() != reflect.Map || isScalar(v) {
			d.find(path, n.Line, "has no value; leave the key out or write one")
		}
		return
	}
	switch {
	case isScalar(v):
		d.scalar(n, v, path, tag)
	case v.Kind() == reflect.Pointer:
		elem := reflect.New(v.Type().Elem())
		applyDefaults(elem.Elem())
		d.value(n, elem.Elem(), path, tag, depth+1)
		v.Set(elem)
	case v.Kind() == reflect.Struct:
		d.structure(n, v, path, depth)
	case v.Kind() == reflect.Map:
		d.mapping(n, v, path, depth)
	case v.Kind() == reflect.Slice:
		d.list(n, v, path, tag, depth)
	}
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// keys walks the entries of a mapping: form, duplicates.
func (d *decoder) keys(n *yaml.Node, path, what string, each func(key, value *yaml.Node, child string)) {
	if n.Kind != yaml.MappingNode {
		d.find(path, n.Line, "must be %s", what)
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind != yaml.ScalarNode || isNull(key) || key.Value == "" {
			d.find(path, key.Line, "a key must be a plain name")
			continue
		}
		if key.ShortTag() == "!!merge" {
			d.find(path, key.Line, "merge keys (<<) are not supported; write the keys out, or use an alias for a whole value")
			continue
		}
		child := join(path, key.Value)
		if first, twice := seen[key.Value]; twice {
			d.find(child, key.Line, "is written twice, first on line %d", first)
			continue
		}
		seen[key.Value] = key.Line
		if _, again := d.lines[child]; !again {
			d.lines[child] = key.Line
		}
		d.present[child] = true
		each(key, value, child)
	}
}

func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string, depth int) {
	fields := fieldsOf(v.Type())
	d.keys(n, path, "a mapping of settings", func(key, value *yaml.Node, child string) {
		f, ok := fields.byName(key.Value)
		if !ok {
			d.find(child, key.Line, "is not a known key%s", suggest(key.Value, fields.names()))
			return
		}
		d.value(value, v.FieldByIndex(f.Index), child, f.Tag, depth+1)
	})
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string, depth int) {
	if v.IsNil() {
		v.Set(reflect.MakeMap(v.Type()))
	}
	d.keys(n, path, "a mapping of names", func(key, value *yaml.Node, child string) {
		elem := reflect.New(v.Type().Elem()).Elem()
		applyDefaults(elem)
		d.value(value, elem, child, "", depth+1)
		v.SetMapIndex(reflect.ValueOf(key.Value), elem)
	})
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag, depth int) {
	if n.Kind != yaml.SequenceNode {
		d.find(path, n.Line, "must be a list, such as [a, b]")
		return
	}
	out := reflect.MakeSlice(v.Type(), 0, len(n.Content))
	for i, item := range n.Content {
		child := fmt.Sprintf("%s[%d]", path, i)
		d.lines[child] = item.Line
		elem := reflect.New(v.Type().Elem()).Elem()
		d.value(item, elem, child, tag, depth+1)
		out = reflect.Append(out, elem)
	}
	v.Set(out)
}

var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// join appends a key to a path; a key that holds a dot or anything unusual stands in brackets.
func join(path, key string) string {
	if !plainKey.MatchString(key) {
		if len(key) > 255 || strings.Contains(key, "@") || strings.Contains(key, "://") {
			key = "not shown" // an address with a password, put where a name belongs
		}
		if strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			key = fmt.Sprintf("%q", key)
		}
		return path + "[" + key + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}
