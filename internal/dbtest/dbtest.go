package dbtest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/backend-skeleton/relay/internal/testenv"
	"github.com/backend-skeleton/relay/migrations"
)

// limit bounds every step that New and its cleanup take.
const limit = 30 * time.Second

// DB is a schema, or a database, that belongs to one test. The embedded pool works in it.
type DB struct {
	*pgxpool.Pool
	// Major is the server's major version; zero where the test started its own and did not say.
	Major int
	// Schema is the schema's name; "public" in a database of its own.
	Schema string

	url   *url.URL
	grant sync.Once // of the roles' rights

	mu    sync.Mutex // guards pools
	pools map[string]*pgxpool.Pool
}

// New makes a fresh schema, applies the migrations and drops it when the test ends.
func New(t testing.TB, opts ...Option) *DB {
	t.Helper()
	o := options{maxConns: 8}
	if os.Getenv("TEST_PARTITIONED") == "1" {
		o.ranges = 24 * time.Hour
	}
	for _, opt := range opts {
		opt(&o)
	}
	if o.url == "" {
		if o.major == 0 {
			o.major = defaultMajor(t)
		}
		o.url = testenv.Require(t, variable(o.major))
	}
	base, err := url.Parse(o.url)
	if err != nil {
		t.Fatal("the PostgreSQL server's address is not a URL") // the parser's text may hold the password
	}
	db := &DB{Major: o.major, url: base}
	if o.ownDatabase {
		db.createDatabase(t)
	} else {
		db.createSchema(t)
	}
	if !o.empty {
		db.migrate(t, o.ranges)
	}
	db.open(t, o.maxConns)
	return db
}

// Majors runs test once for each supported major version, as parallel subtests. A version without a server is skipped,
// or fails when REQUIRE_SERVICES=1.
//
//	dbtest.Majors(t, func(t *testing.T, major int) { db := dbtest.New(t, dbtest.Major(major)) … })
func Majors(t *testing.T, test func(t *testing.T, major int)) {
	t.Helper()
	for _, major := range majors {
		t.Run(fmt.Sprintf("postgres%d", major), func(t *testing.T) {
			t.Parallel()
			testenv.Require(t, variable(major))
			test(t, major)
		})
	}
}

// URL is the address of the schema for any process or library: the search path is part of it.
func (db *DB) URL() string { return db.url.String() }

// URLVia is URL with another host and port, those of a proxy.
func (db *DB) URLVia(addr string) string {
	u := *db.url
	u.Host = addr
	return u.String()
}

// Addr is the server's host and port.
func (db *DB) Addr() string { return db.url.Host }

// SQL opens the schema by database/sql. The handle is closed when the test ends.
func (db *DB) SQL(t testing.TB) *sql.DB {
	t.Helper()
	handle, err := sql.Open("pgx", db.URL())
	if err != nil {
		t.Fatalf("open the test schema: %v", err)
	}
	t.Cleanup(func() {
		if err := handle.Close(); err != nil {
			t.Errorf("close the test's handle: %v", err)
		}
	})
	return handle
}

// createSchema makes the schema and puts it into the address as an option of the connection, which pgx and libpq both
// understand. Nothing but the schema is on the path, so what lies in public is not seen.
func (db *DB) createSchema(t testing.TB) {
	t.Helper()
	db.Schema = uniqueName(t)
	admin := db.url.String()
	execAdmin(t, admin, `create schema `+db.Schema)
	t.Cleanup(func() { dropSchema(t, admin, db.Schema) })
	scoped := *db.url
	query := scoped.Query()
	query.Set("options", strings.TrimSpace(query.Get("options")+" -csearch_path="+db.Schema))
	// Query.Encode writes a blank as "+", which libpq does not read as one.
	scoped.RawQuery = strings.ReplaceAll(query.Encode(), "+", "%20")
	db.url = &scoped
}

func (db *DB) createDatabase(t testing.TB) {
	t.Helper()
	name := uniqueName(t)
	db.Schema = "public"
	admin := db.url.String()
	execAdmin(t, admin, `create database `+name)
	t.Cleanup(func() { execAdmin(t, admin, `drop database if exists `+name+` with (force)`) })
	own := *db.url
	own.Path = "/" + name
	db.url = &own
}

func (db *DB) migrate(t testing.TB, ranges time.Duration) {
	t.Helper()
	config, err := pgx.ParseConfig(db.URL())
	if err != nil {
		t.Fatal("the PostgreSQL server's address does not parse")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), limit)
	defer cancel()
	handle := stdlib.OpenDB(*config)
	defer func() { _ = handle.Close() }()
	if ranges > 0 {
		_, err = migrations.UpPartitioned(ctx, handle, ranges)
	} else {
		_, err = migrations.Up(ctx, handle)
	}
	if err != nil {
		t.Fatalf("migrate the test schema: %v", err)
	}
}

func (db *DB) open(t testing.TB, maxConns int32) {
	t.Helper()
	config, err := pgxpool.ParseConfig(db.URL())
	if err != nil {
		t.Fatal("the PostgreSQL server's address does not parse")
	}
	config.MaxConns = maxConns
	db.Pool, err = pgxpool.NewWithConfig(context.WithoutCancel(t.Context()), config)
	if err != nil {
		t.Fatalf("open the test schema: %v", err)
	}
	t.Cleanup(func() { closePool(t, db.Pool) })
}

// closePool waits for connections that are still in use, but not for ever: a test that forgot one fails instead of
// hanging until the whole run times out.
func closePool(t testing.TB, pool *pgxpool.Pool) {
	t.Helper()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		pool.Close()
	}()
	select {
	case <-closed:
	case <-time.After(limit):
		t.Errorf("%d connections of the test's pool were not given back", pool.Stat().AcquiredConns())
	}
}

// uniqueName is a name that needs no quotes and says which test it belongs to.
func uniqueName(t testing.TB) string {
	suffix := make([]byte, 6)
	_, _ = rand.Read(suffix) // never fails
	readable := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '_'
	}, strings.TrimPrefix(t.Name(), "Test"))
	return "t_" + readable[:min(len(readable), 40)] + "_" + hex.EncodeToString(suffix)
}
