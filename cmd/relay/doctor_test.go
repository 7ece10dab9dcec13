package main

import (
	"encoding/json"
	"testing"

	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/outbox"
)

func TestDoctorTellsWhatItFound(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	if _, err := db.Exec(t.Context(), `drop index ix_messaging_outbox_deferred`); err != nil {
		t.Fatal(err)
	}
	env := []string{"RELAY_DATABASE_URL=" + db.URL()}
	relay(t, env, "doctor").Want(t, 6, "INDEX_MISSING", "ix_messaging_outbox_deferred is not there", "FIX")
	r := relay(t, env, "doctor", "-o", "json")
	var findings []outbox.Finding
	if err := json.Unmarshal([]byte(r.Stdout), &findings); err != nil {
		t.Fatalf("%v: %s", err, r.Stdout)
	}
	found := false
	for _, f := range findings {
		found = found || f.Code == outbox.FindingIndexMissing && f.Evidence != "" && f.Fix != ""
	}
	if !found {
		t.Errorf("the index is not among %v", findings)
	}
	relay(t, env, "doctor", "--max-transaction-age", "0s").Want(t, 2, "--max-transaction-age")
	relay(t, nil, "doctor").Want(t, 3, "RELAY_DATABASE_URL is not set")
}
