package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/outbox"
)

// codes of what doctor found with these arguments, and what it ended with.
func codes(t *testing.T, env []string, args ...string) (found map[string]string, code int) {
	t.Helper()
	r := relay(t, env, append([]string{"doctor", "-o", "json"}, args...)...)
	var findings []outbox.Finding
	if err := json.Unmarshal([]byte(r.Stdout), &findings); err != nil {
		t.Fatalf("%v: %s", err, r.Both())
	}
	found = map[string]string{}
	for _, f := range findings {
		if f.Evidence == "" || f.Fix == "" {
			t.Errorf("%s says too little: %+v", f.Code, f)
		}
		found[f.Code] = f.Evidence
	}
	return found, r.Code
}

func TestDoctorTellsWhatItFound(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	env := []string{"RELAY_DATABASE_URL=" + db.URL()}
	if found, _ := codes(t, env); found[outbox.FindingIndexMissing] != "" || found[outbox.FindingListenUnheard] != "" {
		t.Errorf("found before it was there: %v", found)
	}
	if _, err := db.Exec(t.Context(), `drop index ix_messaging_outbox_deferred`); err != nil {
		t.Fatal(err)
	}
	relay(t, env, "doctor").Want(t, 6, "INDEX_MISSING", "ix_messaging_outbox_deferred is not there", "FIX")
	if found, code := codes(t, env); code != 6 || !strings.Contains(found[outbox.FindingIndexMissing], "ix_messaging_outbox_deferred") {
		t.Errorf("%d %v", code, found)
	}
	relay(t, env, "doctor", "--max-transaction-age", "0s").Want(t, 2, "--max-transaction-age")
	relay(t, nil, "doctor").Want(t, 3, "RELAY_DATABASE_URL is not set")
}

func TestDoctorFindsASchemaOfAnotherVersion(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, dbtest.Empty())
	env := []string{"RELAY_DATABASE_URL=" + db.URL()}
	want := func(code string) {
		t.Helper()
		if found, exit := codes(t, env); exit != 4 || len(found) != 1 || found[code] == "" {
			t.Errorf("exit %d, %v, want 4 and %s", exit, found, code)
		}
	}
	want(outbox.FindingSchemaMissing)
	relay(t, env, "migrate", "up").Want(t, 0)
	if found, _ := codes(t, env); found[outbox.FindingSchemaMissing] != "" {
		t.Errorf("it was mended: %v", found)
	}
	relay(t, env, "migrate", "down").Want(t, 0)
	want(outbox.FindingSchemaOlder)
	relay(t, env, "migrate", "up").Want(t, 0)
	if _, err := db.Exec(t.Context(), `insert into messaging_schema_version (version_id, is_applied) values (9999, true)`); err != nil {
		t.Fatal(err)
	}
	want(outbox.FindingSchemaNewer)
}

// The address leads to a pooler that hands sessions on: doctor does not hear itself, until the file says what stands there.
func TestDoctorFindsAPoolerThatSwallowsNotifications(t *testing.T) {
	t.Parallel()
	p := newPlant(t, dbtest.OwnDatabase())
	bouncer := brokertest.StartPgBouncer(t, p.db.URL(), 2)
	env := append([]string{"RELAY_DATABASE_URL=" + p.db.URLVia(bouncer.Env("PGBOUNCER_ADDR"))}, p.env[1:]...)
	if found, code := codes(t, env); code != 6 || !strings.Contains(found[outbox.FindingListenUnheard], "did not arrive") {
		t.Errorf("exit %d, %v", code, found)
	}
	if found, _ := codes(t, append(env, "RELAY_DATABASE_POOLER=transaction"), "--config", p.file(t)); found[outbox.FindingListenUnheard] != "" {
		t.Errorf("the file says that a pooler stands there: %v", found)
	}
}

func TestDoctorReadsTheFile(t *testing.T) {
	t.Parallel()
	p := newPlant(t)
	if found, _ := codes(t, p.env, "--config", p.file(t)); found[outbox.FindingLeaseTooShort] != "" || found[outbox.FindingConfiguration] != "" {
		t.Errorf("a good file: %v", found)
	}
	found, code := codes(t, p.env, "--config", p.file(t, "LEASE=1s"))
	if code != 6 || !strings.Contains(found[outbox.FindingLeaseTooShort], "2s must be shorter than relay.lease (1s)") {
		t.Errorf("exit %d, %v", code, found)
	}
	if found, code = codes(t, p.env, "--config", p.file(t, "POLL=1")); code != 6 || found[outbox.FindingConfiguration] == "" {
		t.Errorf("exit %d, %v", code, found)
	}
}
