package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// listenPatience is how long a notification may take to be told from one that never comes.
const listenPatience = 3 * time.Second

// hears tells whether a session hears what another one notifies. Behind a pooler in transaction mode the listener has no
// session of its own, and the server's answer goes to whoever happens to use that session.
func hears(ctx context.Context, session *pgx.ConnConfig, patience time.Duration) (bool, error) {
	listener, err := pgx.ConnectConfig(ctx, session)
	if err != nil {
		return false, fmt.Errorf("connect to listen: %w", err)
	}
	defer leave(ctx, listener)
	channel := "relay_doctor_" + strings.ToLower(rand.Text())
	if _, err := listener.Exec(ctx, "listen "+channel); err != nil {
		return false, fmt.Errorf("listen: %w", err)
	}
	speaker, err := pgx.ConnectConfig(ctx, session)
	if err != nil {
		return false, fmt.Errorf("connect to notify: %w", err)
	}
	defer leave(ctx, speaker)
	if _, err := speaker.Exec(ctx, "notify "+channel); err != nil {
		return false, fmt.Errorf("notify: %w", err)
	}
	waiting, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		n, err := listener.WaitForNotification(waiting)
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case pgconn.Timeout(err):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("wait for the notification: %w", err)
		case n.Channel == channel:
			return true, nil
		}
	}
}

func leave(ctx context.Context, conn *pgx.Conn) {
	farewell, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(farewell) // the session ends either way
}
