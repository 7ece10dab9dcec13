package deploy

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

type composeFile struct {
	Services map[string]composeService `yaml:"services"`
	Volumes  map[string]any            `yaml:"volumes"`
}

type composeService struct {
	Image           string            `yaml:"image"`
	Build           yaml.Node         `yaml:"build"`
	Environment     map[string]string `yaml:"environment"`
	Ports           []string          `yaml:"ports"`
	Volumes         []string          `yaml:"volumes"`
	DependsOn       dependencies      `yaml:"depends_on"`
	ReadOnly        bool              `yaml:"read_only"`
	CapDrop         []string          `yaml:"cap_drop"`
	StopGracePeriod string            `yaml:"stop_grace_period"`
	Command         []string          `yaml:"command"`
	Deploy          struct {
		Replicas int `yaml:"replicas"`
	} `yaml:"deploy"`
}

// dependencies reads both forms of depends_on: a list, or a map with conditions.
type dependencies map[string]string

func (d *dependencies) UnmarshalYAML(n *yaml.Node) error {
	*d = dependencies{}
	if n.Kind == yaml.SequenceNode {
		var names []string
		if err := n.Decode(&names); err != nil {
			return err
		}
		for _, name := range names {
			(*d)[name] = "service_started"
		}
		return nil
	}
	var conditions map[string]struct {
		Condition string `yaml:"condition"`
	}
	if err := n.Decode(&conditions); err != nil {
		return err
	}
	for name, c := range conditions {
		(*d)[name] = c.Condition
	}
	return nil
}

func readCompose(t *testing.T) composeFile {
	t.Helper()
	text, err := os.ReadFile("../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	var c composeFile
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatalf("docker-compose.yml: %v", err)
	}
	return c
}

// TestComposeServices: the servers that the documents promise are there, at versions that are named.
func TestComposeServices(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	for name, image := range map[string]string{
		"postgres": "postgres:17", "kafka": "apache/kafka:4.3", "rabbitmq": "rabbitmq:4.3-management",
		"relay": "relay:", "prometheus": "prom/prometheus:", "grafana": "grafana/grafana:",
	} {
		if s, ok := c.Services[name]; !ok || !strings.HasPrefix(s.Image, image) {
			t.Errorf("service %s has image %q, want %s…", name, s.Image, image)
		}
	}
	for name, s := range c.Services {
		if _, tag, ok := strings.Cut(s.Image, ":"); !ok || tag == "latest" {
			t.Errorf("service %s: image %q names no version", name, s.Image)
		}
	}
}

// TestComposeReferences: every dependency, volume and mounted file exists.
func TestComposeReferences(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	for name, s := range c.Services {
		for _, on := range slices.Sorted(maps.Keys(s.DependsOn)) {
			if _, ok := c.Services[on]; !ok {
				t.Errorf("service %s depends on %s, which does not exist", name, on)
			}
		}
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if strings.HasPrefix(source, ".") {
				if _, err := os.Stat(filepath.Join("..", source)); err != nil {
					t.Errorf("service %s mounts %s: %v", name, source, err)
				}
			} else if _, ok := c.Volumes[source]; !ok {
				t.Errorf("service %s uses the volume %s, which is not declared", name, source)
			}
		}
	}
}

// TestComposeIsCareful: nothing listens beyond the loopback address, and the relay runs with the rights it needs only.
func TestComposeIsCareful(t *testing.T) {
	t.Parallel()
	c := readCompose(t)
	for name, s := range c.Services {
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("service %s publishes %q on every address of the host", name, p)
			}
		}
	}
	relay := c.Services["relay"]
	if relay.Deploy.Replicas < 2 {
		t.Errorf("%d relays, want a fleet of two", relay.Deploy.Replicas)
	}
	if !relay.ReadOnly || !slices.Contains(relay.CapDrop, "ALL") {
		t.Error("the relay's root file system is writable, or it keeps capabilities")
	}
	if relay.StopGracePeriod == "" || relay.StopGracePeriod == "10s" {
		t.Error("the relay is killed before its drain of 30 s can end")
	}
	if got := relay.DependsOn["migrate"]; got != "service_completed_successfully" {
		t.Errorf("the relay starts when migrate is %q, want completed", got)
	}
	for _, name := range []string{"relay", "migrate"} {
		if c.Services[name].Environment["RELAY_DATABASE_URL"] == "" {
			t.Errorf("service %s has no RELAY_DATABASE_URL", name)
		}
	}
}

// TestComposeByDocker asks compose itself, where a daemon answers.
func TestComposeByDocker(t *testing.T) {
	t.Parallel()
	if err := exec.CommandContext(t.Context(), "docker", "info").Run(); err != nil {
		t.Skip("not run here: no docker daemon answers; missing proof: docker compose reads docker-compose.yml")
	}
	cmd := exec.CommandContext(t.Context(), "docker", "compose", "config", "--quiet")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatal(fmt.Errorf("docker compose config: %w\n%s", err, out))
	}
}
