// Package dbtest gives each test a migrated schema of its own on a real PostgreSQL, so that tests run in parallel on one
// server and leave nothing behind. It is for tests alone.
//
//	db := dbtest.New(t)                             // PostgreSQL 16, 17 or 18, by the test's name
//	_, err := db.Exec(ctx, `insert into …`)         // DB is a pgxpool.Pool
//	cmd.Env = append(cmd.Env, "RELAY_DATABASE_URL="+db.URL())
//
// Pool and URL are those of a superuser, who owns the schema. What a relay, a service or an operator does is tested with
// the rights that they have, by an account with one of the roles:
//
//	store := outbox.New(db.As(t, dbtest.Worker), …)
//	cmd.Env = append(cmd.Env, "RELAY_DATABASE_URL="+db.Account(t, dbtest.Worker))
//
// The server's address comes from PG_URL_16, PG_URL_17 or PG_URL_18; without it the test is skipped, or fails when
// REQUIRE_SERVICES=1.
package dbtest
