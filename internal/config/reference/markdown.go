package reference

import (
	_ "embed"
	"fmt"
	"reflect"
	"strings"

	"github.com/backend-skeleton/relay/internal/config"
)

// intro is what no single key says; the tables follow it.
//
//go:embed intro.md
var intro string

// Markdown is docs/configuration.md.
func Markdown(c Comments) []byte {
	var b strings.Builder
	b.WriteString(intro)
	for _, k := range config.Keys(reflect.TypeFor[config.Config]()) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| key | value | default | meaning |\n|---|---|---|---|\n", k.Name, c[k.Owner+"."+k.Field])
		rows(&b, c, k.Name, k.Type)
	}
	return []byte(b.String())
}

// rows writes a line for each key below path.
func rows(b *strings.Builder, c Comments, path string, t reflect.Type) {
	for _, k := range config.Keys(t) {
		at, elem := path+"."+k.Name, k.Type
		if elem.Kind() == reflect.Pointer {
			elem = elem.Elem()
		}
		switch {
		case elem.Kind() == reflect.Map:
			row(b, at, "a mapping by name", k, c)
			rows(b, c, at+".NAME", elem.Elem())
		case config.Keys(elem) != nil:
			row(b, at, "a mapping", k, c)
			rows(b, c, at, elem)
		default:
			row(b, at, form(k, elem), k, c)
		}
	}
}

func row(b *strings.Builder, at, form string, k config.Key, c Comments) {
	standard := "–"
	switch {
	case k.Required:
		standard = "required"
	case k.Default != "":
		standard = "`" + k.Default + "`"
	case k.Limit != "":
		standard = "`" + k.Limit + "`"
	}
	if k.Limit != "" {
		form = "value " + strings.Replace(k.Range, "..", " to ", 1)
	}
	fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", at, form, standard, strings.ReplaceAll(c[k.Owner+"."+k.Field], "|", "\\|"))
}

// form says what a value looks like.
func form(k config.Key, t reflect.Type) string {
	span := ""
	if k.Range != "" {
		span = ", " + strings.Replace(k.Range, "..", " to ", 1)
	}
	if words := config.Words(t); words != nil {
		return "`" + strings.Join(words, "` `") + "`"
	}
	switch reflect.New(t).Elem().Interface().(type) {
	case config.Duration:
		return "duration" + span
	case config.Size:
		return "size" + span
	case config.Secret:
		return "secret"
	case config.DatabaseURL:
		return "connection string or secret"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "`true` `false`"
	case reflect.Int:
		return "whole number" + span
	case reflect.Float64:
		return "number" + span
	case reflect.Slice:
		if words := config.Words(t.Elem()); words != nil {
			return "list of `" + strings.Join(words, "` `") + "`"
		}
		return "list" + span
	}
	return "text"
}
