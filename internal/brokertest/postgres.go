package brokertest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// PostgresOptions are the settings of a PostgreSQL of its own.
type PostgresOptions struct {
	// Major is 16, 17 (the default) or 18.
	Major int
	// Conf are settings name=value; values without blanks.
	Conf []string
	// Standby adds node 2, a streaming standby of node 1 that was made from a cold copy of its data. Its address is
	// [Server.Env] of PG_STANDBY_URL_17. It is asynchronous until synchronous_standby_names of node 1 holds "standby".
	Standby bool
	// Disk puts the data on a disk of its own with so many MiB, at least 100, which [Server.Fill] fills. It needs root:
	// otherwise the test is skipped.
	Disk int
	// OwnClock lets the server run by a clock of its own, which is true until [Server.SetClock].
	OwnClock bool
}

// StartPostgres starts a PostgreSQL for this test alone; about 2 s. It is ended with the test. Kill and StartNode are a
// crash and its recovery. The address is Env("PG_URL_17"), for the major version asked for.
func StartPostgres(t testing.TB, o PostgresOptions) *Server {
	t.Helper()
	if o.Major == 0 {
		o.Major = 17
	}
	settings := map[string]any{"PG_MAJOR": o.Major, "PG_CONF": strings.Join(o.Conf, " "), "PG_DISK": o.Disk}
	if o.Standby {
		settings["PG_STANDBY"] = 1
	}
	if o.OwnClock {
		settings["PG_CLOCK"] = "+0"
	}
	return start(t, "postgres.sh", settings)
}

// Fill takes the last byte of the disk that a PostgreSQL has for itself.
func (s *Server) Fill() { s.t.Helper(); s.must(verbLimit, "fill") }

// Free gives back what Fill took.
func (s *Server) Free() { s.t.Helper(); s.must(verbLimit, "free") }

// SetClock lets a PostgreSQL that has a clock of its own run so far off the true time, from now on in all its sessions.
func (s *Server) SetClock(off time.Duration) {
	s.t.Helper()
	if _, err := s.run(verbLimit, "clock", fmt.Sprintf("%+d", int(off.Seconds()))); err != nil {
		s.t.Fatal(err)
	}
}
