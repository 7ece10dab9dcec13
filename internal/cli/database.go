package cli

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/backend-skeleton/relay/internal/config"
	"github.com/backend-skeleton/relay/migrations"
)

// connectTimeout is how long a command waits for the database before it gives up.
const connectTimeout = 5 * time.Second

// DatabaseURL is the database of commands that need no file: RELAY_DATABASE_URL, the connection string or a reference.
func DatabaseURL() (config.DatabaseURL, error) {
	value := os.Getenv(config.VariableDatabase)
	if value == "" {
		return config.DatabaseURL{}, Fail(Refused, "%s is not set; it is the connection string of the database, or env:NAME, or file:PATH", config.VariableDatabase)
	}
	url, err := config.NewDatabaseURL(value, config.VariableDatabase, os.LookupEnv)
	if err != nil {
		return url, Fail(Refused, "%s: %w", config.VariableDatabase, err)
	}
	return url, nil
}

// Options say how a pool is used.
type Options struct {
	// PoolMax is the most connections; 0: 4.
	PoolMax int
	// Pooler is what stands before the server; transaction: no prepared statements.
	Pooler config.Pooler
	// Application names the process to the server.
	Application string
}

// Open connects to the database and checks that its schema is the program's. It gives up after seconds, and its errors
// say what to do; they hold no part of the connection string but host, port, database and user.
func Open(ctx context.Context, url config.DatabaseURL, o Options) (*pgxpool.Pool, error) {
	c, err := poolConfig(url, o)
	if err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, c)
	if err != nil {
		return nil, unreachable(ctx, c.ConnConfig, err)
	}
	if err := check(ctx, pool); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

func check(ctx context.Context, pool *pgxpool.Pool) error {
	limited, cancel := context.WithTimeout(ctx, 2*connectTimeout)
	defer cancel()
	if err := pool.Ping(limited); err != nil {
		return unreachable(ctx, pool.Config().ConnConfig, err)
	}
	db := stdlib.OpenDBFromPool(pool)
	defer db.Close()
	_, err := migrations.Status(limited, db)
	return SchemaError(ctx, err)
}

// SchemaError gives an error of migrations its exit code.
func SchemaError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return Fail(Failed, "interrupted")
	}
	return &Error{Code: Database, Err: err}
}

// OpenDirect opens the database for migrations: by database/sql, without looking at the schema.
func OpenDirect(ctx context.Context, url config.DatabaseURL, application string) (*sql.DB, error) {
	c, err := poolConfig(url, Options{Application: application})
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDB(*c.ConnConfig)
	limited, cancel := context.WithTimeout(ctx, 2*connectTimeout)
	defer cancel()
	if err := db.PingContext(limited); err != nil {
		_ = db.Close() // the failed ping is the news
		return nil, unreachable(ctx, c.ConnConfig, err)
	}
	return db, nil
}

func poolConfig(url config.DatabaseURL, o Options) (*pgxpool.Config, error) {
	c, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	c.MaxConns = 4
	if o.PoolMax > 0 {
		c.MaxConns = int32(min(o.PoolMax, 1000))
	}
	if c.ConnConfig.ConnectTimeout == 0 || c.ConnConfig.ConnectTimeout > connectTimeout {
		c.ConnConfig.ConnectTimeout = connectTimeout
	}
	if _, named := c.ConnConfig.RuntimeParams["application_name"]; !named && o.Application != "" {
		c.ConnConfig.RuntimeParams["application_name"] = o.Application
	}
	if o.Pooler == config.PoolerTransaction {
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeExec
		c.ConnConfig.StatementCacheCapacity, c.ConnConfig.DescriptionCacheCapacity = 0, 0
		c.AfterConnect = nameTypes
	}
	new(reconnects).share(c.ConnConfig)
	c.BeforeConnect = func(_ context.Context, session *pgx.ConnConfig) error { return rotate(url, session) }
	return c, nil
}

// rotate takes user and password anew from where the URL comes from, so that a rotated secret needs no restart.
func rotate(url config.DatabaseURL, session *pgx.ConnConfig) error {
	now, err := parseURL(url)
	if err != nil {
		return err
	}
	session.User, session.Password = now.ConnConfig.User, now.ConnConfig.Password
	return nil
}

func parseURL(url config.DatabaseURL) (*pgxpool.Config, error) {
	text, err := url.Resolve()
	if err != nil {
		return nil, Fail(Refused, "database.url: %w", err)
	}
	if err := checkURL(text); err != nil {
		return nil, Fail(Refused, "database.url (%s): %w", url, err)
	}
	c, err := pgxpool.ParseConfig(text)
	if err != nil || strings.Contains(c.ConnConfig.Host, "@") { // the parser's text may quote the password
		return nil, Fail(Refused, "database.url (%s): it cannot be parsed; write postgres://user:password@host:5432/name, with / ? # @ and %% of the password percent-encoded", url)
	}
	return c, nil
}

// nameTypes tells the driver what Go's types are in PostgreSQL: without prepared statements it does not ask the server.
func nameTypes(_ context.Context, conn *pgx.Conn) error {
	conn.TypeMap().RegisterDefaultPgType(uuid.UUID{}, "uuid")
	conn.TypeMap().RegisterDefaultPgType([]uuid.UUID{}, "_uuid")
	return nil
}

// checkURL refuses an address whose password was written without percent-encoding: its rest would be taken for the
// host and show up in messages.
func checkURL(text string) error {
	scheme, rest, isURL := strings.Cut(text, "://")
	if !isURL {
		return nil
	}
	if scheme != "postgres" && scheme != "postgresql" {
		return errors.New("it does not begin with postgres://")
	}
	end := strings.IndexAny(rest, "/?#")
	if end >= 0 && strings.Contains(rest[end:], "@") && !strings.Contains(rest[:end], "@") {
		return errors.New("an @ stands behind the host; percent-encode / ? # @ and % of the password")
	}
	return nil
}
