package brokertest

import (
	"context"
	"fmt"
	"os"
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
