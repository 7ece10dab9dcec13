package outbox

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

// ErrLeaseLost says that another process owns the lane now.
var ErrLeaseLost = errors.New("the lane belongs to another relay")

// ErrRefused says that the table refuses a value for good: repeated, the statement fails the same way.
var ErrRefused = errors.New("the table refuses a value")

// ErrReadOnly says that the server takes no writes: it became a standby, or was set to read only.
var ErrReadOnly = errors.New("the database is read-only")

// ErrFull says that the server's disk has no room for a write.
var ErrFull = errors.New("the database's disk is full")

// ErrDenied says that the role lacks a right on a table or function, or to connect.
var ErrDenied = errors.New("a right is missing that deploy/sql/roles.sql grants; relay doctor names it")

// ErrUnreachable says that no server answered, or that it does not serve now.
var ErrUnreachable = errors.New("the database does not answer")

// causeOf tells what is wrong with the database as a whole; nil where an error is about one statement.
func causeOf(err error) error {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		if lost(err) {
			return ErrUnreachable
		}
		return nil
	}
	switch pg.Code {
	case "25006":
		return ErrReadOnly
	case "53100":
		return ErrFull
	case "42501":
		return ErrDenied
	case "53300", "57P01", "57P02", "57P03", "57P04", "57P05", "28000", "28P01", "3D000":
		return ErrUnreachable
	}
	if len(pg.Code) == 5 && pg.Code[:2] == "08" {
		return ErrUnreachable
	}
	return nil
}

// lost tells a connection that could not be had, broke, or gave no answer in time.
func lost(err error) bool {
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, pgconn.ErrConnClosed)
}
