package migrations_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// majors are the PostgreSQL versions that the schema supports; each is reached by the variable PG_URL_<major>.
var majors = []string{"16", "17", "18"}

// onEachMajor runs f as a parallel subtest per supported server, on a connection pool to an empty schema.
func onEachMajor(t *testing.T, f func(t *testing.T, db *sql.DB)) {
	t.Helper()
	t.Parallel()
	for _, major := range majors {
		t.Run("postgres "+major, func(t *testing.T) {
			t.Parallel()
			f(t, emptySchema(t, major))
		})
	}
}

// emptySchema makes a schema for the test and returns a pool whose search_path is that schema alone.
func emptySchema(t *testing.T, major string) *sql.DB {
	t.Helper()
	db, _ := openSchema(t, major, "t"+strings.ToLower(rand.Text()))
	return db
}

func openSchema(t *testing.T, major, schema string) (*sql.DB, *pgx.ConnConfig) {
	t.Helper()
	url := os.Getenv("PG_URL_" + major)
	if url == "" {
		missing := t.Skipf
		if os.Getenv("REQUIRE_SERVICES") == "1" {
			missing = t.Fatalf
		}
		missing("not proved on PostgreSQL %s: PG_URL_%s is not set", major, major)
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatalf("PG_URL_%s cannot be read", major)
	}
	admin := stdlib.OpenDB(*config)
	t.Cleanup(func() { _ = admin.Close() })
	name := pgx.Identifier{schema}.Sanitize()
	exec(t, admin, `create schema if not exists `+name)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if _, err := admin.ExecContext(ctx, `drop schema `+name+` cascade`); err != nil {
			t.Errorf("drop the schema of the test: %v", err)
		}
	})
	own := config.Copy()
	own.RuntimeParams["search_path"] = schema
	return open(t, own), own
}

func open(t *testing.T, config *pgx.ConnConfig) *sql.DB {
	t.Helper()
	db := stdlib.OpenDB(*config)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func exec(t *testing.T, db *sql.DB, statement string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
		t.Fatalf("%v\nin %s", err, statement)
	}
}

func queryOne[T any](t *testing.T, db *sql.DB, statement string, args ...any) T {
	t.Helper()
	var v T
	if err := db.QueryRowContext(t.Context(), statement, args...).Scan(&v); err != nil {
		t.Fatalf("%v\nin %s", err, statement)
	}
	return v
}
