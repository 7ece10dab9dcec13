package migrations

import "errors"

// Errors of Status; Up, Down and DownTo give ErrSchemaNewer, ErrNoSchema and ErrForeignSchema. They say what to do, and hold no address or credential.
var (
	// ErrSchemaMissing: no schema of the search_path has been migrated.
	ErrSchemaMissing = errors.New("the messaging schema is missing: run \"relay migrate up\"")
	// ErrSchemaOlder: migrations known to this program were not applied yet.
	ErrSchemaOlder = errors.New("the messaging schema is older than this program: run \"relay migrate up\"")
	// ErrSchemaNewer: the database has seen migrations that this program does not know.
	ErrSchemaNewer = errors.New("the messaging schema is newer than this program: run a newer version of the program")
	// ErrUnpublished: the tables are not taken back while messages wait in them.
	ErrUnpublished = errors.New("messaging_outbox holds messages that were not published: publish or delete them first")
	// ErrPlain: the outbox exists and is not partitioned. Only a new one can be made of ranges.
	ErrPlain = errors.New("messaging_outbox exists as a plain table, only a new one can be partitioned: run \"relay migrate up\" without --partitioned")
	// ErrNoSchema: the search_path of the connection names no existing schema, so objects cannot be created.
	ErrNoSchema = errors.New("no schema to migrate: the search_path of the connection names none that exists")
	// ErrForeignSchema: the objects exist in another schema of the search_path than its first one. Migrating would
	// create a second, empty outbox in front of the first.
	ErrForeignSchema = errors.New("the messaging schema is installed in another schema of the search_path")
)
