package acceptance

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/internal/testenv"
)

// The database's clock leaps while relays work, forward and back: leases look expired, or endless, and none is taken from a
// relay that lives.
func TestPostgres_ALeapOfTheClockRobsNobody(t *testing.T) {
	t.Parallel()
	onMajors(t, 18, func(t *testing.T, major int) {
		server, database := ownServer(t, brokertest.PostgresOptions{Major: major, OwnClock: true})
		w := newWorld(t, database, withKafka(true))
		w.patient()
		w.kafkaProxy.Delay(300*time.Millisecond, brokertest.ToClient) // so that there is always something on the wire
		capture := w.capture(kafkaDestination)
		epochs := w.watchEpochs()
		w.start()
		w.start()
		writing := w.keepWriting(kafkaDestination, 50)
		brokertest.Eventually(t, time.Minute, "the relays to trust the young server", func() bool {
			return w.number(`select count(*) from messaging_outbox_relay where clock_timestamp() - started > make_interval(secs => $1)`, int(patientLease.Seconds())+1) == 2
		})
		for _, off := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
			w.publishes(kafkaDestination, 30)
			server.SetClock(off)
			w.hasClock(off)
			w.publishes(kafkaDestination, 30)
		}
		all := writing()
		w.published(time.Minute, w.number(`select count(*) from messaging_outbox`))
		w.oneAttemptEach()
		w.arrived(capture, all)
		epochs()
	})
}

// A relay dies, and the clock is set back by ten minutes before anybody took its lanes: they are not its own for ten minutes
// more.
func TestPostgres_AClockSetBackKeepsNoDeadRelayAlive(t *testing.T) {
	t.Parallel()
	onMajors(t, 16, func(t *testing.T, major int) {
		server, database := ownServer(t, brokertest.PostgresOptions{Major: major, OwnClock: true})
		w := newWorld(t, database, withKafka(true))
		first := w.start()
		w.insert(kafkaDestination, 20, 10)
		w.published(30*time.Second, 20)
		w.kafkaProxy.Stall()
		w.insert(kafkaDestination, 50, 10)
		w.leased(t, 1)
		first.kill()
		server.SetClock(-10 * time.Minute)
		w.hasClock(-10 * time.Minute)
		w.kafkaProxy.Cut()
		w.kafkaProxy.Resume()
		w.start()
		w.published(2*time.Minute, 70) // which is less than ten
	})
}

// hasClock waits until every session of the server has its new time.
func (w *world) hasClock(off time.Duration) {
	w.t.Helper()
	brokertest.Eventually(w.t, 20*time.Second, "the server to have its new time", func() bool {
		var now time.Time
		err := w.db.QueryRow(w.t.Context(), `select clock_timestamp()`).Scan(&now)
		return err == nil && now.Sub(time.Now().Add(off)).Abs() < time.Minute
	})
}

// publishes waits until so many more rows of the destination have been published.
func (w *world) publishes(destination string, more int) {
	w.t.Helper()
	const sent = `select count(*) from messaging_outbox where destination = $1 and status = 'PUBLISHED'`
	before := w.number(sent, destination)
	brokertest.Eventually(w.t, time.Minute, "rows to flow", func() bool { return w.number(sent, destination) >= before+more })
}

// Ids come from the writers' clocks, and say nothing of order: rows of a key go out in the order of their commits.
func TestPostgres_IDsFromWrongClocksKeepTheirPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withKafka(false))
	w.patient()
	capture := w.capture(kafkaDestination)
	var ids []string
	year := 365 * 24 * time.Hour
	for i := range count(400, 80) {
		off := []time.Duration{0, 10 * time.Minute, -10 * time.Minute, year, -year}[i%5]
		ids = append(ids, w.enqueue(`select messaging_outbox_add($1, 'order.created', 'shop', '{}', ordering_key => $2, message_id => $3::uuid)::text`,
			kafkaDestination, fmt.Sprint("k", i%4), idAt(time.Now().Add(off)))...)
	}
	w.start()
	w.published(time.Minute, len(ids))
	w.oneAttemptEach()
	capture.WaitFor(t, 20*time.Second, ids...)
	once(t, capture, ids)
	inOrder(t, capture, ids)
}

// idAt is an id as a writer makes it at that moment.
func idAt(at time.Time) string {
	id := uuid.Must(uuid.NewV7())
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at.UnixMilli()))
	copy(id[:6], ms[2:])
	return id.String()
}

// Relays whose own clocks are ten minutes off in both directions share a table with one that is right: no lease is taken
// early or kept late, no row is sent twice, and a failing row is tried again after the pauses that it has.
func TestB73_RelaysWithWrongClocks(t *testing.T) {
	testenv.FullTier(t) // the program and all it stands on are built anew
	t.Parallel()
	program := withWallClock(t)
	w := newWorld(t, withKafka(true), withRabbit(true))
	w.set("relay", m{"lease": "12s", "backoff": m{"initial": "1s", "max": "10s", "jitter": "none"}})
	w.destinationFile(kafkaDestination)["producer"].(m)["timeout"] = "8s"
	w.rabbitByKey("rabbit.keyed")
	w.kafkaProxy.Delay(500*time.Millisecond, brokertest.ToClient)
	capture := w.capture(kafkaDestination)
	tries := w.watchPublishes("unbound")
	right := w.env
	for _, seconds := range []string{"600", "-600", "0"} {
		w.env = slices.Concat(right, []string{wallClockVariable + "=" + seconds})
		p := w.startProgram(program, w.write())
		p.address()
		w.hasWallClock(p, seconds)
	}
	ids := w.insert(kafkaDestination, 300, 30)
	bad := w.add("rabbit.keyed", message{partitionKey: "unbound"})
	for end := time.Now().Add(2 * time.Minute); w.sent(ids) < len(ids); <-time.After(50 * time.Millisecond) {
		if n := w.number(`select count(*) from messaging_outbox_lane where owner is not null
		  and (lease_until < clock_timestamp() or lease_until > clock_timestamp() + interval '12 seconds')`); n > 0 {
			t.Fatalf("%d leases have less than nothing left, or more than the whole", n)
		}
		if time.Now().After(end) {
			t.Fatalf("not sent in time: %s", w.statuses())
		}
	}
	w.parked(bad, "UNROUTABLE", maxAttempts)
	backedOff(t, tries()["{}"])
	capture.WaitFor(t, 20*time.Second, ids...)
	once(t, capture, ids)
	inOrder(t, capture, ids)
}

// wallClockVariable says by how many seconds the wall clock of a program is off that was built for it.
const wallClockVariable = "TEST_WALL_CLOCK"

// withWallClock builds the relay on a standard library whose time.Now is off by what the environment says, for the relay
// and everything in it. The monotonic part of each time stays true, as it does where a clock is set.
func withWallClock(t *testing.T) (program string) {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	changed := string(text)
	for _, edit := range [][2]string{
		{"func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n", "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n\tsec += wallOff\n"},
		{"func unixTime(", "var wallOff = func() int64 {\n\ts, _ := syscall.Getenv(\"" + wallClockVariable + "\")\n\tn, _ := atoi(s)\n\treturn int64(n)\n}()\n\nfunc unixTime("},
		{"import (\n", "import (\n\t\"syscall\"\n"},
	} {
		if strings.Count(changed, edit[0]) != 1 {
			t.Skipf("not proved here: time.Now of this Go is not as expected: %q", edit[0])
		}
		changed = strings.Replace(changed, edit[0], edit[1], 1)
	}
	dir := t.TempDir()
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {original: filepath.Join(dir, "time.go")}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"time.go": changed, "overlay.json": string(overlay)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	program = filepath.Join(dir, "relay")
	build := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", program, "../../cmd/relay")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build a relay with a clock of its own: %v\n%s", err, out)
	}
	return program
}

// hasWallClock fails unless the relay's log is dated by its own clock.
func (w *world) hasWallClock(p *process, seconds string) {
	w.t.Helper()
	off, err := time.ParseDuration(seconds + "s")
	if err != nil {
		w.t.Fatal(err)
	}
	var line struct{ Time time.Time }
	first, _, _ := strings.Cut(p.out.String(), "\n")
	if err := json.Unmarshal([]byte(first), &line); err != nil {
		w.t.Fatal(err)
	}
	if got := time.Until(line.Time); (got - off).Abs() > 2*time.Minute {
		w.t.Errorf("the relay's clock is off by %v, want %v: the test shows nothing", got, off)
	}
}
