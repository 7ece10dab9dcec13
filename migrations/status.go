package migrations

import (
	"context"
	"database/sql"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"
)

// Migration is one numbered file.
type Migration struct {
	Version   int64
	Name      string    // "outbox" for 00001_outbox.sql; empty where only the database knows the version
	AppliedAt time.Time // zero: not applied, or not asked
}

// State is what a schema has seen.
type State struct {
	Current    int64       // highest version applied; 0 where none was
	Latest     int64       // highest version that this program knows
	Migrations []Migration // known and applied ones, by version
}

// Status reads which migrations the schema has seen and changes nothing. The error is nil if they are exactly those
// of this program; else it is ErrSchemaMissing, ErrSchemaOlder, ErrSchemaNewer or an error of the database. The State
// is filled for the first three of these too.
func Status(ctx context.Context, db *sql.DB) (State, error) {
	known, err := Known()
	if err != nil {
		return State{}, err
	}
	s := State{Latest: known[len(known)-1].Version, Migrations: known}
	var present bool
	if err := db.QueryRowContext(ctx, `select to_regclass('`+versionTable+`') is not null`).Scan(&present); err != nil {
		return s, fmt.Errorf("read the schema version: %w", err)
	}
	if !present {
		return s, ErrSchemaMissing
	}
	if err := s.read(ctx, db); err != nil {
		return s, fmt.Errorf("read the schema version: %w", err)
	}
	return s, s.verdict()
}

// Known lists the migrations of this program, by version.
func Known() ([]Migration, error) {
	entries, err := FS.ReadDir(".") // sorted by name, and the names begin with the version
	if err != nil {
		return nil, err
	}
	known := make([]Migration, 0, len(entries))
	for _, e := range entries {
		number, _, _ := strings.Cut(e.Name(), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("migration %s has no version: %w", e.Name(), err)
		}
		known = append(known, Migration{Version: version, Name: nameOf(e.Name())})
	}
	return known, nil
}

func (s *State) read(ctx context.Context, db *sql.DB) error {
	// goose keeps a local time without its zone.
	rows, err := db.QueryContext(ctx, `
		select version_id, max(tstamp at time zone current_setting('TimeZone'))
		from `+versionTable+` where version_id > 0 and is_applied group by 1 order by 1`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var version int64
		var at time.Time
		if err := rows.Scan(&version, &at); err != nil {
			return err
		}
		s.Current = version
		s.mark(version, at)
	}
	return rows.Err()
}

func (s *State) mark(version int64, at time.Time) {
	for i := range s.Migrations {
		if s.Migrations[i].Version == version {
			s.Migrations[i].AppliedAt = at
			return
		}
	}
	s.Migrations = append(s.Migrations, Migration{Version: version, AppliedAt: at})
}

func (s *State) verdict() error {
	if s.Current == 0 {
		return ErrSchemaMissing
	}
	if s.Current > s.Latest {
		return fmt.Errorf("%w (schema version %d, program knows up to %d)", ErrSchemaNewer, s.Current, s.Latest)
	}
	for _, m := range s.Migrations {
		if m.AppliedAt.IsZero() {
			return fmt.Errorf("%w (schema version %d, program needs %d)", ErrSchemaOlder, s.Current, s.Latest)
		}
	}
	return nil
}

// nameOf turns "00001_outbox.sql" into "outbox".
func nameOf(file string) string {
	_, name, _ := strings.Cut(strings.TrimSuffix(path.Base(file), ".sql"), "_")
	return name
}
