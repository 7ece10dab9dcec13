package reference

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/backend-skeleton/relay/internal/config"
)

func comments(t *testing.T) Comments {
	t.Helper()
	c, err := ReadComments("..")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCommittedFilesAreFresh(t *testing.T) {
	t.Parallel()
	c := comments(t)
	schema, err := Schema(c)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{"../relay.schema.json": schema, "../../../docs/configuration.md": Markdown(c)} {
		have, err := os.ReadFile(name)
		if err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s is stale (%v): run go generate ./internal/config", name, err)
		}
	}
}

func TestEveryKeyIsDocumented(t *testing.T) {
	t.Parallel()
	c, count := comments(t), 0
	var walk func(path string, typ reflect.Type)
	walk = func(path string, typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Map {
			typ = typ.Elem()
		}
		for _, k := range config.Keys(typ) {
			count++
			if c[k.Owner+"."+k.Field] == "" {
				t.Errorf("%s.%s has no comment", path, k.Name)
			}
			walk(path+"."+k.Name, k.Type)
		}
	}
	walk("", reflect.TypeFor[config.Config]())
	if count < 150 {
		t.Errorf("only %d keys", count)
	}
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.FileSchema))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("relay.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := compiler.Compile("relay.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func decoded(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// Every file that the project shows is accepted by the schema and by the reader itself, without a warning.
func TestSampleFilesAreAccepted(t *testing.T) {
	t.Parallel()
	schema := compiled(t)
	files, err := filepath.Glob("../../../examples/config/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("samples: %q, %v", files, err)
	}
	more, _ := filepath.Glob("../../../deploy/compose/relay.yaml")
	for _, name := range append(files, more...) {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(decoded(t, string(text))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		c, warnings, err := config.Load(config.Options{File: name, Env: []string{}})
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v, warnings %q", name, err, warnings)
			continue
		}
		if len(c.Served()) == 0 {
			t.Errorf("%s serves nothing", name)
		}
	}
}

// What the reader refuses in a single value, the schema refuses too.
func TestSchemaRefuses(t *testing.T) {
	t.Parallel()
	schema := compiled(t)
	const base = "messaging: {environment: local}\n"
	if err := schema.Validate(decoded(t, base+"relay: {lease: 1d12h}\ninbox:\n")); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"relay: {lease: 30s}", "messaging: {environment: prod}", base + "relay: {leese: 3s}", base + "relay: {lease: 30}", base + "relay: {lease: 0s}",
		base + "relay: {lease: 0.0h0m}", base + "relay: {lease: -1s}", base + "relay: {lease: 300y}", base + "relay: {attempts: 0}", base + "relay: {attempts: 2147483648}",
		base + "relay: {batch: 1.5}", base + "relay: {backoff: {multiplier: 0.5}}", base + "relay: {wake-up: true}", base + "relay: {serve: a}",
		base + "security: {credentials: {k: {mechanism: PLAIN, password: hunter2}}}", base + "security: {credentials: {k: {}}}",
		"messaging: {environment: local, limits: {logical-payload: {value: 8388609}}}", "messaging: {environment: local, limits: {handlers: {value: 0}}}",
		"messaging: {environment: local, destinations: {d: {broker: b, kind: WORK_QUEUE, payload: {max-bytes: 8388609}}}}",
		"messaging: {environment: local, consumers: {c: {destination: d, prefetch: 65536}}}", "messaging: {environment: local, consumers: {c: {destination: d, retry: {max-attempts: 1001}}}}",
		"messaging: {environment: local, brokers: {b: {kind: kafka, seeds: []}}}", base + "http: {listen: ''}",
	} {
		if err := schema.Validate(decoded(t, text)); err == nil {
			t.Errorf("accepted: %s", strings.TrimSpace(text))
		}
	}
}

// Every part of a file that a document shows is one that the schema accepts.
func TestWhatTheDocumentsShowIsAccepted(t *testing.T) {
	t.Parallel()
	schema, shown := compiled(t), 0
	for _, pattern := range []string{"../../../*.md", "../../../docs/*.md", "../../../examples/*/*.md"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range strings.Split(string(text), "```yaml\n")[1:] {
				part, _, _ = strings.Cut(part, "```")
				file, ok := decoded(t, part).(map[string]any)
				if !ok {
					t.Errorf("%s shows YAML that is no mapping:\n%s", name, part)
					continue
				}
				messaging, _ := file["messaging"].(map[string]any)
				if messaging == nil {
					messaging = map[string]any{}
				}
				if messaging["environment"] == nil { // a part does not say all
					messaging["environment"] = "local"
				}
				file["messaging"] = messaging
				shown++
				if err := schema.Validate(file); err != nil {
					t.Errorf("%s: %v, in\n%s", name, err, part)
				}
			}
		}
	}
	if shown < 4 {
		t.Errorf("only %d parts of files are shown", shown)
	}
}
