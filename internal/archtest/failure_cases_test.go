package archtest

import (
	"bufio"
	"bytes"
	"flag"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the names of the tests into docs/failure-cases.md")

const failureCases = "../../docs/failure-cases.md"

var (
	testFunction = regexp.MustCompile(`^func (Test[A-Za-z0-9_]+)\(`)
	caseTest     = regexp.MustCompile(`^Test([BC]\d\d)_`)
	caseNumber   = regexp.MustCompile(`^[BC]\d\d$`)
)

// TestFailureCasesAreListed holds docs/failure-cases.md against the code: every test of a numbered case stands in the
// case's row, and every test in a row exists. With -update it writes the names itself; the rule of a new case is for
// people to write. Tier: make test; no server.
func TestFailureCasesAreListed(t *testing.T) {
	t.Parallel()
	watchSources(t)
	all, byCase := tests(t)
	text, err := os.ReadFile(failureCases)
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	lines := strings.SplitAfter(string(text), "\n")
	for i, line := range lines {
		cells := strings.Split(line, "|")
		if len(cells) != 6 || strings.HasPrefix(line, "|---") {
			continue
		}
		number, names := strings.TrimSpace(cells[1]), namesIn(cells[3])
		for _, name := range names {
			if !all[name] && !*update {
				t.Errorf("%s names %s, which does not exist", number, name)
			}
		}
		if !caseNumber.MatchString(number) {
			continue
		}
		listed[number] = true
		if want := byCase[number]; !slices.Equal(names, want) {
			if !*update {
				t.Errorf("%s names the tests %v, the code has %v: run make generate", number, names, want)
				continue
			}
			cells[3] = " " + cell(want) + " "
			lines[i] = strings.Join(cells, "|")
		}
	}
	for _, number := range slices.Sorted(maps.Keys(byCase)) {
		if !listed[number] {
			t.Errorf("%s has tests but no row in docs/failure-cases.md: write what must hold", number)
		}
	}
	if changed := strings.Join(lines, ""); changed != string(text) {
		if err := os.WriteFile(failureCases, []byte(changed), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func cell(names []string) string {
	if len(names) == 0 {
		return "–"
	}
	return "`" + strings.Join(names, "`, `") + "`"
}

func namesIn(cell string) (names []string) {
	for i, part := range strings.Split(cell, "`") {
		if i%2 == 1 {
			names = append(names, part)
		}
	}
	return names
}

// tests finds every test function of the module, and those of each numbered case in order of name.
func tests(t *testing.T) (all map[string]bool, byCase map[string][]string) {
	t.Helper()
	all, byCase = map[string]bool{}, map[string][]string{}
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && strings.Trim(entry.Name(), ".") != "":
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		scanner := bufio.NewScanner(bytes.NewReader(source))
		for scanner.Scan() {
			if found := testFunction.FindStringSubmatch(scanner.Text()); found != nil {
				all[found[1]] = true
			}
		}
		return scanner.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	for name := range all {
		if found := caseTest.FindStringSubmatch(name); found != nil {
			byCase[found[1]] = append(byCase[found[1]], name)
		}
	}
	for _, names := range byCase {
		slices.Sort(names)
	}
	return all, byCase
}
