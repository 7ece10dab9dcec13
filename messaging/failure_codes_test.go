package messaging_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// The page is what other languages and operators read: it must name every code,
// and no code that does not exist.
func TestFailureCodesAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/failure-codes.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\|").FindAllSubmatch(page, -1) {
		documented = append(documented, string(m[1]))
	}
	declared := declaredCodes(t)
	if len(declared) < 30 {
		t.Fatalf("only %d constants were found", len(declared))
	}
	for _, code := range declared {
		if !regexp.MustCompile(`^[A-Z][A-Z0-9]*(_[A-Z0-9]+)*$`).MatchString(code) || len(code) > 160 {
			t.Errorf("%s is not UPPER_SNAKE of at most 160 characters", code)
		}
	}
	slices.Sort(declared)
	slices.Sort(documented)
	if !slices.Equal(declared, documented) {
		t.Errorf("constants %v\nand page %v differ", declared, documented)
	}
}

func declaredCodes(t *testing.T) (codes []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "failure_codes.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, code)
		}
		return true
	})
	return codes
}
