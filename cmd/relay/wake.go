package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/backend-skeleton/relay/internal/config"
)

// wakeChannel is what writers notify after their commit.
const wakeChannel = "messaging_outbox"

// listenQuiet is how long the listening session may be silent before it is asked whether it still lives.
const listenQuiet = 30 * time.Second

// wakeUps gives the listener for wake-ups, or nil where polling alone finds work: switched off, behind a pooler in
// transaction mode, which has no sessions, or where the database gives this process one connection only.
func wakeUps(c *config.Config, pool *pgxpool.Pool) func(ctx context.Context, woken func()) error {
	if c.Relay.WakeUp == config.WakeUpOff || c.Database.Pooler == config.PoolerTransaction || c.Database.PoolMax == 1 {
		return nil
	}
	return func(ctx context.Context, woken func()) error {
		like := pool.Config()
		session := like.ConnConfig
		if session.RuntimeParams["application_name"] == application {
			session.RuntimeParams["application_name"] = application + " listens"
		}
		if err := like.BeforeConnect(ctx, session); err != nil {
			return fmt.Errorf("connect to listen: %w", err)
		}
		return listen(ctx, session, woken)
	}
}

// listen holds a connection of its own until it breaks or ctx ends. woken is called once after it stands, since what
// was committed before is notified to nobody.
func listen(ctx context.Context, session *pgx.ConnConfig, woken func()) error {
	conn, err := pgx.ConnectConfig(ctx, session)
	if err != nil {
		return fmt.Errorf("connect to listen: %w", err)
	}
	defer func() {
		farewell, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(farewell) // the session ends either way
	}()
	// The session is idle for good reason, whatever limit the role has for idle ones.
	for _, sql := range []string{"set idle_session_timeout = 0", "listen " + wakeChannel} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
	}
	woken()
	for {
		err := await(ctx, conn)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			woken()
		case conn.IsClosed():
			return fmt.Errorf("wait for a wake-up: %w", err)
		}
		if err != nil { // silence: is anybody there?
			probe, cancel := context.WithTimeout(ctx, listenQuiet/3)
			err := conn.Ping(probe)
			cancel()
			if err != nil && ctx.Err() == nil {
				return fmt.Errorf("the listening session does not answer: %w", err)
			}
		}
	}
}

func await(ctx context.Context, conn *pgx.Conn) error {
	quiet, cancel := context.WithTimeout(ctx, listenQuiet)
	defer cancel()
	_, err := conn.WaitForNotification(quiet)
	return err
}
