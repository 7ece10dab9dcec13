package config

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// textScalar is a type of the file that reads itself from the text of a scalar.
type textScalar interface{ parseText(text string) error }

var textScalarType = reflect.TypeFor[textScalar]()

func isScalar(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Float64:
		return true
	}
	return v.Kind() != reflect.Pointer && reflect.PointerTo(v.Type()).Implements(textScalarType)
}

func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string, tag reflect.StructTag) {
	if n.Kind != yaml.ScalarNode {
		d.find(path, n.Line, "must be a single value, %s", form(v, tag))
		return
	}
	if err := d.set(v, n.Value, n.ShortTag(), tag); err != nil {
		d.find(path, n.Line, "%s", err)
	}
}

// set reads text into v. kind is the YAML tag of the text, !!str for a quoted one. The error names the value unless it
// could be a secret, and the rule.
func (d *decoder) set(v reflect.Value, text, kind string, tag reflect.StructTag) error {
	switch p := v.Addr().Interface().(type) {
	case *Secret:
		p.dir, p.lookup = d.dir, d.lookup
		return p.parseText(text)
	case *DatabaseURL:
		p.dir, p.lookup = d.dir, d.lookup
		return p.parseText(text)
	case textScalar:
		if err := p.parseText(text); err != nil {
			return fmt.Errorf("%s %w%s", shown(text), err, rangeHint(tag))
		}
		return inRange(v, text, tag)
	case *BrokerKind:
		if slices.Contains(d.kinds, text) {
			*p = BrokerKind(text)
			return nil
		}
		return setString(v, text, kind)
	case *bool:
		if kind != "!!bool" {
			return fmt.Errorf("%s is not a boolean; write true or false", shown(text))
		}
		*p = strings.EqualFold(text, "true")
		return nil
	case *int:
		return setInt(p, v, text, kind, tag)
	case *float64:
		return setFloat(p, v, text, kind, tag)
	}
	return setString(v, text, kind)
}

func setString(v reflect.Value, text, kind string) error {
	if e, ok := v.Interface().(enum); ok {
		if !slices.Contains(e.Values(), text) {
			return fmt.Errorf("%s is not one of %s", shown(text), strings.Join(e.Values(), ", "))
		}
		v.SetString(text)
		return nil
	}
	switch {
	case text == "":
		return fmt.Errorf("is empty; leave the key out or write a value")
	case kind == "!!bool" || kind == "!!float":
		return fmt.Errorf("must be text; put it in quotes if it is meant so")
	case strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return fmt.Errorf("holds a control character or line break")
	}
	v.SetString(text)
	return nil
}

var decimal = regexp.MustCompile(`^-?[0-9]+$`)

func setInt(p *int, v reflect.Value, text, kind string, tag reflect.StructTag) error {
	if !decimal.MatchString(text) || kind != "!!int" {
		return fmt.Errorf("%s is not a whole number%s", shown(text), rangeHint(tag))
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%s is out of range%s", shown(text), rangeHint(tag))
	}
	*p = n
	return inRange(v, text, tag)
}

func setFloat(p *float64, v reflect.Value, text, kind string, tag reflect.StructTag) error {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) || (kind != "!!int" && kind != "!!float") {
		return fmt.Errorf("%s is not a number%s", shown(text), rangeHint(tag))
	}
	*p = f
	return inRange(v, text, tag)
}

// inRange holds v against the field's range tag, "low..high" in the form of the field's own type.
func inRange(v reflect.Value, text string, tag reflect.StructTag) error {
	low, high, ok := strings.Cut(tag.Get("range"), "..")
	if !ok {
		return nil
	}
	n := number(v)
	if n < bound(v.Type(), low) || n > bound(v.Type(), high) {
		return fmt.Errorf("%s is out of range%s", shown(text), rangeHint(tag))
	}
	return nil
}

func rangeHint(tag reflect.StructTag) string {
	if r := tag.Get("range"); r != "" {
		return " (" + strings.Replace(r, "..", " to ", 1) + ")"
	}
	return ""
}

func number(v reflect.Value) float64 {
	if v.Kind() == reflect.Float64 {
		return v.Float()
	}
	return float64(v.Int())
}

// bound reads one side of a range tag; a tag that cannot be read is a mistake of this package, held by a test.
func bound(t reflect.Type, text string) float64 {
	v := reflect.New(t)
	if p, ok := v.Interface().(textScalar); ok {
		if err := p.parseText(text); err != nil {
			panic("range tag " + text + ": " + err.Error())
		}
		return number(v.Elem())
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic("range tag " + text + ": " + err.Error())
	}
	return f
}

// form says what kind of value a field takes.
func form(v reflect.Value, tag reflect.StructTag) string {
	switch v.Interface().(type) {
	case Duration:
		return "a duration such as 30s" + rangeHint(tag)
	case Size:
		return "a size such as 4MiB" + rangeHint(tag)
	case Secret, DatabaseURL:
		return "env:NAME or file:PATH"
	case bool:
		return "true or false"
	case int, float64:
		return "a number" + rangeHint(tag)
	}
	if e, ok := v.Interface().(enum); ok {
		return "one of " + strings.Join(e.Values(), ", ")
	}
	if v.Kind() == reflect.Slice {
		return "a list"
	}
	return "a text"
}

var harmless = regexp.MustCompile(`^[][A-Za-z0-9._+ %*?-]{0,40}$`)

// shown quotes a value for a message, unless its form or length could hide a secret that was put in a wrong place.
func shown(text string) string {
	if !harmless.MatchString(text) {
		return "the value (not shown)"
	}
	return strconv.Quote(text)
}
