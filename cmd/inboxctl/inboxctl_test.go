package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/backend-skeleton/relay/internal/cli/clitest"
	"github.com/backend-skeleton/relay/internal/dbtest"
)

var program clitest.Program

func TestMain(m *testing.M) { os.Exit(clitest.Main(m, &program)) }

// fixture is a database with two known destinations and rows of several states.
func fixture(t *testing.T) (db *dbtest.DB, env []string) {
	t.Helper()
	db = dbtest.New(t)
	for _, sql := range []string{
		`select messaging_outbox_register('{orders,mails}')`,
		`select messaging_outbox_add(d, 'order.created', 'shop', '{"secret":"S3cr3t"}', ordering_key => 'S3cr3t' || n, headers => '{"x":"S3cr3t"}')
		   from unnest('{orders,mails,nobodys}'::text[]) as d, generate_series(1, 4) as n`,
		`update messaging_outbox set status = 'PARKED', last_outcome = 'REJECTED', last_failure_category = 'VALIDATION', last_failure_code = 'TOO_LARGE',
		   attempts = 1 where destination = 'orders' and ordering_key = 'S3cr3t1'`,
		`update messaging_outbox set status = 'AMBIGUOUS', next_attempt_at = now() + interval '1 hour', ambiguous_attempts = 2, first_ambiguous_at = now(), attempts = 2
		   where destination = 'orders' and ordering_key = 'S3cr3t2'`,
		`update messaging_outbox set status = 'PUBLISHED', published_at = now() where destination = 'orders' and ordering_key = 'S3cr3t3'`,
	} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	return db, []string{"RELAY_DATABASE_URL=" + db.URL()}
}

func TestUsageErrorsExitWith2(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{},
		{"outbox"},
		{"outbox", "lists"},
		{"outbox", "list", "x"},
		{"outbox", "list", "--status", "GONE"},
		{"outbox", "list", "--limit", "0"},
		{"outbox", "stats", "-o", "xml"},
		{"destinations"},
		{"destinations", "list", "--nope"},
		{"relay"},
	} {
		program.Run(t, nil, args...).Want(t, 2, "inboxctl: ", "--help' for usage.")
	}
}

func TestHelpIsComplete(t *testing.T) {
	t.Parallel()
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Short == "" || len(cmd.Long) < 60 {
			t.Errorf("%s has no help", cmd.CommandPath())
		}
		for _, c := range cmd.Commands() {
			walk(c)
		}
	}
	walk(newRoot())
	program.Run(t, nil, "--help").Want(t, 0, "Exit codes:", "RELAY_DATABASE_URL")
	program.Run(t, nil, "--version").Want(t, 0, "inboxctl version")
}

func TestWithoutDatabase(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"outbox", "stats"}, {"outbox", "list"}, {"destinations", "list"}, {"inbox", "stats"}, {"inbox", "prune"}} {
		program.Run(t, nil, args...).Want(t, 3, "RELAY_DATABASE_URL is not set")
		r := program.Run(t, []string{"RELAY_DATABASE_URL=postgres://u:S3cr3t@127.0.0.1:1/orders"}, args...)
		r.Want(t, 4, "connection refused")
		if strings.Contains(r.Both(), "S3cr3t") {
			t.Errorf("%q shows the password", args)
		}
	}
	empty := dbtest.New(t, dbtest.Empty())
	program.Run(t, []string{"RELAY_DATABASE_URL=" + empty.URL()}, "outbox", "stats").Want(t, 4, `run "relay migrate up"`)
}

func TestOutboxStats(t *testing.T) {
	t.Parallel()
	_, env := fixture(t)
	r := program.Run(t, env, "outbox", "stats")
	r.Want(t, 0, "DESTINATION", "AMBIGUOUS", "(unknown)")
	want := map[string]string{
		"orders": "1 0 0 0 1 1 1 0", "mails": "4 0 0 0 0 0 0 0", "(unknown)": "4 0 0 0 0 0 0 0",
	}
	for line := range strings.Lines(r.Stdout) {
		f := strings.Fields(line)
		if w, ok := want[f[0]]; ok && strings.Join(f[1:9], " ") != w {
			t.Errorf("%s, want %s", line, w)
		}
	}
	var out statsOutput
	if err := json.Unmarshal([]byte(program.Run(t, env, "outbox", "stats", "-o", "json").Stdout), &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Destinations) != 3 || out.AsOf.IsZero() || out.Destinations[2].Name != "orders" || out.Destinations[2].Counts["parked"] != 1 || out.Destinations[2].OldestAgeSeconds <= 0 {
		t.Errorf("%+v", out)
	}
}

func TestOutboxList(t *testing.T) {
	t.Parallel()
	db, env := fixture(t)
	list := func(args ...string) (rows []rowOutput) {
		t.Helper()
		r := program.Run(t, env, append([]string{"outbox", "list", "-o", "json"}, args...)...)
		r.Want(t, 0)
		if err := json.Unmarshal([]byte(r.Stdout), &rows); err != nil {
			t.Fatal(err)
		}
		return rows
	}
	for _, c := range []struct {
		args []string
		rows int
	}{
		{nil, 11},
		{[]string{"--status", "published"}, 1},
		{[]string{"--status", "PARKED,AMBIGUOUS"}, 2},
		{[]string{"--destination", "orders"}, 3},
		{[]string{"--destination", "nobodys", "--limit", "2"}, 2},
		{[]string{"--destination", "absent"}, 0},
	} {
		if got := list(c.args...); len(got) != c.rows {
			t.Errorf("%q: %d rows, want %d", c.args, len(got), c.rows)
		}
	}
	parked := list("--status", "PARKED")[0]
	var id string
	if err := db.QueryRow(t.Context(), `select message_id::text from messaging_outbox where status = 'PARKED'`).Scan(&id); err != nil {
		t.Fatal(err)
	}
	if parked.MessageID.String() != id || parked.Code != "TOO_LARGE" || parked.Category != "VALIDATION" || parked.LastOutcome != "REJECTED" || parked.Attempts != 1 {
		t.Errorf("%+v", parked)
	}
	r := program.Run(t, env, "outbox", "list")
	r.Want(t, 0, id, "TOO_LARGE", "MESSAGE ID")
	if strings.Contains(r.Both(), "S3cr3t") {
		t.Error("a key, header or payload is shown")
	}
}

func TestDestinationsList(t *testing.T) {
	t.Parallel()
	_, env := fixture(t)
	r := program.Run(t, env, "destinations", "list")
	r.Want(t, 0, "orders", "mails", "SERVED")
	if strings.Contains(r.Stdout, "unknown") || strings.Contains(r.Stdout, "nobodys") {
		t.Errorf("an unknown destination is listed: %s", r.Stdout)
	}
	for line := range strings.Lines(r.Stdout) {
		if f := strings.Fields(line); f[0] == "orders" && strings.Join(f[1:4], " ") != "no 2 1" {
			t.Errorf("%s", line)
		}
	}
	program.Run(t, env, "destinations", "list", "-o", "json").Want(t, 0, `"name": "mails"`)
}

func TestInboxStatsAndPrune(t *testing.T) {
	t.Parallel()
	db, env := fixture(t)
	_, err := db.Exec(t.Context(), `
		insert into messaging_inbox (consumer_name, message_id, message_type, payload_hash, expires_at)
		select c, messaging_uuidv7(), 'order.created', 'sha-256:00', now() + case when n <= 7 then interval '-1 second' else interval '1 day' end
		  from unnest('{projection,mailer}'::text[]) as c, generate_series(1, 10) as n`)
	if err != nil {
		t.Fatal(err)
	}
	stats := func() map[string]consumerOutput {
		t.Helper()
		r := program.Run(t, env, "inbox", "stats", "-o", "json")
		r.Want(t, 0)
		var all []consumerOutput
		if err := json.Unmarshal([]byte(r.Stdout), &all); err != nil {
			t.Fatal(err)
		}
		out := map[string]consumerOutput{}
		for _, c := range all {
			out[c.Consumer] = c
		}
		return out
	}
	if s := stats(); len(s) != 2 || s["mailer"].Messages != 10 || s["mailer"].Expired != 7 || s["mailer"].Oldest == nil {
		t.Errorf("%+v", s)
	}
	program.Run(t, env, "inbox", "prune", "--batch", "3", "-o", "json").Want(t, 0, `"removed": 14`)
	if s := stats(); s["mailer"].Messages != 3 || s["projection"].Expired != 0 {
		t.Errorf("%+v", s)
	}
	program.Run(t, env, "inbox", "prune").Want(t, 0, "REMOVED", "0")
	program.Run(t, env, "inbox", "stats").Want(t, 0, "CONSUMER", "projection")
}
