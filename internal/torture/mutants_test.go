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

// expected is the rule that the mutant breaks, by the patch's own words.
func expected(t *testing.T, patch string) string {
	t.Helper()
	text, err := os.ReadFile(patch)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^Caught as: (\w+)`).FindSubmatch(text)
	if m == nil {
		t.Fatal("the patch does not say as what it is caught")
	}
	return string(m[1])
}

// Every mutant can still be made of the sources as they are.
func TestMutantsFit(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, patch string) {
		overlay(t, patch)
		expected(t, patch)
	})
}

// hardest is the plan under which every missing safeguard shows.
func hardest() Plan {
	const ms = time.Millisecond
	crash := func(broker Target) Step {
		return Step{Rest: 1500 * ms, Faults: []Fault{{Target: broker, Kind: Silence, For: 900 * ms}, {Target: Relay, Kind: Kill, Number: All, After: 500 * ms, For: 300 * ms}}}
	}
	round := Plan{
		crash(Kafka),
		crash(Rabbit),
		{Rest: 3500 * ms, Faults: []Fault{ // the rows that waited go out, and nobody hears of it
			{Target: Rabbit, Kind: Unbind, For: 1500 * ms},
			{Target: Rabbit, Kind: Silence, After: 2000 * ms, For: 900 * ms},
			{Target: Relay, Kind: Kill, Number: All, After: 2600 * ms, For: 300 * ms},
		}},
		{Rest: 3500 * ms, Faults: []Fault{{Target: Rows, Kind: Lock, For: 5000 * ms}, {Target: Relay, Kind: Pause, Number: 0, After: 100 * ms, For: 5500 * ms}}},
		{Rest: 500 * ms, Faults: []Fault{{Target: Kafka, Kind: Silence, For: 4500 * ms}, {Target: Relay, Kind: Pause, Number: 1, After: 300 * ms, For: 5500 * ms}}},
		{Rest: 500 * ms, Faults: []Fault{{Target: Rabbit, Kind: Deaf, For: 1600 * ms}}},
	}
	return append(append(Plan{}, round...), round...)
}

// A relay without one of its safeguards breaks the promise that its patch names, and the checker sees it. The relay as it is keeps all of them
// under the same plan.
func TestMutants(t *testing.T) {
	testenv.FullTier(t)
	torture := func(t *testing.T, flags ...string) *Report {
		r := Run(t, Options{Seed: 3, Plan: hardest(), Rate: 300, Settle: 25 * time.Second, Program: build(t, flags...)})
		t.Logf("\n%s", r)
		return r
	}
	if *mutantFlag == "" {
		t.Run("none", func(t *testing.T) {
			if r := torture(t); !r.OK() {
				t.Error("the relay itself breaks a promise under this plan")
			}
		})
	}
	each(t, func(t *testing.T, patch string) {
		rule := expected(t, patch)
		if rule == "nothing" {
			t.Skip("no plan shows this one yet")
		}
		r := torture(t, "-overlay", overlay(t, patch))
		t.Logf("caught: %v", r.Broken())
		if r.Broken()[Rule(rule)] == 0 {
			t.Errorf("nothing %s was noticed", rule)
		}
	})
}
