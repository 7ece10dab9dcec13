package archtest

// room says what the packages below one directory may import from this module and from outside the standard library.
// Imports of packages of the same room are always allowed.
type room struct {
	// dir is the room's directory, relative to the module's root. The longest matching directory owns a package.
	dir string
	// may lists the rooms it may import, each by its directory.
	may []string
	// outside lists the module prefixes it may import directly from outside the standard library; nil = none.
	outside []string
	// anyOutside lifts the rule about outside modules. It is meant for edges and mains, never for the leaf.
	anyOutside bool
	// testsOnly rooms may be imported by test files and by other testsOnly rooms alone.
	testsOnly bool
}

const (
	uuid       = "github.com/google/uuid"
	pgx        = "github.com/jackc/pgx/v5"
	goose      = "github.com/pressly/goose/v3"
	prometheus = "github.com/prometheus/client_golang"
	chi        = "github.com/go-chi/chi/v5"
	franz      = "github.com/twmb/franz-go"
	amqp       = "github.com/rabbitmq/amqp091-go"
	jsonschema = "github.com/santhosh-tekuri/jsonschema/v6"
	xsync      = "golang.org/x/sync"
)

// rooms is the table. A new room needs a line here; that is the moment to think about its place.
var rooms = []room{
	// leaf: the vocabulary
	{dir: "messaging", outside: []string{uuid}},

	// ports, codecs, mappings: public, no SDK
	{dir: "messaging/transport", may: []string{"messaging"}, outside: []string{uuid}},
	{dir: "messaging/codec", may: []string{"messaging"}, outside: []string{uuid}},
	{dir: "messaging/codec/jsonschema", may: []string{"messaging", "messaging/codec"}, outside: []string{jsonschema}},
	{dir: "messaging/codec/avro", may: []string{"messaging"}, anyOutside: true},
	{dir: "messaging/codec/protobuf", may: []string{"messaging"}, anyOutside: true},
	{dir: "messaging/cloudevents", may: []string{"messaging"}, outside: []string{uuid}},
	{dir: "messaging/kafkahint", may: []string{"messaging"}},
	{dir: "messaging/rabbithint", may: []string{"messaging"}},
	{dir: "messaging/claimcheck", may: []string{"messaging"}, outside: []string{uuid}},
	{dir: "messaging/claimcheck/s3", may: []string{"messaging", "messaging/claimcheck"}, anyOutside: true},
	{dir: "messaging/messagingtest", may: []string{"messaging", "messaging/transport", "messaging/codec"}, outside: []string{uuid}},

	// the schema and the SQL text
	{dir: "migrations", outside: []string{goose, pgx}},
	{dir: "queries"},

	// steps: never each other
	{dir: "internal/outbox", may: []string{"messaging"}, outside: []string{uuid, pgx}},
	{dir: "internal/inbox", may: []string{"messaging"}, outside: []string{uuid, pgx}},
	{dir: "internal/publish", may: []string{"messaging", "messaging/transport", "messaging/codec", "messaging/claimcheck"}, outside: []string{uuid}},
	{dir: "internal/consume", may: []string{"messaging", "messaging/transport", "messaging/codec", "messaging/claimcheck"}, outside: []string{uuid}},
	{dir: "internal/claimcheck", may: []string{"messaging", "messaging/claimcheck"}, outside: []string{uuid}},
	{dir: "internal/schema", may: []string{"messaging", "messaging/codec", "messaging/codec/jsonschema"}},
	{dir: "internal/topology", may: []string{"messaging", "messaging/transport"}},
	{dir: "internal/adapters/kafka", may: []string{"messaging", "messaging/transport"}, outside: []string{uuid, franz, xsync}},
	{dir: "internal/adapters/rabbitmq", may: []string{"messaging", "messaging/transport"}, outside: []string{uuid, amqp, xsync}},
	{dir: "internal/config", may: []string{"messaging", "messaging/transport"}, anyOutside: true},
	{dir: "internal/observe", may: []string{"messaging", "messaging/transport"}, outside: []string{prometheus}},

	// which kind of broker has which adapter: shared by the relay and by the platform of services
	{
		dir: "internal/brokers",
		may: []string{"messaging", "messaging/transport", "internal/config", "internal/adapters/kafka", "internal/adapters/rabbitmq"},
	},

	// assemblies: join steps, know no broker library
	{
		dir:     "client",
		may:     []string{"messaging", "messaging/transport", "messaging/codec", "messaging/claimcheck", "internal/outbox", "internal/inbox", "internal/publish"},
		outside: []string{uuid, pgx},
	},
	{
		dir: "internal/relay",
		may: []string{
			"messaging", "messaging/transport", "internal/outbox", "internal/inbox", "internal/publish",
			"internal/claimcheck", "internal/config", "internal/observe",
		},
		outside: []string{uuid, pgx, xsync},
	},
	{
		dir: "internal/admin",
		may: []string{
			"messaging", "messaging/transport", "internal/outbox", "internal/inbox", "internal/publish", "internal/topology",
			"internal/config", "internal/observe", "internal/claimcheck",
		},
		outside: []string{uuid, pgx, xsync},
	},
	{
		dir: "messaging/platform",
		may: []string{
			"messaging", "messaging/transport", "messaging/codec", "messaging/codec/jsonschema", "messaging/claimcheck", "client", "internal/config",
			"internal/observe", "internal/publish", "internal/consume", "internal/topology", "internal/claimcheck",
			"internal/actuator", "internal/brokers",
		},
		outside: []string{uuid, pgx, xsync, prometheus},
	},

	// measuring joins what a relay is made of, with brokers of its own
	{
		dir: "internal/bench",
		may: []string{
			"messaging", "messaging/transport", "migrations", "internal/outbox", "internal/relay", "internal/adapters/kafka",
			"internal/adapters/rabbitmq",
		},
		anyOutside: true,
	},

	// faces, and what the two commands share
	{dir: "internal/cli", may: []string{"messaging", "migrations", "internal/config"}, anyOutside: true},
	{dir: "internal/actuator", may: []string{"messaging", "internal/observe"}, outside: []string{chi, prometheus}},
	{dir: "internal/console", may: []string{"messaging", "internal/admin"}, outside: []string{chi}},
	{
		dir: "cmd/relay",
		may: []string{
			"messaging", "messaging/transport", "messaging/codec", "messaging/claimcheck", "migrations", "internal/outbox",
			"internal/inbox", "internal/publish", "internal/brokers", "internal/adapters/kafka", "internal/adapters/rabbitmq", "internal/config",
			"internal/observe", "internal/relay", "internal/actuator", "internal/topology", "internal/admin", "internal/console",
			"internal/claimcheck", "internal/cli", "internal/bench", "internal/schema",
		},
		anyOutside: true,
	},
	{
		dir: "cmd/inboxctl",
		may: []string{
			"messaging", "migrations", "internal/outbox", "internal/inbox", "internal/config", "internal/admin",
			"internal/observe", "internal/cli",
		},
		anyOutside: true,
	},

	// rooms of tests, examples and checks
	{dir: "internal/archtest", testsOnly: true},
	{dir: "internal/testenv", testsOnly: true},
	{dir: "internal/dbtest", may: []string{"migrations", "internal/testenv"}, anyOutside: true, testsOnly: true},
	{dir: "internal/brokertest", may: []string{"messaging", "internal/testenv"}, anyOutside: true, testsOnly: true},
	{
		dir:        "internal/acceptance",
		may:        []string{"messaging", "messaging/transport", "messaging/codec", "messaging/platform", "client", "migrations", "internal/dbtest", "internal/brokertest", "internal/testenv"},
		anyOutside: true,
		testsOnly:  true,
	},
	{
		dir:        "internal/torture",
		may:        []string{"messaging", "messaging/transport", "internal/outbox", "internal/dbtest", "internal/brokertest", "internal/testenv"},
		anyOutside: true,
		testsOnly:  true,
	},
	{dir: "deploy", testsOnly: true, anyOutside: true},
	{dir: "docs/model", may: []string{"internal/testenv"}, testsOnly: true},
	// examples are services of users: public packages only, and whatever broker client they like
	{
		dir:        "examples",
		may:        []string{"messaging", "messaging/transport", "messaging/codec", "messaging/claimcheck", "messaging/platform", "client", "migrations"},
		anyOutside: true,
	},
}

// closed lists rooms whose whole dependency graph, not only the direct imports, is bounded: whoever imports such a package
// links these modules and no others.
var closed = []struct {
	dir     string
	modules []string
}{
	{dir: "messaging", modules: []string{uuid}},
	{dir: "messaging/transport", modules: []string{uuid}},
	{dir: "client", modules: []string{
		uuid, pgx,
		// what pgx itself stands on
		"github.com/jackc/pgpassfile", "github.com/jackc/pgservicefile", "github.com/jackc/puddle/v2", "golang.org/x/text", xsync,
	}},
}
