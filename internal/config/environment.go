package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// VariableFile names the file where no --config is given.
const VariableFile = "RELAY_CONFIG"

// VariableDatabase is the variable that overrides database.url, and all that `relay migrate` and inboxctl need.
const VariableDatabase = "RELAY_DATABASE_URL"

const variablePrefix = "RELAY_"

// setting is one value of the static tree: everything that is no entry of a map.
type setting struct {
	path  string
	index []int
	tag   reflect.StructTag
}

// settings lists the values that a variable may override, by the variable's name.
func settings() map[string]setting {
	out := map[string]setting{}
	collect(reflect.TypeFor[Config](), "", nil, out)
	return out
}

func collect(t reflect.Type, path string, index []int, out map[string]setting) {
	for _, f := range fieldsOf(t) {
		child, at := join(path, f.Tag.Get("yaml")), slices.Concat(index, f.Index)
		elem := reflect.New(f.Type).Elem()
		for elem.Kind() == reflect.Pointer {
			elem = reflect.New(elem.Type().Elem()).Elem()
		}
		switch {
		case isScalar(elem) || elem.Kind() == reflect.Slice:
			out[variableOf(child)] = setting{path: child, index: at, tag: f.Tag}
		case elem.Kind() == reflect.Struct:
			collect(elem.Type(), child, at, out)
		}
	}
}

// variableOf is the variable of a path: RELAY_, capitals, dots and dashes as underscores.
func variableOf(path string) string {
	return variablePrefix + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(path))
}

// override applies the RELAY_ variables over what the file said. A variable that is set to nothing counts as not set;
// one that matches no setting is a warning, since Kubernetes injects such names for a Service called relay.
func (d *decoder) override(c *Config, env []string) (warnings []string) {
	known := settings()
	for _, entry := range env {
		name, text, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, variablePrefix) || name == VariableFile || text == "" {
			continue
		}
		s, ok := known[name]
		if !ok {
			warnings = append(warnings, fmt.Sprintf("environment variable %s matches no setting and is ignored", name))
			continue
		}
		d.env[s.path], d.present[s.path] = name, true
		d.forget(s.path)
		if err := d.overrideOne(reflect.ValueOf(c).Elem(), s, name, text); err != nil {
			d.find(s.path, 0, "%s", err)
		}
	}
	return warnings
}

// forget drops what the file's own value was blamed for, since that value is not used.
func (d *decoder) forget(path string) {
	kept := d.findings[:0]
	for _, f := range d.findings {
		if f.Path != path || strings.Contains(f.Message, "written twice") {
			kept = append(kept, f)
		}
	}
	d.findings = kept
	delete(d.broken, path)
}

func (d *decoder) overrideOne(root reflect.Value, s setting, name, text string) error {
	v := root.FieldByIndex(s.index)
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if v.Kind() == reflect.Slice {
		items := strings.Split(text, ",")
		for i := range items {
			items[i] = strings.TrimSpace(items[i])
		}
		v.Set(reflect.ValueOf(items))
		return nil
	}
	if u, ok := v.Addr().Interface().(*DatabaseURL); ok {
		parsed, err := NewDatabaseURL(text, name, d.lookup)
		parsed.dir = d.dir
		*u = parsed
		return err
	}
	return d.set(v, text, tagOf(v), s.tag)
}
