package deploy

import (
	"strings"
	"testing"

	"github.com/backend-skeleton/relay/internal/config"
)

// TestComposeRelayFile: the file of the trial installation is accepted, with the one warning that it deserves.
func TestComposeRelayFile(t *testing.T) {
	t.Parallel()
	relay := readCompose(t).Services["relay"]
	env := []string{}
	for name, value := range relay.Environment {
		env = append(env, name+"="+value)
	}
	_, warnings, err := config.Load(config.Options{File: "compose/relay.yaml", Env: env})
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range warnings {
		if !strings.Contains(w, "without TLS") {
			t.Errorf("warning: %s", w)
		}
	}
}
