package platform

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/backend-skeleton/relay/internal/config"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/codec/json"
	"github.com/backend-skeleton/relay/messaging/codec/jsonschema"
	"github.com/backend-skeleton/relay/messaging/codec/raw"
)

// wordsOf are the words of the file that the codecs of the program stand for.
func wordsOf(codecs []messaging.Codec) (words []string) {
	for _, word := range config.Codec("").Values() {
		if slices.ContainsFunc(codecs, func(c messaging.Codec) bool { return c.ContentType() == config.Codec(word).ContentType() }) {
			words = append(words, word)
		}
	}
	return words
}

// codecsOf are the codecs of a platform, JSON first. JSON is held against the schemas that the catalogue names.
func codecsOf(c *config.Config, o Options) ([]messaging.Codec, error) {
	standard, err := json.New(json.Config{})
	if err != nil {
		return nil, err
	}
	bytes, err := raw.New("")
	if err != nil {
		return nil, err
	}
	out := []messaging.Codec{standard, bytes}
	for _, codec := range o.Codecs {
		i := slices.IndexFunc(out, func(have messaging.Codec) bool { return have.ContentType() == codec.ContentType() })
		if i < 0 {
			out = append(out, codec)
			continue
		}
		out[i] = codec
	}
	if out[0], err = validating(c, o, out[0]); err != nil {
		return nil, err
	}
	return out, nil
}

// validating wraps the JSON codec where a type of the catalogue has schemas.
func validating(c *config.Config, o Options, inner messaging.Codec) (messaging.Codec, error) {
	types := map[messaging.MessageType]string{}
	for _, t := range c.Types() {
		if t.Schema == "" || t.Codec != config.JSON {
			continue
		}
		dir := t.Schema
		if o.Schemas == nil { // a path of the machine, as a path under its root
			dir, _ = filepath.Rel(string(filepath.Separator), mustAbs(c.Path(dir)))
		}
		types[messaging.MessageType(t.Name)] = filepath.ToSlash(dir)
	}
	if len(types) == 0 {
		return inner, nil
	}
	where := o.Schemas
	if where == nil {
		where = os.DirFS(string(filepath.Separator))
	}
	return jsonschema.New(jsonschema.Config{Codec: inner, Schemas: where, Types: types})
}

// mustAbs makes a path absolute; where the process has no working directory it stays as it is, and is not found.
func mustAbs(name string) string {
	if abs, err := filepath.Abs(name); err == nil {
		return abs
	}
	return name
}
