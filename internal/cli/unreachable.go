package cli

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// unreachable explains why no session came about. The driver's own text is not used: it quotes the connection string.
func unreachable(ctx context.Context, c *pgx.ConnConfig, err error) error {
	if ctx.Err() != nil {
		return Fail(Failed, "interrupted")
	}
	where := fmt.Sprintf("PostgreSQL at %s, database %q, user %q",
		net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port))), c.Database, c.User)
	cause, advice := explain(err)
	return Fail(Database, "cannot connect to %s: %s; %s", where, cause, advice)
}

// explain gives cause and advice for a failed connect.
func explain(err error) (cause, advice string) {
	var server *pgconn.PgError
	var dns *net.DNSError
	var operation *net.OpError
	var unknown x509.UnknownAuthorityError
	var host x509.HostnameError
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.As(err, &server):
		return "the server refuses: " + refusal(server), adviceFor(server.Code)
	case errors.As(err, &unknown), errors.As(err, &host), errors.As(err, &certificate):
		return "the server's certificate is not trusted", "check sslmode and sslrootcert of the URL"
	case errors.As(err, &dns):
		return "the host name is not known", "check the host"
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer within seconds", "check host, port and network"
	case errors.As(err, &operation) && operation.Timeout():
		return "no answer within seconds", "check host, port and network"
	case errors.As(err, &operation):
		return operation.Err.Error(), "check host and port, and that the server runs"
	}
	return "the connection failed", "check host, port and sslmode of the URL"
}

// refusal is the server's verdict in own words where the server's could quote something.
func refusal(e *pgconn.PgError) string {
	switch e.Code {
	case "28P01":
		return "wrong user or password"
	case "28000":
		return "this user may not log in this way"
	case "3D000":
		return "the database does not exist"
	case "53300":
		return "too many connections"
	case "57P03":
		return "it is starting up or shutting down"
	}
	return "SQLSTATE " + e.Code
}

func adviceFor(code string) string {
	switch code {
	case "28P01", "28000":
		return "check the user and the secret that database.url or RELAY_DATABASE_URL names"
	case "3D000":
		return "create the database or correct its name"
	case "53300":
		return "raise max_connections or lower database.pool-max"
	case "57P03":
		return "try again"
	}
	return "see the server's log"
}
