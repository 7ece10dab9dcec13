package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const module = "github.com/backend-skeleton/relay"

// TestArrows runs the table over the whole module. Tier: make test; it needs the go command and no server.
func TestArrows(t *testing.T) {
	t.Parallel()
	pkgs := list(t, "./...")
	for _, v := range check(module, pkgs, rooms) {
		t.Error(v)
	}
}

// TestClosedGraphs holds what users link when they import the public packages.
func TestClosedGraphs(t *testing.T) {
	t.Parallel()
	pkgs := list(t, "./...")
	for _, c := range closed {
		for _, v := range checkClosed(module, c.dir, c.modules, pkgs) {
			t.Error(v)
		}
	}
}

// list asks the go command for the module's packages and everything below them.
func list(t *testing.T, patterns ...string) []pkg {
	t.Helper()
	watchSources(t)
	cmd := exec.CommandContext(t.Context(), "go", append([]string{
		"list", "-deps",
		"-json=ImportPath,Standard,Imports,Deps,TestImports,XTestImports,Module",
	}, patterns...)...)
	cmd.Dir = "../.."
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("go list printed something else than packages: %v", err)
		}
		pkgs = append(pkgs, p)
	}
	if len(pkgs) == 0 {
		t.Fatal("go list found no package")
	}
	return pkgs
}

// watchSources looks at every source file of the module, so that the go command runs this test again when one has changed:
// it remembers what a test read itself, not what a command read that it started.
func watchSources(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && d.Name() != "../.." && strings.HasPrefix(d.Name(), ".") && d.Name() != "..":
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go") || d.Name() == "go.mod":
			_, err = os.Stat(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCheckNamesTheImport shows that each rule bites, on packages made up for it.
func TestCheckNamesTheImport(t *testing.T) {
	t.Parallel()
	imports := func(dir string, to ...string) pkg { return pkg{ImportPath: module + "/" + dir, Imports: to} }
	for name, c := range map[string]struct {
		p    pkg
		want string // part of the only finding; empty = allowed
	}{
		"a step imports a step":            {imports("internal/outbox", module+"/internal/inbox"), "internal/outbox may not know internal/inbox"},
		"a port looks upwards":             {imports("messaging/transport", module+"/internal/relay"), "messaging/transport may not know internal/relay"},
		"the leaf uses an SDK":             {imports("messaging", franz+"/pkg/kgo"), "messaging imports " + franz + "/pkg/kgo"},
		"the leaf uses YAML":               {imports("messaging", "go.yaml.in/yaml/v3"), "may not use that library"},
		"the client uses a broker library": {imports("client", amqp), "client imports " + amqp},
		"a subpackage is of its room":      {imports("internal/outbox/db", franz+"/pkg/kgo"), "internal/outbox may not use that library"},
		"the product imports test code":    {imports("internal/relay", module+"/internal/dbtest"), "is for tests only"},
		"experimental is nobody's":         {imports("cmd/relay", module+"/experimental/nats"), "belongs to no room"},
		"a test reaches experimental":      {pkg{ImportPath: module + "/client", TestImports: []string{module + "/experimental/nats"}}, "nothing stable imports experimental"},
		"an unknown room":                  {imports("internal/util"), "belongs to no room"},
		"an assembly joins steps":          {imports("internal/relay", module+"/internal/outbox", module+"/internal/publish"), ""},
		"the same room":                    {imports("internal/outbox", module+"/internal/outbox/db"), ""},
		"the standard library":             {imports("messaging", "log/slog", uuid), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := check(module, []pkg{c.p}, rooms)
			switch {
			case c.want == "" && len(got) == 0:
			case c.want != "" && len(got) == 1 && strings.Contains(got[0], c.want):
			default:
				t.Errorf("findings %q, want one with %q", got, c.want)
			}
		})
	}
}

// TestCheckClosedSeesIndirectModules: a broker library behind another package is found too.
func TestCheckClosedSeesIndirectModules(t *testing.T) {
	t.Parallel()
	of := func(path string) *struct{ Path string } { return &struct{ Path string }{path} }
	pkgs := []pkg{
		{ImportPath: module + "/client", Deps: []string{"fmt", uuid, module + "/messaging", franz + "/pkg/kgo"}, Module: of(module)},
		{ImportPath: "fmt", Standard: true},
		{ImportPath: uuid, Module: of(uuid)},
		{ImportPath: module + "/messaging", Module: of(module)},
		{ImportPath: franz + "/pkg/kgo", Module: of(franz)},
	}
	got := checkClosed(module, "client", []string{uuid}, pkgs)
	if len(got) != 1 || !strings.Contains(got[0], "kgo") {
		t.Errorf("findings %q, want the one about kgo", got)
	}
}
