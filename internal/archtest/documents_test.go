package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// documents lists the Markdown files of the project.
func documents(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && strings.Trim(d.Name(), "./") != "" {
			return filepath.SkipDir
		}
		// the introduction of a generated page is a part of that page: its links start elsewhere
		if strings.HasSuffix(path, ".md") && !strings.Contains(path, "/reference/") {
			files = append(files, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestLinksLeadSomewhere: a relative link of a document names a file that exists.
func TestLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	for _, doc := range documents(t) {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(doc), target)); err != nil {
				t.Errorf("%s links to %s, which does not exist", doc, target)
			}
		}
	}
}

// TestDecisionsAreIndexed: every record stands in the index once, and numbers are used once.
func TestDecisionsAreIndexed(t *testing.T) {
	t.Parallel()
	const dir = "../../docs/decisions"
	index, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	records, err := filepath.Glob(filepath.Join(dir, "[0-9]*.md"))
	if err != nil {
		t.Fatal(err)
	}
	numbers := map[string]string{}
	for _, r := range records {
		name := filepath.Base(r)
		number, _, _ := strings.Cut(name, "-")
		if other, taken := numbers[number]; taken {
			t.Errorf("%s and %s have one number", other, name)
		}
		numbers[number] = name
		if n := strings.Count(string(index), "]("+name+")"); n != 1 {
			t.Errorf("%s stands in the index %d times", name, n)
		}
		text, err := os.ReadFile(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"# " + number + ": ", "**Context.**", "**Choice.**", "**Consequence.**"} {
			if !strings.Contains(string(text), part) {
				t.Errorf("%s has no %q", name, part)
			}
		}
	}
	if len(numbers) == 0 {
		t.Error("no record")
	}
}
