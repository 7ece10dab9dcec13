package migrations_test

import (
	"os"
	osexec "os/exec"
	"regexp"
	"strconv"
	"testing"
)

// TestDumpAndRestore takes the schema with its rows through pg_dump and psql. It needs a pg_dump that is at least as new
// as the server; TestWithoutSearchPath holds the half of it that a restore depends on everywhere.
func TestDumpAndRestore(t *testing.T) {
	t.Parallel()
	for _, major := range majors {
		t.Run("postgres "+major, func(t *testing.T) {
			t.Parallel()
			db := emptySchema(t, major)
			needsDump(t, major)
			migrate(t, db)
			exec(t, db, `select messaging_outbox_register('{orders}')`)
			exec(t, db, minimal.with("ordering_key", `'k'`).with("headers", `'{"X-A": "b"}'`).insert())
			exec(t, db, minimal.with("available_at", `now() + interval '1 hour'`).insert())
			const content = `select string_agg(o::text, ' ' order by seq) from messaging_outbox as o`
			before := queryOne[string](t, db, content)
			schema := queryOne[string](t, db, `select current_schema()`)

			url, file := os.Getenv("PG_URL_"+major), t.TempDir()+"/dump.sql"
			command(t, "pg_dump", "--schema", schema, "--file", file, url)
			exec(t, db, `drop schema `+schema+` cascade`)
			command(t, "psql", "--quiet", "--set", "ON_ERROR_STOP=1", "--file", file, url)
			if after := queryOne[string](t, db, content); after != before {
				t.Errorf("restored rows differ:\n%s\n%s", before, after)
			}
			wantRefused(t, db, minimal.with("headers", `'{"cookie": "x"}'`), "header_name_forbidden")
		})
	}
}

func command(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := osexec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
}

// needsDump skips unless pg_dump can read a server of that version.
func needsDump(t *testing.T, major string) {
	t.Helper()
	out, err := osexec.CommandContext(t.Context(), "pg_dump", "--version").Output()
	if err != nil {
		t.Skip("not proved: pg_dump is not installed")
	}
	version := regexp.MustCompile(`\d+`).FindString(string(out))
	have, _ := strconv.Atoi(version)
	if want, _ := strconv.Atoi(major); have < want {
		t.Skipf("not proved: pg_dump %s cannot read PostgreSQL %s", version, major)
	}
}
