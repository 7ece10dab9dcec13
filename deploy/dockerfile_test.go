package deploy

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/backend-skeleton/relay/internal/testenv"
)

// instructions reads a Dockerfile into its instructions, with continuation lines joined and comments left out.
func instructions(t *testing.T) [][]string {
	t.Helper()
	text, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	var all [][]string
	joined := strings.ReplaceAll(string(text), "\\\n", " ")
	for line := range strings.Lines(joined) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			all = append(all, strings.Fields(line))
		}
	}
	return all
}

// TestDockerfile: two stages; the last one has no shell, no root, and only files of the first.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	var froms []string
	var user, entry, build string
	last := map[string]bool{} // instructions of the stage read at the moment
	for _, in := range instructions(t) {
		rest := strings.Join(in[1:], " ")
		switch in[0] {
		case "FROM":
			froms = append(froms, rest)
			clear(last)
			user, entry = "", ""
		case "USER":
			user = rest
		case "ENTRYPOINT":
			entry = rest
		case "RUN":
			if strings.Contains(rest, "go build") {
				build = rest
			}
		case "COPY":
			if len(froms) == 2 && !strings.HasPrefix(rest, "--from=build ") {
				t.Errorf("the image that runs copies from the context: %s", rest)
			}
		}
		last[in[0]] = true
	}
	if len(froms) != 2 || !strings.HasSuffix(froms[0], " AS build") {
		t.Fatalf("stages %q, want a build stage and one that runs", froms)
	}
	if !strings.Contains(froms[1], "distroless/static") {
		t.Errorf("the image that runs stands on %q, want distroless/static", froms[1])
	}
	if last["RUN"] {
		t.Error("the image that runs has a RUN; it has no shell to run it")
	}
	if uid, _, _ := strings.Cut(user, ":"); !regexp.MustCompile(`^[1-9][0-9]*$`).MatchString(uid) {
		t.Errorf("user %q: want a numeric id that is not root, so that runAsNonRoot can check it", user)
	}
	if !strings.HasPrefix(entry, "[") {
		t.Errorf("entry point %q needs a shell, and signals would not reach the relay", entry)
	}
	for _, want := range []string{"CGO_ENABLED=0", "-trimpath", "./cmd/relay", "./cmd/inboxctl"} {
		if !strings.Contains(build, want) {
			t.Errorf("the build lacks %s: %s", want, build)
		}
	}
}

// TestDockerfileGoVersion: the compiler of the image is the one that go.mod asks for.
func TestDockerfileGoVersion(t *testing.T) {
	t.Parallel()
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	if want == nil {
		t.Fatal("go.mod names no Go version")
	}
	if from := strings.Join(instructions(t)[0], " "); !strings.Contains(from, "golang:"+string(want[1])) {
		t.Errorf("%q, but go.mod asks for Go %s", from, want[1])
	}
}

// TestBinariesNeedNoC: without cgo every package the image needs is complete, so the binaries are static.
func TestBinariesNeedNoC(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if .CgoFiles}}{{.ImportPath}}{{end}}", "./cmd/relay", "./cmd/inboxctl")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	if text := strings.TrimSpace(string(out)); text != "" {
		t.Errorf("packages with C: %s", text)
	}
}

// TestBinariesAreStatic builds what the Dockerfile builds and looks for a dynamic loader. It needs no daemon, but compiles
// everything once more, which is why it waits for the full tier.
func TestBinariesAreStatic(t *testing.T) {
	testenv.FullTier(t)
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w", "-o", dir, "./cmd/relay", "./cmd/inboxctl")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	for _, name := range []string{"relay", "inboxctl"} {
		f, err := elf.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range f.Progs {
			if p.Type == elf.PT_INTERP {
				t.Errorf("%s asks for a dynamic loader; the image has none", name)
			}
		}
		_ = f.Close()
	}
}

// TestImageBuilds builds and starts the image, where a daemon answers.
func TestImageBuilds(t *testing.T) {
	t.Parallel()
	if err := exec.CommandContext(t.Context(), "docker", "info").Run(); err != nil {
		t.Skip("not run here: no docker daemon answers; missing proof: the image builds and relay version runs in it")
	}
	for _, args := range [][]string{{"build", "-t", "relay:test", ".."}, {"run", "--rm", "--read-only", "relay:test", "version"}} {
		if out, err := exec.CommandContext(t.Context(), "docker", args...).CombinedOutput(); err != nil {
			t.Fatalf("docker %s: %v\n%s", args[0], err, out)
		}
	}
}
