package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// marker stands for every secret of these tests; no output may hold it.
const marker = "S3cr3t"

func TestSecretResolves(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(text string) {
		if err := os.WriteFile(filepath.Join(dir, "password"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := Secret{ref: "file:password", dir: dir}
	for _, turn := range []struct{ text, want string }{{marker + "1\n", marker + "1"}, {marker + "2\r\n", marker + "2"}, {" " + marker + " ", " " + marker + " "}} {
		write(turn.text) // rotated: the next Resolve sees it
		if got, err := s.Resolve(); err != nil || got != turn.want {
			t.Errorf("%q resolves to something else: %v", turn.text, err)
		}
	}
	env := Secret{ref: "env:P", lookup: lookupIn([]string{"P=old", "P=" + marker, "EMPTY="})}
	if got, err := env.Resolve(); err != nil || got != marker {
		t.Errorf("env: %v", err)
	}
	write("\n")
	for _, broken := range []Secret{
		s, {ref: "file:absent", dir: dir}, {ref: "file:.", dir: dir}, {ref: "env:ABSENT", lookup: env.lookup}, {ref: "env:EMPTY", lookup: env.lookup}, {},
	} {
		if got, err := broken.Resolve(); err == nil || got != "" {
			t.Errorf("%s resolves to %q", broken, got)
		} else if !strings.HasPrefix(err.Error(), broken.ref) {
			t.Errorf("the error does not name %s: %v", broken.ref, err)
		}
	}
	write(strings.Repeat("x", maxSecret+1))
	if _, err := s.Resolve(); err == nil {
		t.Error("a huge file is a secret")
	}
}

func TestSecretRefusesValues(t *testing.T) {
	t.Parallel()
	for _, text := range []string{marker, "env:", "file:", "env:A=" + marker, "env:A B", "vault:x", "plain:" + marker, ":x"} {
		if _, err := NewSecret(text); err == nil {
			t.Errorf("%q is accepted", text)
		} else if strings.Contains(err.Error(), marker) {
			t.Errorf("%q: the error shows the value: %v", text, err)
		}
	}
}

// Failure case B76: however a configuration is printed, no secret is in it.
func TestB76_NoPrintedConfigurationHoldsASecret(t *testing.T) {
	t.Parallel()
	c, _, findings := load(t, edited(t, production, "security/credentials/rabbit-reader/password = env:READER"),
		"RELAY_DATABASE_URL=postgres://relay:"+marker+"@db/orders", "READER="+marker, "KAFKA_PASSWORD="+marker)
	if findings != nil {
		t.Fatal(findings)
	}
	if _, err := c.Security.Credentials["rabbit-reader"].Password.Resolve(); err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	slog.New(slog.NewJSONHandler(&log, nil)).Info("start", "url", c.Database.URL, "credentials", c.Security.Credentials, "config", c)
	for _, text := range []string{
		fmt.Sprint(c), fmt.Sprintf("%v", *c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), fmt.Sprintf("%#v", c.Database), fmt.Sprintf("%s %q", c.Database.URL, c.Database.URL), string(asJSON), log.String(),
	} {
		if strings.Contains(text, marker) {
			t.Errorf("a secret is in %s", text)
		}
	}
	if !strings.Contains(string(asJSON), "env:RELAY_DATABASE_URL") {
		t.Error("the reference is not shown")
	}
}

// Failure case B76: a secret in a wrong place of the file is not repeated by the finding about it.
func TestB76_NoFindingRepeatsASecret(t *testing.T) {
	t.Parallel()
	for _, edit := range []string{
		"database/url = postgres://relay:" + marker + "@db:port/orders", "database/url = relay:" + marker + "@db/orders",
		`database/url = "postgres://relay:` + marker + `%zz@db/orders"`, "database/url = {password: " + marker + "}",
		`database/url = "host=db password = '` + marker + `'"`, `database/url = "host=db sslpassword=` + marker + `"`,
		`messaging/brokers/rabbit/seeds = ["amqp://u:` + marker + `@h:1"]`, `messaging/brokers/rabbit/seeds = ["u:` + marker + `@h:1"]`,
		`messaging/brokers/rabbit/kind = amqp://u:` + marker + `@h`, `messaging/brokers/rabbit/management = {url: "http://u:` + marker + `@h:1"}`,
		`messaging/brokers/rabbit/management = {url: "u:` + marker + `@h:1"}`, `relay/lease = pass:` + marker,
		"security/credentials = {k: {mechanism: PLAIN, username: u, password: " + marker + "}}",
		"security/credentials = {k: {mechanism: PLAIN, username: u, password: [" + marker + "]}}",
		`messaging/destinations/order-events/broker = "amqp://u:` + marker + `@h"`, `http/listen = "u:` + marker + `@h"`,
		`relay/serve = ["postgres://u:` + marker + `@db/x"]`, `messaging/consumers/order-projection/destination = "u:` + marker + `@h"`,
	} {
		_, warnings, findings := load(t, edited(t, local, edit))
		if len(findings) == 0 {
			t.Errorf("%s is accepted", edit)
		}
		if text := fmt.Sprint(findings, warnings); strings.Contains(text, marker) {
			t.Errorf("%s: %s", edit, text)
		}
	}
	_, warnings, _ := load(t, local, "RELAY_PASSWORD="+marker, "RELAY_DATABASE_URL=nonsense:"+marker, "RELAY_DATABASE_POOL_MAX=x:"+marker)
	if text := fmt.Sprint(warnings); strings.Contains(text, marker) {
		t.Errorf("warnings: %s", text)
	}
}
