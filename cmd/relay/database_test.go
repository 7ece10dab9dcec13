package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/internal/testenv"
)

// seconds is the most that a start may take to fail for want of a database.
const seconds = 15 * time.Second

// broken are databases that cannot be used, by what must be said about them. A function gives the URL.
func broken(t *testing.T) map[string]struct{ url, want string } {
	t.Helper()
	mute, err := net.Listen("tcp", "127.0.0.1:0") // accepts and never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mute.Close() })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	return map[string]struct{ url, want string }{
		"nobody listens": {"postgres://relay:S3cr3t@" + closed.Addr().String() + "/orders", "connection refused"},
		"no answer":      {"postgres://relay:S3cr3t@" + mute.Addr().String() + "/orders?sslmode=disable", "no answer within seconds"},
		"unknown host":   {"postgres://relay:S3cr3t@nowhere.invalid/orders", "the host name is not known"},
	}
}

func TestMigrateWithoutDatabaseFailsInSeconds(t *testing.T) {
	t.Parallel()
	relay(t, nil, "migrate", "up").Want(t, 3, "RELAY_DATABASE_URL is not set")
	for name, b := range broken(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, verb := range []string{"up", "status"} {
				r := relay(t, []string{"RELAY_DATABASE_URL=" + b.url}, "migrate", verb)
				r.Want(t, 4, "cannot connect to PostgreSQL at ", b.want, `database "orders", user "relay"`)
				if r.Took > seconds {
					t.Errorf("took %v", r.Took)
				}
			}
		})
	}
}

func TestMigrateSaysWhatTheServerRefuses(t *testing.T) {
	t.Parallel()
	base := testenv.Require(t, "PG_URL_17")
	with := func(change func(*url.URL)) string {
		u, err := url.Parse(base)
		if err != nil {
			t.Fatal("PG_URL_17 is not a URL")
		}
		change(u)
		return u.String()
	}
	relay(t, []string{"RELAY_DATABASE_URL=" + with(func(u *url.URL) { u.User = url.UserPassword("postgres", "S3cr3t") })}, "migrate", "status").
		Want(t, 4, "wrong user or password", "check the user and the secret")
	relay(t, []string{"RELAY_DATABASE_URL=" + with(func(u *url.URL) { u.Path = "/absent" })}, "migrate", "status").
		Want(t, 4, "the database does not exist")
	relay(t, []string{"URL=" + base, "RELAY_DATABASE_URL=env:URL"}, "migrate", "status").Want(t, 4, `run "relay migrate up"`)
}

func TestMigrateUpPartitioned(t *testing.T) {
	t.Parallel()
	env := []string{"RELAY_DATABASE_URL=" + dbtest.New(t, dbtest.Empty()).URL()}
	relay(t, env, "migrate", "up", "--partitioned=year").Want(t, 2, "--partitioned must be day or week")
	relay(t, env, "migrate", "up", "--partitioned").Want(t, 0, "applied: 00001", "ranges")
	relay(t, env, "migrate", "up", "--partitioned=week").Want(t, 0, "the schema is up to date")
	relay(t, env, "migrate", "up").Want(t, 0, "the schema is up to date")
	relay(t, env, "doctor").Want(t, 6, "RANGES_MISSING")
	plain := []string{"RELAY_DATABASE_URL=" + dbtest.New(t, dbtest.Empty()).URL()}
	relay(t, plain, "migrate", "up").Want(t, 0)
	relay(t, plain, "migrate", "up", "--partitioned").Want(t, 4, "exists as a plain table, only a new one can be partitioned")
}

func TestMigrateUpStatusDown(t *testing.T) {
	t.Parallel()
	dbtest.Majors(t, func(t *testing.T, major int) {
		db := dbtest.New(t, dbtest.Major(major), dbtest.Empty())
		env := []string{"RELAY_DATABASE_URL=" + db.URL()}
		relay(t, env, "migrate", "status").Want(t, 4, "the messaging schema is missing", "VERSION", "missing")
		relay(t, env, "migrate", "up").Want(t, 0, "applied: 00001")
		relay(t, env, "migrate", "up").Want(t, 0, "the schema is up to date")
		r := relay(t, env, "migrate", "status", "-o", "json")
		r.Want(t, 0)
		var state struct {
			Current, Latest int64
			Migrations      []migrationState
		}
		if err := json.Unmarshal([]byte(r.Stdout), &state); err != nil || state.Current < 1 || state.Current != state.Latest || state.Migrations[0].AppliedAt == nil {
			t.Errorf("%+v, %v", state, err)
		}
		relay(t, env, "migrate", "down").Want(t, 0, "taken back: ")
		relay(t, env, "migrate", "status").Want(t, 4, "older than this program")
		relay(t, env, "migrate", "down", "--to", "0").Want(t, 0, "taken back: 00001")
		relay(t, env, "migrate", "down").Want(t, 0, "nothing to take back")
		relay(t, env, "migrate", "up").Want(t, 0)
		if _, err := db.Exec(t.Context(), `insert into messaging_schema_version (version_id, is_applied) values (9999, true)`); err != nil {
			t.Fatal(err)
		}
		relay(t, env, "migrate", "status").Want(t, 4, "newer than this program", "(unknown to this program)")
	})
}

// Failure case B76: whatever is wrong with the database's address, its password is printed nowhere.
func TestB76_NoDatabaseErrorShowsThePassword(t *testing.T) {
	t.Parallel()
	addresses := []string{
		"postgres://relay:S3cr3t@127.0.0.1:port/orders", "postgres://relay:S3cr3t@127.0.0.1:99999/orders", "postgres://relay:S3cr3t/x@127.0.0.1:1/orders",
		"postgres://relay:S3cr3t#x@127.0.0.1:1/orders", "postgres://relay:S3cr3t?x@127.0.0.1:1/orders", "postgres://relay:S3cr3t%zz@127.0.0.1:1/orders", "relay:S3cr3t@127.0.0.1/orders",
		"mysql://relay:S3cr3t@127.0.0.1/orders", "//relay:S3cr3t@127.0.0.1/orders", "S3cr3t", "host=127.0.0.1 port=1 user=relay password=S3cr3t", "host=127.0.0.1 port=x password='S3cr3t", "host='relay:S3cr3t@db'",
		"postgres://relay@127.0.0.1:1/orders?password=S3cr3t&sslmode=nonsense", "postgres://relay:S3cr3t@127.0.0.1:1/orders?sslmode=verify-full&sslrootcert=/absent", "host=127.0.0.1 port=1 password=S3cr3t nonsense",
	}
	for _, b := range broken(t) {
		addresses = append(addresses, b.url)
	}
	config := file(t, "messaging: {environment: local, brokers: {k: {kind: kafka, seeds: [\"127.0.0.1:1\"]}}, destinations: {d: {broker: k, kind: EVENT_STREAM, physical: {topic: t}, producer: {confirmation: BROKER_ACK}}}}\n")
	for i, address := range addresses {
		t.Run(fmt.Sprint("address ", i), func(t *testing.T) {
			t.Parallel()
			for _, args := range [][]string{{"migrate", "up"}, {"migrate", "status"}, {"run", "--config", config}, {"config", "explain", "--config", config}} {
				r := relay(t, []string{"RELAY_DATABASE_URL=" + address}, args...)
				if strings.Contains(r.Both(), "S3cr3t") {
					t.Errorf("%q with %s: %s", args, strings.ReplaceAll(address, "S3cr3t", "…"), r.Both())
				}
				if r.Code == 0 && args[1] != "explain" || r.Code == 1 || r.Took > seconds {
					t.Errorf("%q with %s: exit code %d after %v: %s", args, strings.ReplaceAll(address, "S3cr3t", "…"), r.Code, r.Took, r.Both())
				}
			}
		})
	}
	in := file(t, "messaging: {environment: local}\ndatabase: {url: \"postgres://relay:S3cr3t@db/orders\"}\n")
	if r := relay(t, nil, "config", "check", "--config", in); r.Code != 3 || strings.Contains(r.Both(), "S3cr3t") {
		t.Errorf("exit code %d: %s", r.Code, r.Both())
	}
}
