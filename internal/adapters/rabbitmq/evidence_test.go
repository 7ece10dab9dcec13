package rabbitmq

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/backend-skeleton/relay/internal/brokertest"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// bound makes a virtual host with an exchange that leads, under key k, into a
// quorum queue q.
func bound(t testing.TB) *brokertest.Vhost {
	t.Helper()
	v := brokertest.NewVhost(t)
	v.Exchange(t, "e", "direct")
	v.Queue(t, "q", nil)
	v.Bind(t, "e", "q", "k")
	return v
}

// through leads the configuration through a proxy.
func through(c Config, p *faultProxy) Config {
	c.Seeds = []string{p.addr()}
	return c
}

func TestEvidence_ConfirmedAtTheProvedLevel(t *testing.T) {
	t.Parallel()
	v := bound(t)
	v.Queue(t, "classic", map[string]any{"x-queue-type": "classic"})
	v.Bind(t, "e", "classic", "c")
	for key, level := range map[string]messaging.ConfirmationLevel{
		"k": messaging.LevelReplicationOrPersistenceAck, "c": messaging.LevelBrokerAck,
	} {
		a, p := open(t, configFor(t, v), to("e", key))
		caps, err := a.Capabilities(t.Context(), to("e", key))
		if err != nil {
			t.Fatal(err)
		}
		if got := caps.ReplicationOrPersistenceEvidence; got != (level == messaging.LevelReplicationOrPersistenceAck) {
			t.Errorf("key %s: capability %v", key, got)
		}
		r := publish(t, p, to("e", key), message("", "{}"))[0]
		want(t, r, messaging.Confirmed, "", messaging.Transmitted)
		if r.Evidence.Level != level || !r.Evidence.BrokerAccepted || r.Routing != messaging.RoutingRouted || r.Attempts != 1 {
			t.Errorf("key %s: %+v, routing %v", key, r.Evidence, r.Routing)
		}
		if r.Position == nil || r.Position.String() != "rabbitmq:e/"+key+"/1" {
			t.Errorf("position %v", r.Position)
		}
	}
}

func TestEvidence_WithoutTheManagementAPIAnAckIsABrokerAck(t *testing.T) {
	t.Parallel()
	v := bound(t)
	c := configFor(t, v)
	c.Management = Management{}
	a, p := open(t, c, to("e", "k"))
	caps, err := a.Capabilities(t.Context(), to("e", "k"))
	if err != nil || caps.ReplicationOrPersistenceEvidence || !caps.BrokerAcknowledgement {
		t.Errorf("capabilities %+v (%v)", caps, err)
	}
	r := publish(t, p, to("e", "k"), message("", "{}"))[0]
	want(t, r, messaging.Confirmed, "", messaging.Transmitted)
	if r.Evidence.Level != messaging.LevelBrokerAck || p.KeyPrefix(to("e", "k")) {
		t.Errorf("level %v, prefix %v without a proof", r.Evidence.Level, p.KeyPrefix(to("e", "k")))
	}
}

func TestEvidence_OnTheWire(t *testing.T) {
	t.Parallel()
	v := bound(t)
	got := brokertest.CaptureRabbit(t, v.URL(), "q")
	_, p := open(t, configFor(t, v), to("e", "k"))
	m := message("pk", `{"n":1}`)
	m.Header = append(m.Header, header("n", "9223372036854775807"), header("e", ""))
	wantConfirmed(t, publish(t, p, to("e", "k"), m)...)
	d := got.Wait(t, 1, patience)[0].Delivery
	if d.MessageId != m.ID.String() || d.Type != "order.created" || d.AppId != "orders" || d.ContentType != "application/json" ||
		d.DeliveryMode != amqp.Persistent || d.Timestamp.Unix() != m.PublishedAt.Unix() || string(d.Body) != `{"n":1}` {
		t.Errorf("properties on the wire: %q %q %q %q mode %d at %v", d.MessageId, d.Type, d.AppId, d.ContentType, d.DeliveryMode, d.Timestamp)
	}
	if len(d.Headers) != len(m.Header) {
		t.Errorf("%d headers on the wire, want %d", len(d.Headers), len(m.Header))
	}
	for _, h := range m.Header {
		if text, ok := d.Headers[h.Name].(string); !ok || text != string(h.Value) {
			t.Errorf("header %s arrived as %v", h.Name, d.Headers[h.Name])
		}
	}
}

func TestEvidence_NothingListens(t *testing.T) {
	t.Parallel()
	v := bound(t)
	p := newFaultProxy(t, v.Addr())
	p.refuseAll(true)
	_, pub := open(t, through(configFor(t, v), p), to("e", "k"))
	began := time.Now()
	r := publish(t, pub, to("e", "k"), message("", "{}"))[0]
	want(t, r, messaging.Rejected, messaging.CodeBrokerUnreachable, messaging.NotTransmitted)
	if took := time.Since(began); took > patience/2 {
		t.Errorf("a broker that is known to be away was waited for %v", took)
	}
	p.refuseAll(false)
	brokertest.Eventually(t, patience, "the broker is used again", func() bool {
		return publish(t, pub, to("e", "k"), message("", "{}"))[0].Completion == messaging.Confirmed
	})
}

// The socket stands still, the connection ends: what was never offered to it is
// known not to be sent, and the rest is ambiguous.
func TestEvidence_RequestNeverWritten(t *testing.T) {
	t.Parallel()
	v := bound(t)
	got := brokertest.CaptureRabbit(t, v.URL(), "q")
	proxy := newFaultProxy(t, v.Addr())
	c := through(configFor(t, v), proxy)
	c.Channels = 1
	_, p := open(t, c, to("e", "k"))
	wantConfirmed(t, publish(t, p, to("e", "k"), message("", "{}"))...)

	proxy.client(func(f amqpFrame) fate {
		if f.publishes() {
			return hold
		}
		return pass
	})
	big := strings.Repeat("x", 256<<10)
	ms := make([]transport.Message, 60) // far more than the socket's buffers hold
	for i := range ms {
		ms[i] = message("", big)
	}
	results := brief(t, p, 2*time.Second, to("e", "k"), ms...)
	proxy.cutAll()
	rs := results.wait(patience)
	n := tally(rs)
	if n["AMBIGUOUS CONNECTION_LOST"] == 0 || n["REJECTED BROKER_UNREACHABLE"] == 0 {
		t.Errorf("verdicts %v, want some lost and some never sent", n)
	}
	for _, r := range rs {
		if r.Completion == messaging.Rejected && r.Evidence.Transmission != messaging.NotTransmitted {
			t.Errorf("rejected as %v", r.Evidence.Transmission)
		}
	}
	proxy.client(nil)
	// The first of the batch was held by the proxy: none of it is on the broker, and all can go again.
	retry(t, p, to("e", "k"), ms...)
	got.WaitIDs(t, 1+len(ms), patience)
	if twice := got.Duplicates(); len(twice) > 0 {
		t.Errorf("%d messages arrived twice although nothing of them had been forwarded", len(twice))
	}
}

func TestEvidence_CutBeforeTheBrokerHasIt(t *testing.T) {
	t.Parallel()
	v := bound(t)
	got := brokertest.CaptureRabbit(t, v.URL(), "q")
	proxy := newFaultProxy(t, v.Addr())
	_, p := open(t, through(configFor(t, v), proxy), to("e", "k"))
	// At each place inside a message: before its method, its properties, its body.
	for _, kind := range []byte{1, 2, 3} {
		proxy.client(func(f amqpFrame) fate {
			if f.kind == kind && (kind != 1 || f.publishes()) {
				return cut
			}
			return pass
		})
		m := message("", "{}")
		r := publish(t, p, to("e", "k"), m)[0]
		want(t, r, messaging.Ambiguous, messaging.CodeConnectionLost, messaging.MayHaveBeenTransmitted)
		if r.Routing != messaging.RoutingUnknown {
			t.Errorf("routing %v", r.Routing)
		}
		proxy.client(nil)
		retry(t, p, to("e", "k"), m)
	}
	got.WaitIDs(t, 3, patience)
	if twice := got.Duplicates(); len(twice) > 0 {
		t.Errorf("%d messages were stored before the cut", len(twice))
	}
}

// B13: the connection is cut just before the confirm; every attempt ends at once,
// and the next one under the same id is confirmed.
func TestEvidence_B13_StoredAndTheAnswerLost(t *testing.T) {
	t.Parallel()
	v := bound(t)
	got := brokertest.CaptureRabbit(t, v.URL(), "q")
	proxy := newFaultProxy(t, v.Addr())
	_, p := open(t, through(configFor(t, v), proxy), to("e", "k"))
	ms := messages(20, noKey)
	for range 5 {
		proxy.server(func(f amqpFrame) fate {
			if f.acks() {
				return cut
			}
			return pass
		})
		const limit = time.Second
		began := time.Now()
		for _, r := range brief(t, p, limit, to("e", "k"), ms...).wait(patience) {
			if r.Completion == messaging.Confirmed {
				t.Error("confirmed although no confirm came through")
			}
			if r.Completion == messaging.Ambiguous {
				want(t, r, messaging.Ambiguous, messaging.CodeConnectionLost, messaging.MayHaveBeenTransmitted)
			}
		}
		if took := time.Since(began); took > limit+2*time.Second {
			t.Errorf("the attempt took %v", took)
		}
		proxy.server(nil)
	}
	retry(t, p, to("e", "k"), ms...)
	got.WaitIDs(t, len(ms), patience)
	if len(got.Duplicates()) == 0 {
		t.Error("nothing was stored when its answer was lost: the fault did not happen")
	}
}

// The broker takes the message and never answers: no verdict before the
// endpoint's patience is over, then ambiguous, and the edge works on.
func TestEvidence_BrokerMute(t *testing.T) {
	t.Parallel()
	v := bound(t)
	proxy := newFaultProxy(t, v.Addr())
	_, p := open(t, through(configFor(t, v), proxy), to("e", "k"))
	wantConfirmed(t, publish(t, p, to("e", "k"), message("", "{}"), message("", "{}"))...) // both channels are open
	proxy.server(func(f amqpFrame) fate {
		if f.acks() {
			return swallow
		}
		return pass
	})
	const abandon = 1500 * time.Millisecond
	e := to("e", "k", "abandon-after", abandon)
	began := time.Now()
	results := brief(t, p, 300*time.Millisecond, e, message("", "{}"))
	if results.missing() != 1 {
		t.Error("a verdict came although nothing answered and patience is not over")
	}
	r := results.wait(patience)[0]
	want(t, r, messaging.Ambiguous, messaging.CodeConfirmTimeout, messaging.MayHaveBeenTransmitted)
	if took := time.Since(began); took < abandon || took > abandon+8*time.Second {
		t.Errorf("given up after %v, want %v", took, abandon)
	}
	if r.Elapsed < abandon {
		t.Errorf("elapsed %v", r.Elapsed)
	}
	proxy.server(nil)
	wantConfirmed(t, publish(t, p, e, message("", "{}"))...)
	if dials := proxy.dials.Load(); dials != 1 {
		t.Errorf("%d connections: one message without an answer must not cost the others theirs", dials)
	}
}

// An answer after the caller's time is still told, exactly once.
func TestEvidence_LateAnswer(t *testing.T) {
	t.Parallel()
	v := bound(t)
	proxy := newFaultProxy(t, v.Addr())
	_, p := open(t, through(configFor(t, v), proxy), to("e", "k"))
	wantConfirmed(t, publish(t, p, to("e", "k"), message("", "{}"), message("", "{}"))...) // both channels are open
	release := make(chan struct{})
	proxy.server(func(f amqpFrame) fate {
		if f.acks() {
			<-release
		}
		return pass
	})
	ctx, cancel := context.WithCancel(t.Context())
	results := newVerdicts(t, 1)
	p.Publish(ctx, to("e", "k"), []transport.Message{message("", "{}")}, results.done)
	cancel()
	if results.missing() != 1 {
		t.Error("a verdict came before the answer")
	}
	close(release)
	r := results.wait(patience)[0]
	want(t, r, messaging.Confirmed, "", messaging.Transmitted)
}

// B15: a nack is told apart from a lost connection, and the next try goes through
// once there is room.
func TestEvidence_B15_Nack(t *testing.T) {
	t.Parallel()
	v := brokertest.NewVhost(t)
	v.Exchange(t, "e", "fanout")
	v.Queue(t, "q", map[string]any{"x-queue-type": "classic", "x-max-length": 1, "x-overflow": "reject-publish"})
	v.Bind(t, "e", "q", "")
	_, p := open(t, configFor(t, v), to("e", ""))
	ms := messages(3, noKey)
	var got []messaging.PublishResult
	for _, m := range ms {
		got = append(got, publish(t, p, to("e", ""), m)...)
	}
	wantConfirmed(t, got[0])
	for _, r := range got[1:] {
		want(t, r, messaging.Rejected, messaging.CodeNacked, messaging.Transmitted)
		if r.Failure.Category != messaging.CategoryTransientInfrastructure {
			t.Errorf("category %v", r.Failure.Category)
		}
	}
	capture := brokertest.CaptureRabbit(t, v.URL(), "q")
	capture.Wait(t, 1, patience)
	for _, m := range ms[1:] {
		brokertest.Eventually(t, patience, "the queue takes one more", func() bool {
			return publish(t, p, to("e", ""), m)[0].Completion == messaging.Confirmed
		})
	}
	capture.WaitIDs(t, 3, patience)
	if capture.Len() != 3 {
		t.Errorf("%d deliveries of 3 messages", capture.Len())
	}
}

func TestEvidence_Unroutable(t *testing.T) {
	t.Parallel()
	v := bound(t)
	a, p := open(t, configFor(t, v))
	r := publish(t, p, to("e", "nobody"), message("", "{}"))[0]
	want(t, r, messaging.Rejected, messaging.CodeUnroutable, messaging.Transmitted)
	if r.Routing != messaging.RoutingUnroutable || r.Failure.Category != messaging.CategoryTransientInfrastructure {
		t.Errorf("routing %v, category %v", r.Routing, r.Failure.Category)
	}
	// Where it is not asked for, the broker drops it and acknowledges: neither routing
	// nor persistence is claimed, whatever queue is bound.
	for _, key := range []string{"nobody", "k"} {
		e := to("e", key, "mandatory-routing", false)
		caps, err := a.Capabilities(t.Context(), e)
		if err != nil || caps.ReplicationOrPersistenceEvidence {
			t.Errorf("key %s: capabilities %+v (%v)", key, caps, err)
		}
		r = publish(t, p, e, message("", "{}"))[0]
		want(t, r, messaging.Confirmed, "", messaging.Transmitted)
		if r.Routing != messaging.RoutingUnknown || r.Evidence.Level != messaging.LevelBrokerAck {
			t.Errorf("key %s: %v, %v is claimed for a message that was not mandatory", key, r.Routing, r.Evidence.Level)
		}
	}
}

// B14: returns and acks of a mixed stream meet the right messages.
func TestEvidence_B14_AlternatingBoundAndUnbound(t *testing.T) {
	t.Parallel()
	v := bound(t)
	got := brokertest.CaptureRabbit(t, v.URL(), "q")
	_, p := open(t, configFor(t, v))
	ms := messages(1000, func(i int) string { return []string{"k", "nobody"}[i%2] })
	const callers = 20
	parts := make([]*verdicts, callers)
	each := len(ms) / callers
	for c := range callers {
		parts[c] = newVerdicts(t, each)
		go p.Publish(t.Context(), byPartitionKey("e"), ms[c*each:(c+1)*each], parts[c].done)
	}
	for c, part := range parts {
		for i, r := range part.wait(patience) {
			switch at := c*each + i; {
			case at%2 == 0 && r.Completion != messaging.Confirmed:
				// The second of two unbound messages with one key in one call may be held back,
				// a bound one never.
				t.Errorf("message %d is bound: %v %v", at, r.Completion, r.Failure)
			case at%2 == 1 && (r.Completion != messaging.Rejected ||
				r.Failure.Code != messaging.CodeUnroutable && r.Failure.Code != messaging.CodePredecessorNotStored):
				t.Errorf("message %d is not bound: %v %v", at, r.Completion, r.Failure)
			}
		}
	}
	got.WaitIDs(t, 500, patience)
	for i, m := range ms {
		if n := got.IDs()[m.ID.String()]; n != 1-i%2 {
			t.Errorf("message %d was delivered %d times", i, n)
		}
	}
}

func TestEvidence_UnknownExchange(t *testing.T) {
	t.Parallel()
	v := bound(t)
	a, p := open(t, configFor(t, v))
	e := to("later", "k")
	for _, r := range publish(t, p, e, messages(5, noKey)...) {
		want(t, r, messaging.Rejected, messaging.CodeUnknownExchange, messaging.NotTransmitted)
		if r.Failure.Category != messaging.CategoryConfiguration {
			t.Errorf("category %v", r.Failure.Category)
		}
	}
	drifts, err := a.Inspect(t.Context(), []transport.Endpoint{e})
	if err != nil || len(drifts) != 1 || drifts[0] != (transport.Drift{Destination: "orders", Field: "exchange", Want: "present", Have: "absent"}) {
		t.Errorf("inspect: %v (%v)", drifts, err)
	}
	// Another endpoint on the same connection does not notice.
	wantConfirmed(t, publish(t, p, to("e", "k"), message("", "{}"))...)
	v.Exchange(t, "later", "direct")
	v.Bind(t, "later", "q", "k")
	brokertest.Eventually(t, patience, "the exchange is found without a restart", func() bool {
		return publish(t, p, e, message("", "{}"))[0].Completion == messaging.Confirmed
	})
}

// The exchange goes away in mid-flow. Nobody can tell which publish met its
// absence first, so what is open is ambiguous; what comes after is refused before
// it is written.
func TestEvidence_ChannelExceptionWithOthersInFlight(t *testing.T) {
	t.Parallel()
	v := bound(t)
	got := brokertest.CaptureRabbit(t, v.URL(), "q")
	proxy := newFaultProxy(t, v.Addr())
	c := through(configFor(t, v), proxy)
	c.Channels = 1
	_, p := open(t, c, to("e", "k"))
	wantConfirmed(t, publish(t, p, to("e", "k"), message("", "{}"))...)

	// Acks stay away, so that ten messages are open when the exchange goes.
	release := make(chan struct{})
	proxy.server(func(f amqpFrame) fate {
		if f.acks() {
			<-release
			return swallow
		}
		return pass
	})
	early, late := messages(5, noKey), messages(5, noKey)
	first := brief(t, p, patience, to("e", "k"), early...)
	got.WaitIDs(t, 6, patience) // stored, not answered
	deleteExchange(t, v, "e")
	second := brief(t, p, patience, to("e", "k"), late...)
	close(release)
	for _, part := range []*verdicts{first, second} {
		for _, r := range part.wait(patience) {
			want(t, r, messaging.Ambiguous, messaging.CodeChannelClosed, messaging.MayHaveBeenTransmitted)
		}
	}
	r := publish(t, p, to("e", "k"), late[0])[0]
	want(t, r, messaging.Rejected, messaging.CodeUnknownExchange, messaging.NotTransmitted)
	if dials := proxy.dials.Load(); dials != 1 {
		t.Errorf("%d connections for a channel exception", dials)
	}
}

// One message alone is open: the exception can only mean it.
func TestEvidence_ChannelExceptionOfTheOnlyOpenMessage(t *testing.T) {
	t.Parallel()
	v := bound(t)
	c := configFor(t, v)
	c.Channels = 1
	_, p := open(t, c, to("e", "k"))
	wantConfirmed(t, publish(t, p, to("e", "k"), message("", "{}"))...)
	deleteExchange(t, v, "e")
	r := publish(t, p, to("e", "k"), message("", "{}"))[0]
	want(t, r, messaging.Rejected, messaging.CodeUnknownExchange, messaging.Transmitted)
}

// A message over the broker's own limit closes the channel of all that are open
// with it. When they come again each goes alone: the culprit is named, the others
// are confirmed.
func TestEvidence_TheCulpritIsFoundAtTheSecondTry(t *testing.T) {
	t.Parallel()
	v := bound(t)
	proxy := newFaultProxy(t, v.Addr())
	c := through(configFor(t, v), proxy)
	c.Channels = 1
	c.MaxMessageBytes = 64 << 20
	_, p := open(t, c, to("e", "k"))
	wantConfirmed(t, publish(t, p, to("e", "k"), message("", "{}"))...)
	var holding atomic.Bool
	holding.Store(true)
	proxy.server(func(f amqpFrame) fate {
		if f.acks() && holding.Load() {
			return swallow
		}
		return pass
	})
	ms := messages(4, noKey)
	ms[2] = message("", strings.Repeat("x", 17<<20))
	rs := publish(t, p, to("e", "k"), ms...)
	for _, r := range rs[:3] {
		want(t, r, messaging.Ambiguous, messaging.CodeChannelClosed, messaging.MayHaveBeenTransmitted)
	}
	holding.Store(false)
	rs = publish(t, p, to("e", "k"), ms...)
	wantConfirmed(t, rs[0], rs[1], rs[3])
	want(t, rs[2], messaging.Rejected, messaging.CodeTooLarge, messaging.Transmitted)
	if rs[2].Failure.Category != messaging.CategoryValidation || !strings.Contains(rs[2].Failure.Message, "17825792") {
		t.Errorf("failure %v", rs[2].Failure)
	}
}

func TestEvidence_NoWriteRight(t *testing.T) {
	t.Parallel()
	v := bound(t)
	user, password := v.User(t, "", "^$", ".*") // may see the exchange, so that the publish itself is refused
	c := configFor(t, v)
	c.Credentials = Credentials{Username: user, Password: secret(password)}
	c.Channels = 1 // all messages follow each other on one channel
	proxy := newFaultProxy(t, v.Addr())
	_, p := open(t, through(c, proxy), to("e", "k"))
	for _, r := range publish(t, p, to("e", "k"), messages(20, noKey)...) {
		if r.Completion != messaging.Rejected || r.Failure.Code != messaging.CodeNotAuthorized || r.Failure.Category != messaging.CategoryAuthorization {
			t.Errorf("%v %v, want NOT_AUTHORIZED and no doubt about anybody", r.Completion, r.Failure)
		}
	}
	v.Call(t, "PUT", "permissions/"+v.Name+"/"+user, map[string]any{"configure": "", "write": ".*", "read": ""})
	brokertest.Eventually(t, patience, "rows are sent without a restart", func() bool {
		return publish(t, p, to("e", "k"), message("", "{}"))[0].Completion == messaging.Confirmed
	})
	if dials := proxy.dials.Load(); dials != 1 {
		t.Errorf("%d connections for a missing right", dials)
	}
}

// B18, B19: what the protocol cannot carry is refused alone; connection, channel
// and the others are not touched.
func TestEvidence_B18_B19_LimitsRefuseOneMessageAlone(t *testing.T) {
	t.Parallel()
	v := bound(t)
	got := brokertest.CaptureRabbit(t, v.URL(), "q")
	proxy := newFaultProxy(t, v.Addr())
	v.Bind(t, "e", "q", strings.Repeat("a", 255))
	_, p := open(t, through(configFor(t, v), proxy))
	wide := message("k", "{}")
	wide.Header = append(wide.Header, header("wide", strings.Repeat("w", 200<<10)))
	wide.Key, wide.NullKey = nil, true
	ms := []transport.Message{
		message(strings.Repeat("a", 255), "{}"), message(strings.Repeat("a", 256), "{}"),
		message(strings.Repeat("é", 128), "{}"), wide, message("k", "{}"),
	}
	rs := publish(t, p, byPartitionKey("e"), ms...)
	wantConfirmed(t, rs[0], rs[4])
	want(t, rs[1], messaging.Rejected, messaging.CodeRoutingKeyTooLong, messaging.NotTransmitted)
	want(t, rs[2], messaging.Rejected, messaging.CodeRoutingKeyTooLong, messaging.NotTransmitted)
	want(t, rs[3], messaging.Rejected, messaging.CodeHeaderRejected, messaging.NotTransmitted)
	got.WaitFor(t, patience, ms[0].ID.String(), ms[4].ID.String())
	if dials := proxy.dials.Load(); dials != 1 {
		t.Errorf("%d connections", dials)
	}
}

func deleteExchange(t testing.TB, v *brokertest.Vhost, name string) {
	t.Helper()
	v.Call(t, "DELETE", "exchanges/"+v.Name+"/"+name, nil)
}
