package schema

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// difference is a place where the reader accepts less than the writer may write.
type difference struct{ place, rule string }

// narrower finds where the reader's schema refuses what the writer's accepts, as far as rules can tell: required
// properties, types, enums, bounds, closed objects. Combinations (oneOf and the like) must be equal; what else they mean,
// the golden messages tell.
func narrower(reader, writer []byte) []difference {
	r, errR := document(reader)
	w, errW := document(writer)
	if errR != nil || errW != nil {
		return nil // it did not compile, which is a finding of its own
	}
	c := &comparison{readerRoot: r, writerRoot: w}
	c.schema("#", r, w, 0)
	return c.found
}

type comparison struct {
	readerRoot, writerRoot any
	found                  []difference
}

// maxNesting ends the comparison of schemas that refer to themselves.
const maxNesting = 32

func (c *comparison) differs(place, format string, args ...any) {
	c.found = append(c.found, difference{place, fmt.Sprintf(format, args...)})
}

func (c *comparison) schema(at string, reader, writer any, depth int) {
	r, w := resolve(c.readerRoot, reader), resolve(c.writerRoot, writer)
	if depth > maxNesting || r == nil || w == nil {
		if reader == false && writer != false {
			c.differs(at, "nothing is accepted any more")
		}
		return
	}
	c.types(at, r, w)
	c.enums(at, r, w)
	c.bounds(at, r, w)
	c.properties(at, r, w, depth)
	if items, ok := r["items"].([]any); ok { // the older form, one schema for each place
		c.same(at, "items", items, w["items"])
	} else if items, ok := r["items"]; ok {
		c.schema(at+"/items", items, either(w["items"]), depth+1)
	}
	for _, key := range compared {
		c.same(at, key, r[key], w[key])
	}
}

// compared are keywords that have to stay as they are, or go.
var compared = []string{
	"oneOf", "anyOf", "allOf", "not", "if", "then", "else", "patternProperties", "prefixItems", "additionalItems", "pattern", "const",
	"format", "multipleOf", "contains", "minContains", "maxContains", "uniqueItems", "propertyNames", "dependentRequired", "dependentSchemas",
	"dependencies", "unevaluatedProperties", "unevaluatedItems", "$dynamicRef",
}

func (c *comparison) same(at, key string, has, had any) {
	if has != nil && !equal(has, had) {
		c.differs(at+"/"+key, "it is new or changed, and may refuse what was accepted")
	}
}

// either is a schema that accepts everything where there is none.
func either(v any) any {
	if v == nil {
		return map[string]any{}
	}
	return v
}

// resolve follows references within the document; nil for a schema that is no object. What stands beside a reference
// holds too.
func resolve(root, v any) map[string]any {
	var beside map[string]any
	for range maxNesting {
		m, ok := v.(map[string]any)
		if !ok {
			if v == true {
				return with(map[string]any{}, beside)
			}
			return nil
		}
		ref, ok := m["$ref"].(string)
		if !ok || !strings.HasPrefix(ref, "#") {
			return with(m, beside)
		}
		beside = with(m, beside)
		v = root
		for _, part := range strings.Split(strings.TrimPrefix(ref, "#"), "/") {
			if part == "" {
				continue
			}
			next, ok := v.(map[string]any)
			if !ok {
				return nil
			}
			v = next[strings.NewReplacer("~1", "/", "~0", "~").Replace(part)]
		}
	}
	return nil
}

// with is a schema with the keywords that stand beside the reference to it.
func with(m, beside map[string]any) map[string]any {
	if len(beside) == 0 {
		return m
	}
	out := maps.Clone(m)
	for key, value := range beside {
		if key != "$ref" {
			out[key] = value
		}
	}
	return out
}

func (c *comparison) types(at string, r, w map[string]any) {
	accepts := texts(r["type"])
	if accepts == nil {
		return
	}
	writes := texts(w["type"])
	if writes == nil {
		c.differs(at+"/type", "it was open and is %s now", strings.Join(accepts, " or "))
		return
	}
	for _, t := range writes {
		if !slices.Contains(accepts, t) && (t != "integer" || !slices.Contains(accepts, "number")) {
			c.differs(at+"/type", "%s is not accepted", t)
		}
	}
}

func texts(v any) []string {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, item := range v {
			if text, ok := item.(string); ok {
				out = append(out, text)
			}
		}
		return out
	}
	return nil
}

func (c *comparison) enums(at string, r, w map[string]any) {
	accepts, ok := r["enum"].([]any)
	if !ok {
		return
	}
	writes, ok := w["enum"].([]any)
	if one, fixed := w["const"]; fixed {
		writes, ok = []any{one}, true
	}
	if !ok {
		c.differs(at+"/enum", "it was open and is a list now")
		return
	}
	for _, value := range writes {
		if !slices.ContainsFunc(accepts, func(a any) bool { return equal(a, value) }) {
			c.differs(at+"/enum", "a value is not accepted; keep a list open for values to come, or add the value to consumers first")
			return
		}
	}
}

// bounds are tightened where the reader's is closer.
func (c *comparison) bounds(at string, r, w map[string]any) {
	for _, key := range []string{"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"} {
		if has, ok := number(r[key]); ok {
			if had, ok := number(w[key]); !ok || had.Cmp(has) > 0 {
				c.differs(at+"/"+key, "it is less than it was")
			}
		}
	}
	for _, key := range []string{"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"} {
		if has, ok := number(r[key]); ok {
			if had, ok := number(w[key]); (!ok || had.Cmp(has) < 0) && (ok || has.Sign() > 0 || key == "minimum" || key == "exclusiveMinimum") {
				c.differs(at+"/"+key, "it is more than it was")
			}
		}
	}
}

func (c *comparison) properties(at string, r, w map[string]any, depth int) {
	mine, _ := r["properties"].(map[string]any)
	theirs, _ := w["properties"].(map[string]any)
	always := texts(w["required"])
	for _, name := range texts(r["required"]) {
		if !slices.Contains(always, name) {
			c.differs(at+"/required", "%s is required, and was not always written; make it optional", name)
		}
	}
	others, _ := r["additionalProperties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		if own, ok := mine[name]; ok {
			c.schema(at+"/properties/"+name, own, theirs[name], depth+1)
		} else if r["additionalProperties"] == false {
			c.differs(at+"/additionalProperties", "%s may be written, and the object is closed without it", name)
		} else if others != nil {
			c.schema(at+"/additionalProperties", others, theirs[name], depth+1)
		}
	}
	if written, typed := w["additionalProperties"].(map[string]any); typed {
		for _, name := range slices.Sorted(maps.Keys(mine)) {
			if _, had := theirs[name]; !had {
				c.schema(at+"/properties/"+name, mine[name], written, depth+1)
			}
		}
	}
	switch open := w["additionalProperties"] != false; {
	case open && r["additionalProperties"] == false:
		c.differs(at+"/additionalProperties", "the object was open and is closed now")
	case open && others != nil:
		c.schema(at+"/additionalProperties", others, either(w["additionalProperties"]), depth+1)
	}
}
