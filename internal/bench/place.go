package bench

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/backend-skeleton/relay/migrations"
)

// place is a schema of this run alone.
type place struct {
	name   string
	conf   *pgxpool.Config
	pool   *pgxpool.Pool // for loading and looking, not for the relay
	server server
	// checkpoints tells whether this user may ask for them.
	checkpoints bool
}

func newPlace(ctx context.Context, database string, ranges int) (*place, error) {
	conf, err := pgxpool.ParseConfig(database)
	if err != nil {
		return nil, fmt.Errorf("bench: the database's connection string cannot be parsed")
	}
	p := &place{name: "relay_bench_" + random(), conf: conf}
	admin, err := pgx.ConnectConfig(ctx, conf.ConnConfig)
	if err != nil {
		return nil, fmt.Errorf("bench: connect: %w", err)
	}
	defer admin.Close(ctx)
	if _, err := admin.Exec(ctx, "create schema "+p.name); err != nil {
		return nil, fmt.Errorf("bench: make a schema: %w", err)
	}
	conf.ConnConfig.RuntimeParams["search_path"] = p.name
	conf.ConnConfig.RuntimeParams["application_name"] = "relay bench"
	if err := p.prepare(ctx, ranges); err != nil {
		return nil, fmt.Errorf("bench: %w", joinDrop(err, p.drop()))
	}
	return p, nil
}

func joinDrop(err, drop error) error {
	if drop != nil {
		return errors.Join(err, drop)
	}
	return err
}

func (p *place) prepare(ctx context.Context, ranges int) error {
	db := stdlib.OpenDB(*p.conf.ConnConfig)
	defer db.Close()
	var err error
	if ranges > 0 {
		_, err = migrations.UpPartitioned(ctx, db, day)
	} else {
		_, err = migrations.Up(ctx, db)
	}
	if err != nil {
		return err
	}
	if p.pool, err = p.open(ctx, 16); err != nil {
		return err
	}
	if err := p.pastRanges(ctx, ranges-1); err != nil {
		return err
	}
	// A vacuum in the midst of a drain of seconds would make it a matter of luck.
	for _, sql := range []string{
		`do $$ declare r regclass; begin
		   for r in select relid from pg_partition_tree('messaging_outbox') where isleaf loop
		     execute format('alter table %s set (autovacuum_enabled = off)', r);
		   end loop; end $$`,
		"create table bench_floor (seq bigint primary key, payload bytea not null, done boolean not null default false) with (fillfactor = 50, autovacuum_enabled = off)",
		"create table bench_order (id bigint generated always as identity primary key, customer integer not null, amount numeric not null, note text not null)",
		"create table bench_customer (id integer primary key, orders integer not null default 0) with (fillfactor = 50)",
		"insert into bench_customer (id) select generate_series(1, 1000)",
	} {
		if _, err := p.pool.Exec(ctx, sql); err != nil {
			return err
		}
	}
	if p.server, err = newServer(ctx, p.pool); err != nil {
		return err
	}
	_, err = p.pool.Exec(ctx, "checkpoint")
	p.checkpoints = err == nil
	return nil
}

// open gives a pool in the schema.
func (p *place) open(ctx context.Context, conns int32) (*pgxpool.Pool, error) {
	c := p.conf.Copy()
	c.MaxConns = conns
	return pgxpool.NewWithConfig(ctx, c)
}

// checkpoint now, so that none falls into what follows and pages that are made from here on are not logged in full.
func (p *place) checkpoint(ctx context.Context) error {
	if !p.checkpoints {
		return nil
	}
	_, err := p.pool.Exec(ctx, "checkpoint")
	return err
}

// clear empties the outbox.
func (p *place) clear(ctx context.Context) error {
	_, err := p.pool.Exec(ctx, "truncate messaging_outbox")
	return err
}

// drop removes everything, also after the run was interrupted.
func (p *place) drop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if p.pool != nil {
		p.pool.Close()
	}
	admin, err := pgx.ConnectConfig(ctx, p.conf.ConnConfig)
	if err != nil {
		return fmt.Errorf("schema %s is left behind: %w", p.name, err)
	}
	defer admin.Close(ctx)
	if _, err := admin.Exec(ctx, "drop schema "+p.name+" cascade"); err != nil {
		return fmt.Errorf("schema %s is left behind: %w", p.name, err)
	}
	return nil
}

func random() string {
	b := make([]byte, 5)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

const day = 24 * time.Hour

// pastRanges makes so many ranges before that of today, which are empty as those are whose rows retention took.
func (p *place) pastRanges(ctx context.Context, n int) error {
	for i := range max(n, 0) {
		to := time.Now().UTC().Truncate(day).Add(-time.Duration(i) * day)
		_, err := p.pool.Exec(ctx, fmt.Sprintf(`
			do $$ begin
			  execute format('create table bench_past_%d partition of messaging_outbox for values from (%%L) to (%%L) with (fillfactor = 50)',
			    messaging_outbox_id_at('%s'), messaging_outbox_id_at('%s'));
			end $$`, i, to.Add(-day).Format(time.RFC3339), to.Format(time.RFC3339)))
		if err != nil {
			return err
		}
	}
	return nil
}
