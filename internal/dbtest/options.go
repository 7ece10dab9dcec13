package dbtest

import (
	"fmt"
	"hash/fnv"
	"os"
	"strings"
	"testing"
	"time"
)

// Option changes what New makes.
type Option func(*options)

type options struct {
	major       int
	url         string
	ownDatabase bool
	empty       bool
	ranges      time.Duration
	maxConns    int32
}

// Major chooses the server's major version: 16, 17 or 18. By default each test has one of them for good, found by its name,
// so that every version gets a third of all tests; where only one version has a server, all tests run there.
// TEST_POSTGRES=18 runs all of them on that version, as the full tier does one version after the other.
func Major(major int) Option { return func(o *options) { o.major = major } }

// Server uses the server at this address instead of one from the environment, for a test that started its own. The
// address is that of a superuser.
func Server(url string) Option { return func(o *options) { o.url = url } }

// OwnDatabase makes a database instead of a schema, for tests that change settings of the database, need extensions, or
// count its sessions. It costs about 100 ms more than a schema.
func OwnDatabase() Option { return func(o *options) { o.ownDatabase = true } }

// Empty leaves the migrations out.
func Empty() Option { return func(o *options) { o.empty = true } }

// Ranges makes an outbox whose table consists of ranges of ids, each as wide as the time width. TEST_PARTITIONED=1 makes
// every outbox one of days.
func Ranges(width time.Duration) Option { return func(o *options) { o.ranges = width } }

// MaxConns limits the pool of the test itself; default 8. Other processes and pools on URL are not bound by it.
func MaxConns(n int32) Option { return func(o *options) { o.maxConns = n } }

// majors that are supported.
var majors = []int{16, 17, 18}

// defaultMajor of a test.
func defaultMajor(t testing.TB) int {
	t.Helper()
	var chosen int
	if named := os.Getenv("TEST_POSTGRES"); named != "" {
		if _, err := fmt.Sscan(named, &chosen); err != nil {
			t.Fatalf("TEST_POSTGRES is %q, want 16, 17 or 18", named)
		}
		return chosen
	}
	var given []int
	for _, major := range majors {
		if os.Getenv(variable(major)) != "" {
			given = append(given, major)
		}
	}
	if len(given) == 0 || os.Getenv("REQUIRE_SERVICES") == "1" {
		given = majors
	}
	root, _, _ := strings.Cut(t.Name(), "/")
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(root)) // never fails
	return given[sum.Sum32()%uint32(len(given))]
}

// variable holds the address of a version's server.
func variable(major int) string { return fmt.Sprintf("PG_URL_%d", major) }
