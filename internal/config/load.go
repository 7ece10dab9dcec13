package config

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// Options is what Load reads.
type Options struct {
	// File is the path of relay.yaml. Empty: RELAY_CONFIG of Env.
	File string
	// Env is the environment as name=value entries; nil: the process's own.
	Env []string
	// Kinds are broker kinds besides the built-in ones, for which the program has an adapter of its own.
	Kinds []string
	// Codecs are words of codecs besides json and raw that the program has.
	Codecs []string
}

// Load reads the file and the environment, fills in the defaults and checks everything. It answers with the
// configuration, or with an *Error that lists every finding; the warnings hold in both cases. Secrets are not
// resolved.
func Load(o Options) (*Config, []string, error) {
	env := o.Env
	if env == nil {
		env = os.Environ()
	}
	lookup := lookupIn(env)
	if o.File == "" {
		o.File, _ = lookup(VariableFile)
	}
	if o.File == "" {
		return nil, nil, &Error{File: "the configuration", Findings: []Finding{{
			Message: "no file is named; use --config FILE or set " + VariableFile,
		}}}
	}
	data, err := readFile(o.File)
	if err != nil {
		return nil, nil, &Error{File: o.File, Findings: []Finding{{Message: err.Error()}}}
	}
	return parse(o, data, env, lookup)
}

// parse is Load without reading the file.
func parse(o Options, data string, env []string, lookup func(string) (string, bool)) (*Config, []string, error) {
	file := o.File
	d := newDecoder(filepath.Dir(file), lookup)
	d.kinds = o.Kinds
	c := &Config{dir: d.dir, file: file, kinds: o.Kinds, codecs: o.Codecs}
	applyDefaults(reflect.ValueOf(c).Elem())
	root := d.parse(data)
	if len(d.findings) > 0 { // broken YAML: nothing else can be told
		return nil, nil, &Error{File: file, Findings: d.findings}
	}
	if root != nil {
		d.value(root, reflect.ValueOf(c).Elem(), "", "", 0)
	}
	warnings := d.override(c, env)
	d.required(reflect.ValueOf(c).Elem(), "")
	c.lines, c.known, c.env = d.lines, d.present, d.env

	check := &checker{c: c, broken: d.broken, findings: d.findings}
	check.all()
	warnings = append(warnings, check.warnings...)
	if len(check.findings) > 0 {
		sortFindings(check.findings)
		return nil, warnings, &Error{File: file, Findings: check.findings}
	}
	return c, warnings, nil
}

func readFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", withoutPath(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", withoutPath(err))
	}
	if len(data) > maxFileBytes {
		return "", fmt.Errorf("is larger than %s", Size(maxFileBytes))
	}
	return string(data), nil
}

func lookupIn(env []string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for _, entry := range slices.Backward(env) { // the last entry wins, as in a process
			if value, ok := strings.CutPrefix(entry, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}
}

// required reports the keys that must stand there and do not.
func (d *decoder) required(v reflect.Value, path string) {
	if d.broken[path] {
		return
	}
	switch {
	case isScalar(v):
	case v.Kind() == reflect.Pointer && !v.IsNil():
		d.required(v.Elem(), path)
	case v.Kind() == reflect.Map:
		for _, key := range v.MapKeys() {
			d.required(v.MapIndex(key), join(path, key.String()))
		}
	case v.Kind() == reflect.Struct:
		for _, f := range fieldsOf(v.Type()) {
			child := join(path, f.Tag.Get("yaml"))
			if f.Tag.Get("required") == "true" && !d.present[child] {
				d.find(child, nearestLine(d.lines, path), "is missing; it is %s", form(reflect.New(f.Type).Elem(), f.Tag))
				continue
			}
			d.required(v.FieldByIndex(f.Index), child)
		}
	}
}

// nearestLine is the line of a path, or of what is around it.
func nearestLine(lines map[string]int, path string) int {
	for {
		if line, ok := lines[path]; ok {
			return line
		}
		cut := strings.LastIndexAny(path, ".[")
		if cut < 0 {
			return 0
		}
		path = path[:cut]
	}
}
