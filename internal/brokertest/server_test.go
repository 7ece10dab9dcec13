package brokertest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestOwnKafka(t *testing.T) {
	t.Parallel()
	server := StartKafka(t, KafkaOptions{Conf: []string{"message.max.bytes=2000"}})
	bootstrap := server.Env("KAFKA_BOOTSTRAP")
	topic := Topic(t, bootstrap)
	c := CaptureKafka(t, bootstrap, topic)
	client := producer(t, bootstrap, topic)
	produce(t, client, 0, 1)
	var limit string
	configs, err := Admin(t, bootstrap).DescribeBrokerConfigs(t.Context(), 1)
	if err != nil || len(configs) != 1 {
		t.Fatalf("describe the broker: %v", err)
	}
	for _, config := range configs[0].Configs {
		if config.Key == "message.max.bytes" {
			limit = config.MaybeValue()
		}
	}
	if limit != "2000" {
		t.Errorf("message.max.bytes is %s, want 2000", limit)
	}
	server.Kill(1)
	if err := ping(t, bootstrap); err == nil {
		t.Error("a killed broker answers")
	}
	server.StartNode(1)
	produce(t, client, 2, 3)
	server.Pause(1)
	if err := ping(t, bootstrap); err == nil {
		t.Error("a paused broker answers")
	}
	server.Resume(1)
	c.WaitFor(t, 20*time.Second, "id-0", "id-2")
}

func ping(t *testing.T, bootstrap string) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	return producer(t, bootstrap, "").Ping(ctx)
}

func TestOwnRabbitMQ(t *testing.T) {
	t.Parallel()
	server := StartRabbitMQ(t, RabbitOptions{})
	vhost := NewVhostOn(t, server.Env("RABBITMQ_URL_1"), server.Env("RABBITMQ_API_1"))
	vhost.Queue(t, "orders", nil)
	c := CaptureRabbit(t, vhost.URL(), "orders")
	_, ch := rabbit(t, vhost.URL())
	confirmed(t, send(t, ch, "", "orders", 1))
	server.Kill(1)
	server.StartNode(1)
	_, ch = rabbit(t, vhost.URL())
	if !confirmed(t, send(t, ch, "", "orders", 2)) {
		t.Error("not confirmed after the restart")
	}
	c.WaitFor(t, time.Minute, "id-1", "id-2")
}

func TestOwnPostgres(t *testing.T) {
	t.Parallel()
	server := StartPostgres(t, PostgresOptions{Major: 18, Conf: []string{"work_mem=5MB"}})
	query := func() (memory string, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, server.Env("PG_URL_18"))
		if err != nil {
			return "", err
		}
		defer func() { _ = conn.Close(ctx) }()
		return memory, conn.QueryRow(ctx, "show work_mem").Scan(&memory)
	}
	if memory, err := query(); err != nil || memory != "5MB" {
		t.Fatalf("work_mem %q, %v", memory, err)
	}
	server.Kill(1)
	if _, err := query(); err == nil {
		t.Error("a killed server answers")
	}
	server.StartNode(1)
	server.Pause(1)
	if _, err := query(); err == nil {
		t.Error("a paused server answers")
	}
	server.Resume(1)
	if _, err := query(); err != nil {
		t.Errorf("after resume: %v", err)
	}
}

// ask a server one thing, by a session of its own.
func ask(t *testing.T, url, sql string) (answer string, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close(ctx) }()
	err = conn.QueryRow(ctx, sql).Scan(&answer)
	return answer, err
}

func TestOwnPostgresWithAStandby(t *testing.T) {
	t.Parallel()
	server := StartPostgres(t, PostgresOptions{Major: 16, Standby: true})
	standby := server.Env("PG_STANDBY_URL_16")
	if got, err := ask(t, standby, `select pg_is_in_recovery()::text`); err != nil || got != "true" {
		t.Fatalf("in recovery: %s, %v", got, err)
	}
	server.Kill(1)
	if got, err := ask(t, standby, `select pg_promote()::text`); err != nil || got != "true" {
		t.Fatalf("promoted: %s, %v", got, err)
	}
	server.Pause(2)
	server.Resume(2)
	if _, err := ask(t, standby, `select pg_is_in_recovery()::text`); err != nil {
		t.Errorf("after the pause: %v", err)
	}
	server.Kill(2)
	server.StartNode(2)
	if got, err := ask(t, standby, `select pg_is_in_recovery()::text`); err != nil || got != "false" {
		t.Errorf("in recovery after the promotion: %s, %v", got, err)
	}
}

func TestOwnPostgresWithClockAndDisk(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("not proved here: a disk of its own needs root")
	}
	server := StartPostgres(t, PostgresOptions{Major: 18, OwnClock: true, Disk: 120})
	url := server.Env("PG_URL_18")
	for _, off := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		server.SetClock(off)
		Eventually(t, 10*time.Second, "the server to have the new time", func() bool {
			now, err := ask(t, url, `select extract(epoch from clock_timestamp())::bigint::text`)
			if err != nil {
				t.Fatal(err)
			}
			var seconds int64
			if _, err := fmt.Sscan(now, &seconds); err != nil {
				t.Fatal(err)
			}
			return time.Unix(seconds, 0).Sub(time.Now().Add(off)).Abs() < time.Minute
		})
	}
	server.Fill()
	create := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(ctx) }()
		_, err = conn.Exec(ctx, `create table filler as select repeat('x', 1000) as x from generate_series(1, 2000)`)
		return err
	}
	if err := create(); err == nil || !strings.Contains(err.Error(), "53100") {
		t.Errorf("on a full disk: %v", err)
	}
	server.Free()
	if err := create(); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

func TestOwnerTellsProcessesApart(t *testing.T) {
	t.Parallel()
	self := owner(os.Getpid())
	if self == "" || self != owner(os.Getpid()) {
		t.Errorf("owner of this process is %q, then %q", self, owner(os.Getpid()))
	}
	if self == owner(os.Getppid()) {
		t.Error("this process and its parent are the same owner")
	}
	if got := owner(1 << 30); got != "" {
		t.Errorf("a process that is not there has owner %q", got)
	}
	if want := fmt.Sprintf("%d.", os.Getpid()); len(self) <= len(want) || self[:len(want)] != want {
		t.Errorf("owner %q does not begin with %q", self, want)
	}
}
