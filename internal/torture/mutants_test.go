package torture

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/testenv"
)

var mutantFlag = flag.String("mutant", "", "name of the one mutant to torture; default all")

// overlay applies a patch to copies of the files that it names and gives the file for go build -overlay.
func overlay(t *testing.T, patch string) string {
	t.Helper()
	dir := t.TempDir()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(patch)
	if err != nil {
		t.Fatal(err)
	}
	replace := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^\+\+\+ b/(\S+)`).FindAllStringSubmatch(string(text), -1) {
		source, err := os.ReadFile(filepath.Join(root, m[1]))
		if err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(root, m[1])] = filepath.Join(dir, m[1])
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(m[1])), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, m[1]), source, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	full, err := filepath.Abs(patch)
	if err != nil {
		t.Fatal(err)
	}
	apply := exec.CommandContext(t.Context(), "git", "apply", "--unsafe-paths", full)
	apply.Dir = dir
	apply.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	if out, err := apply.CombinedOutput(); err != nil {
		t.Fatalf("the patch does not fit any more: %v\n%s", err, out)
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// each calls test for every mutant.
func each(t *testing.T, test func(t *testing.T, patch string)) {
	t.Helper()
	patches, err := filepath.Glob("mutants/*.patch")
	if err != nil || len(patches) == 0 {
		t.Fatalf("%d mutants, %v", len(patches), err)
	}
	for _, patch := range patches {
		name := strings.TrimSuffix(filepath.Base(patch), ".patch")
		if *mutantFlag == "" || *mutantFlag == name {
			t.Run(name, func(t *testing.T) { test(t, patch) })
		}
	}
}

// proof is what shows that a mutant is none of ours: a scenario whose history breaks a rule or, for what no schedule can
// time, a test that turns red.
type proof struct {
	rule     Rule
	scenario Options
	dir      string // of the test's package
	test     string
}

// proofOf is what the patch itself says: "Caught as RULE by SCENARIO." or "Caught by TEST of PACKAGE."
func proofOf(t *testing.T, patch string) proof {
	t.Helper()
	text, err := os.ReadFile(patch)
	if err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`(?m)^Caught by (Test\w+) of (\S+)\.$`).FindSubmatch(text); m != nil {
		return proof{test: string(m[1]), dir: filepath.Join("../..", string(m[2]))}
	}
	m := regexp.MustCompile(`(?m)^Caught as (\w+) by (\w+)\.$`).FindSubmatch(text)
	if m == nil {
		t.Fatal("the patch does not say as what it is caught, and by what")
	}
	o, known := scenarios()[string(m[2])]
	if !known {
		t.Fatalf("there is no scenario %s", m[2])
	}
	return proof{rule: Rule(m[1]), scenario: o}
}

// Every mutant can still be made of the sources as they are, and its proof is there.
func TestMutantsFit(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, patch string) {
		overlay(t, patch)
		p := proofOf(t, patch)
		if p.test == "" {
			return
		}
		list := exec.CommandContext(t.Context(), "grep", "-rl", "--include=*_test.go", "func "+p.test+"(", p.dir)
		if out, err := list.CombinedOutput(); err != nil || len(out) == 0 {
			t.Errorf("there is no test %s in %s", p.test, p.dir)
		}
	})
}

// caught runs a mutant under its scenario, until its rule is seen to be broken or the scenario is over.
func caught(t *testing.T, patch string) {
	t.Helper()
	p := proofOf(t, patch)
	if p.test != "" {
		red(t, overlay(t, patch), p)
		return
	}
	o := p.scenario
	o.Seed, o.Program, o.Settle = *seedFlag, build(t, "-overlay", overlay(t, patch)), 5*time.Second
	if p.rule != Lost { // an unfinished history cannot show that
		o.Until = p.rule
	}
	r := Run(t, o)
	if r.Broken()[p.rule] == 0 {
		t.Errorf("nothing %s was noticed:\n%s", p.rule, r)
		return
	}
	t.Logf("caught after %v: %v", r.Length, r.Broken())
}

// red fails if the test is green.
func red(t *testing.T, overlay string, p proof) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-overlay", overlay, "-count=1", "-run", "^"+p.test+"$", ".")
	cmd.Dir = p.dir
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--- FAIL: "+p.test) {
		t.Errorf("%s does not fail: %v\n%s", p.test, err, out)
	}
}

// A relay without one of its safeguards breaks the promise that its patch names, and the checker sees it. The relay as it
// is keeps all of them under the same scenarios.
func TestMutants(t *testing.T) {
	testenv.FullTier(t)
	if *mutantFlag == "" {
		program := build(t)
		for name, o := range scenarios() {
			t.Run("none under "+name, func(t *testing.T) {
				o.Seed, o.Program = *seedFlag, program
				if r := Run(t, o); !r.OK() {
					t.Errorf("the relay itself breaks a promise:\n%s", r)
				}
			})
		}
	}
	each(t, caught)
}

// Two of them, of rules that are broken in different ways, for every change.
func TestSomeMutants(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"window-not-recorded", "retry-does-not-hold"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			caught(t, filepath.Join("mutants", name+".patch"))
		})
	}
}
