package kafka

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestEvidencePageNamesTests: every row of Kafka's table names a test, every test that
// it names exists, and no evidence test is left out.
func TestEvidencePageNamesTests(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/evidence.md")
	if err != nil {
		t.Fatal(err)
	}
	_, part, found := strings.Cut(string(page), "\n## Kafka\n")
	if !found {
		t.Fatal("the page has no part about Kafka")
	}
	part, _, _ = strings.Cut(part, "\n## ")

	exists := map[string]bool{}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Test") {
				exists[fn.Name.Name] = true
			}
		}
	}
	names := regexp.MustCompile(`\bTest[A-Z]\w+`)
	named := map[string]bool{}
	for _, line := range strings.Split(part, "\n") {
		if strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "|---") && !strings.HasPrefix(line, "| case") && !names.MatchString(line) {
			t.Errorf("no test: %s", line)
		}
		for _, n := range names.FindAllString(line, -1) {
			named[n] = true
			if !exists[n] {
				t.Errorf("%s does not exist", n)
			}
		}
	}
	for n := range exists {
		if strings.HasPrefix(n, "TestEvidence_") && !named[n] {
			t.Errorf("%s is not in the table", n)
		}
	}
}
