package main

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

// server is one container: how to start it, and which lines it adds once it answers.
type server struct {
	name  string
	image string
	// ports are the container's ports, each bound to a port of the loopback address.
	ports []string
	// options see the host's port of each container port, chosen before the start: Kafka has to know the address under
	// which clients reach it.
	options func(host map[string]int) []testcontainers.ContainerCustomizer
	// lines are the variables, by the same port map.
	lines func(host map[string]int) []string
}

const (
	password     = "relay"
	startTimeout = 3 * time.Minute
)

// servers lists what start knows, in the order of printing.
func servers() []server {
	return []server{postgres(16), postgres(17), postgres(18), kafka("kafka", "4.3.1", "KAFKA"), kafka("kafka42", "4.2.2", "KAFKA42"), rabbitmq("4.3-management")}
}

func names() []string {
	var all []string
	for _, s := range servers() {
		all = append(all, s.name)
	}
	return all
}

// choose picks servers by name; no name means all.
func choose(wanted []string) ([]server, error) {
	for _, w := range wanted {
		if !slices.Contains(names(), w) {
			return nil, fmt.Errorf("unknown server %q", w)
		}
	}
	if len(wanted) == 0 {
		return servers(), nil
	}
	return slices.DeleteFunc(servers(), func(s server) bool { return !slices.Contains(wanted, s.name) }), nil
}

func postgres(major int) server {
	const port = "5432/tcp"
	return server{
		name:  fmt.Sprintf("pg%d", major),
		image: fmt.Sprintf("postgres:%d", major),
		ports: []string{port},
		options: func(map[string]int) []testcontainers.ContainerCustomizer {
			return []testcontainers.ContainerCustomizer{
				testcontainers.WithEnv(map[string]string{"POSTGRES_PASSWORD": password}),
				testcontainers.WithCmd("postgres", "-c", "wal_level=logical", "-c", "max_connections=200", "-c", "fsync=off"),
				// the image starts the server twice: once to make the cluster, once to serve
				testcontainers.WithWaitStrategyAndDeadline(startTimeout,
					wait.ForLog("database system is ready to accept connections").WithOccurrence(2)),
			}
		},
		lines: func(host map[string]int) []string {
			return []string{line(fmt.Sprintf("PG_URL_%d", major),
				fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%d/postgres?sslmode=disable", password, host[port]))}
		},
	}
}

// kafka is one broker that is its own controller; prefix begins the names of its variables.
func kafka(name, version, prefix string) server {
	const port = "9092/tcp"
	return server{
		name:  name,
		image: "apache/kafka:" + version,
		ports: []string{port},
		options: func(host map[string]int) []testcontainers.ContainerCustomizer {
			return []testcontainers.ContainerCustomizer{
				testcontainers.WithEnv(map[string]string{
					"KAFKA_NODE_ID": "1", "KAFKA_PROCESS_ROLES": "broker,controller",
					"KAFKA_CONTROLLER_QUORUM_VOTERS": "1@localhost:9093", "KAFKA_CONTROLLER_LISTENER_NAMES": "CONTROLLER",
					"KAFKA_LISTENERS":                                        "PLAINTEXT://:9092,CONTROLLER://:9093",
					"KAFKA_ADVERTISED_LISTENERS":                             fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", host[port]),
					"KAFKA_LISTENER_SECURITY_PROTOCOL_MAP":                   "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
					"KAFKA_AUTO_CREATE_TOPICS_ENABLE":                        "false",
					"KAFKA_OFFSETS_TOPIC_REPLICATION_FACTOR":                 "1",
					"KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR":         "1",
					"KAFKA_TRANSACTION_STATE_LOG_MIN_ISR":                    "1",
					"KAFKA_SHARE_COORDINATOR_STATE_TOPIC_REPLICATION_FACTOR": "1",
					"KAFKA_SHARE_COORDINATOR_STATE_TOPIC_MIN_ISR":            "1",
				}),
				testcontainers.WithWaitStrategyAndDeadline(startTimeout, wait.ForLog("Kafka Server started")),
			}
		},
		lines: func(host map[string]int) []string {
			address := net.JoinHostPort("127.0.0.1", strconv.Itoa(host[port]))
			return []string{line(prefix+"_BOOTSTRAP", address), line(prefix+"_BOOTSTRAP_1", address)}
		},
	}
}

func rabbitmq(tag string) server {
	const amqp, api = "5672/tcp", "15672/tcp"
	return server{
		name:  "rabbitmq",
		image: "rabbitmq:" + tag,
		ports: []string{amqp, api},
		options: func(map[string]int) []testcontainers.ContainerCustomizer {
			return []testcontainers.ContainerCustomizer{
				testcontainers.WithEnv(map[string]string{"RABBITMQ_DEFAULT_USER": "relay", "RABBITMQ_DEFAULT_PASS": password}),
				testcontainers.WithWaitStrategyAndDeadline(startTimeout, wait.ForLog("Server startup complete")),
			}
		},
		lines: func(host map[string]int) []string {
			return []string{
				line("RABBITMQ_URL_1", fmt.Sprintf("amqp://relay:%s@127.0.0.1:%d/", password, host[amqp])),
				line("RABBITMQ_API_1", fmt.Sprintf("http://relay:%s@127.0.0.1:%d", password, host[api])),
			}
		},
	}
}

func line(name, value string) string { return fmt.Sprintf("%s='%s'", name, value) }
