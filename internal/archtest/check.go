package archtest

import (
	"fmt"
	"slices"
	"strings"
)

// pkg is what `go list -json -deps` says about one package, as far as the rules need it.
type pkg struct {
	ImportPath   string
	Standard     bool
	Imports      []string
	Deps         []string
	TestImports  []string
	XTestImports []string
	Module       *struct{ Path string }
}

// check compares the packages of module with the table and returns one sentence for each import that breaks a rule.
func check(module string, pkgs []pkg, rooms []room) []string {
	c := checker{module: module, rooms: rooms, standard: map[string]bool{}}
	for _, p := range pkgs {
		c.standard[p.ImportPath] = p.Standard
	}
	for _, p := range pkgs {
		if dir, ok := c.inside(p.ImportPath); ok {
			c.checkPackage(p, dir)
		}
	}
	return c.found
}

type checker struct {
	module   string
	rooms    []room
	standard map[string]bool
	found    []string
}

func (c *checker) report(format string, args ...any) {
	c.found = append(c.found, fmt.Sprintf(format, args...))
}

// inside tells the directory of an import path of this module.
func (c *checker) inside(path string) (dir string, ok bool) {
	if path == c.module {
		return "", true
	}
	return strings.CutPrefix(path, c.module+"/")
}

// roomOf finds the room with the longest directory that holds dir.
func (c *checker) roomOf(dir string) (room, bool) {
	best, found := room{}, false
	for _, r := range c.rooms {
		if below(dir, r.dir) && (!found || len(r.dir) > len(best.dir)) {
			best, found = r, true
		}
	}
	return best, found
}

func (c *checker) checkPackage(p pkg, dir string) {
	own, ok := c.roomOf(dir)
	if !ok {
		c.report("%s belongs to no room: give it a line in internal/archtest/rules.go", dir)
		return
	}
	for _, path := range p.Imports {
		if to, ok := c.inside(path); ok {
			c.checkInside(dir, own, to)
		} else if !c.standard[path] && !c.isStandardName(path) {
			c.checkOutside(dir, own, path)
		}
	}
	for _, path := range slices.Concat(p.TestImports, p.XTestImports) {
		if to, ok := c.inside(path); ok && below(to, "experimental") {
			c.report("tests of %s import %s: nothing stable imports experimental", dir, to)
		}
	}
}

func (c *checker) checkInside(dir string, own room, to string) {
	other, ok := c.roomOf(to)
	switch {
	case !ok:
		c.report("%s imports %s, which belongs to no room", dir, to)
	case other.dir == own.dir:
	case other.testsOnly && !own.testsOnly:
		c.report("%s imports %s: %s is for tests only", dir, to, other.dir)
	case !slices.Contains(own.may, other.dir):
		c.report("%s imports %s: %s may not know %s", dir, to, own.dir, other.dir)
	}
}

func (c *checker) checkOutside(dir string, own room, path string) {
	if own.anyOutside || slices.ContainsFunc(own.outside, func(m string) bool { return below(path, m) }) {
		return
	}
	c.report("%s imports %s: %s may not use that library", dir, path, own.dir)
}

// isStandardName covers imports that go list did not describe (the standard library's names have no dot in the first element).
func (c *checker) isStandardName(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

// checkClosed reports every package from a foreign module in the whole dependency graph of dir.
func checkClosed(module, dir string, allowed []string, pkgs []pkg) []string {
	by := make(map[string]pkg, len(pkgs))
	for _, p := range pkgs {
		by[p.ImportPath] = p
	}
	var found []string
	for _, p := range pkgs {
		if p.ImportPath != module+"/"+dir {
			continue
		}
		for _, dep := range p.Deps {
			d := by[dep]
			if d.Standard || d.Module == nil || d.Module.Path == module || slices.Contains(allowed, d.Module.Path) {
				continue
			}
			found = append(found, fmt.Sprintf("%s links %s (module %s): allowed are %s", dir, dep, d.Module.Path, strings.Join(allowed, ", ")))
		}
	}
	return found
}

// below says whether path is dir or lies in it.
func below(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }
