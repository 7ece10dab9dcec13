package migrations

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"

	"github.com/pressly/goose/v3"
)

// FS holds the numbered SQL files, in goose's format.
//
//go:embed 0*.sql
var FS embed.FS

// versionTable is not goose's default name, so that a service may use goose for its own tables in the same schema.
const versionTable = "messaging_schema_version"

// Up applies every migration that the schema has not seen, in order, each in a transaction of its own, and returns
// those it applied. Nothing to do is no error; a schema that is newer than this program is ErrSchemaNewer. Safe to call
// from several processes at once.
func Up(ctx context.Context, db *sql.DB) ([]Migration, error) {
	p, err := open(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("migrate up: %w", err)
	}
	results, err := p.Up(ctx)
	if err != nil {
		return before(results, err), fmt.Errorf("migrate up: %w", err)
	}
	return applied(results), nil
}

// Down takes back the newest migration and returns it; with none left it returns nothing. Taking back the outbox
// itself is refused while it holds messages that were not published.
func Down(ctx context.Context, db *sql.DB) ([]Migration, error) {
	p, err := open(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("migrate down: %w", err)
	}
	result, err := p.Down(ctx)
	switch {
	case errors.Is(err, goose.ErrNoNextVersion):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("migrate down: %w", err)
	}
	return applied([]*goose.MigrationResult{result}), nil
}

// DownTo takes back every migration above version, newest first, and returns them; version 0 takes back all, and is
// refused with ErrUnpublished before anything is taken back while the outbox holds messages that were not published.
func DownTo(ctx context.Context, db *sql.DB, version int64) ([]Migration, error) {
	p, err := open(ctx, db)
	if err != nil {
		return nil, fmt.Errorf("migrate down to %d: %w", version, err)
	}
	if version < 1 {
		if err := nothingUnpublished(ctx, db); err != nil {
			return nil, fmt.Errorf("migrate down to %d: %w", version, err)
		}
	}
	results, err := p.DownTo(ctx, version)
	if err != nil {
		return before(results, err), fmt.Errorf("migrate down to %d: %w", version, err)
	}
	return applied(results), nil
}

func open(ctx context.Context, db *sql.DB) (*goose.Provider, error) {
	if err := ownSchema(ctx, db); err != nil {
		return nil, err
	}
	// An older program neither completes a newer schema nor knows how to take it back.
	if _, err := Status(ctx, db); errors.Is(err, ErrSchemaNewer) {
		return nil, err
	}
	return goose.NewProvider(goose.DialectPostgres, db, FS,
		goose.WithTableName(versionTable),
		goose.WithSessionLocker(schemaLock{}),
		goose.WithDisableGlobalRegistry(true),
		goose.WithLogger(goose.NopLogger()),
	)
}

// ownSchema refuses to migrate where objects would land in no schema or in front of others.
func ownSchema(ctx context.Context, db *sql.DB) error {
	var first, found sql.NullString
	err := db.QueryRowContext(ctx, `
		select current_schema(),
		       (select n.nspname from pg_catalog.pg_class as c
		        join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
		        where c.oid = to_regclass('`+versionTable+`'))`).Scan(&first, &found)
	switch {
	case err != nil:
		return fmt.Errorf("look up the schema: %w", err)
	case !first.Valid:
		return ErrNoSchema
	case found.Valid && found.String != first.String:
		return fmt.Errorf("%w: it is in %q, the first one is %q", ErrForeignSchema, found.String, first.String)
	}
	return nil
}

// nothingUnpublished asks before the first step what the last one, the outbox's own, would refuse: by then the guards,
// the lanes and the inbox would be gone.
func nothingUnpublished(ctx context.Context, db *sql.DB) error {
	var installed, holds bool
	if err := db.QueryRowContext(ctx, `select to_regclass('messaging_outbox') is not null`).Scan(&installed); err != nil {
		return fmt.Errorf("look up the outbox: %w", err)
	}
	if !installed {
		return nil
	}
	err := db.QueryRowContext(ctx, `select exists (select from messaging_outbox where status <> 'PUBLISHED')`).Scan(&holds)
	switch {
	case err != nil:
		return fmt.Errorf("look for messages that were not published: %w", err)
	case holds:
		return ErrUnpublished
	}
	return nil
}

// before gives what was done before the failure.
func before(results []*goose.MigrationResult, err error) []Migration {
	var partial *goose.PartialError
	if errors.As(err, &partial) {
		results = partial.Applied
	}
	return applied(results)
}

func applied(results []*goose.MigrationResult) []Migration {
	var ms []Migration
	for _, r := range results {
		if r != nil && r.Error == nil && r.Source != nil {
			ms = append(ms, Migration{Version: r.Source.Version, Name: nameOf(r.Source.Path)})
		}
	}
	return ms
}
