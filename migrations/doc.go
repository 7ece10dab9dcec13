// Package migrations holds the database schema of relay and brings a database to it.
//
// The schema is a sequence of numbered SQL files, compiled into the program. Every object is created in the first
// schema of the connection's search_path and found through that path, so one database can hold several independent
// outboxes, each in a schema of its own. Which files a schema has seen is kept in the table messaging_schema_version.
//
// Up may be called by any number of processes at once: they take turns on an advisory lock of the session, which is
// why migrating needs a direct connection and not a pooler in transaction mode. Status only reads and needs no more
// than SELECT on messaging_schema_version.
//
// A program that starts asks Status and tells its errors apart:
//
//	if _, err := migrations.Status(ctx, db); errors.Is(err, migrations.ErrSchemaMissing) {
//		// run "relay migrate up"
//	}
package migrations
