package dbtest

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// The four roles of the least-privilege script, deploy/sql/roles.sql.
const (
	Writer   = "relay_writer"
	Worker   = "relay_worker"
	Operator = "relay_operator"
	Reader   = "relay_reader"
)

// Account makes a login that has these roles, as the script grants them, and nothing else; it gives the login's address
// of the schema. The login is gone when the test ends.
func (db *DB) Account(t testing.TB, roles ...string) string {
	t.Helper()
	db.grant.Do(func() { db.Grant(t) })
	name := uniqueName(t)
	execAdmin(t, db.URL(), `create role `+name+` login password '`+name+`' in role `+strings.Join(roles, ", "))
	t.Cleanup(func() { execAdmin(t, db.URL(), `drop role `+name) })
	account := *db.url
	account.User = url.UserPassword(name, name)
	return account.String()
}

// Grant runs the least-privilege script, as [DB.Account] does at its first call: again, where a test has taken rights away.
func (db *DB) Grant(t testing.TB) {
	t.Helper()
	execAdmin(t, db.URL(), rolesScript(t))
}

// As is the pool of a login with these roles, the same one at each call; see [DB.Account].
func (db *DB) As(t testing.TB, roles ...string) *pgxpool.Pool {
	t.Helper()
	db.mu.Lock()
	defer db.mu.Unlock()
	key := strings.Join(roles, " ")
	if pool := db.pools[key]; pool != nil {
		return pool
	}
	config, err := pgxpool.ParseConfig(db.Account(t, roles...))
	if err != nil {
		t.Fatal("the PostgreSQL server's address does not parse")
	}
	config.MaxConns = db.Config().MaxConns
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(t.Context()), config)
	if err != nil {
		t.Fatalf("open the test schema: %v", err)
	}
	t.Cleanup(func() { closePool(t, pool) })
	if db.pools == nil {
		db.pools = map[string]*pgxpool.Pool{}
	}
	db.pools[key] = pool
	return pool
}

// rolesScript is deploy/sql/roles.sql of this checkout. Several tests make the cluster's roles at once.
var rolesScript = func() func(t testing.TB) string {
	read := sync.OnceValues(func() (string, error) {
		dir, err := os.Getwd()
		for ; err == nil; dir = filepath.Dir(dir) {
			text, readErr := os.ReadFile(filepath.Join(dir, "deploy", "sql", "roles.sql"))
			if readErr == nil || dir == filepath.Dir(dir) {
				return string(text), readErr
			}
		}
		return "", err
	})
	return func(t testing.TB) string {
		t.Helper()
		text, err := read()
		if err != nil || text == "" {
			t.Fatal(errors.Join(errors.New("no deploy/sql/roles.sql above the working folder"), err))
		}
		return text
	}
}()
