package publishing_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/backend-skeleton/relay/examples/publishing"
	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/codec/golden"
	"github.com/backend-skeleton/relay/messaging/platform"
	"github.com/backend-skeleton/relay/messaging/transport"
)

// memory is all that an adapter for publishing needs: the service's tests run its own relay.yaml over it.
type memory struct {
	mu      sync.Mutex
	sent    []transport.Message
	verdict messaging.PublishResult
}

func newMemory() *memory {
	return &memory{verdict: messaging.PublishResult{
		Completion: messaging.Confirmed, Routing: messaging.RoutingNotApplicable, Attempts: 1,
		Evidence: messaging.Evidence{Transmission: messaging.Transmitted, BrokerAccepted: true, Level: messaging.LevelBrokerAck},
	}}
}

func (m *memory) Capabilities(context.Context, transport.Endpoint) (messaging.Capabilities, error) {
	return messaging.Capabilities{BrokerAcknowledgement: true, KeyedOrdering: true}, nil
}

func (m *memory) Publisher(context.Context, []transport.Endpoint) (transport.Publisher, error) {
	return m, nil
}

func (m *memory) Publish(_ context.Context, _ transport.Endpoint, ms []transport.Message, done func(int, messaging.PublishResult)) {
	m.mu.Lock()
	m.sent = append(m.sent, ms...)
	verdict := m.verdict
	m.mu.Unlock()
	for i := range ms {
		done(i, verdict)
	}
}

func (m *memory) Subscribe(context.Context, transport.Subscription, transport.Sink) (transport.Consumer, error) {
	return nil, messaging.ErrCapabilityUnavailable
}

func (m *memory) Inspect(context.Context, []transport.Endpoint) ([]transport.Drift, error) {
	return nil, nil
}

func (m *memory) Close(context.Context) error { return nil }

func open(t *testing.T) (*publishing.Service, *memory) {
	t.Helper()
	m := newMemory()
	p, err := platform.Open(t.Context(), platform.Options{
		File: "relay.yaml", Env: []string{}, Producer: "shop",
		Adapters: map[string]platform.NewAdapter{"kafka": func(context.Context, map[string]any) (transport.Adapter, error) { return m, nil }},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	s, err := publishing.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return s, m
}

func TestPlaceTellsWhatIsKnown(t *testing.T) {
	t.Parallel()
	failed := func(c messaging.Completion, category messaging.Category, code string) messaging.PublishResult {
		return messaging.PublishResult{Completion: c, Failure: messaging.NewFailure(category, code, "a test says so")}
	}
	for name, c := range map[string]struct {
		body    string
		verdict messaging.PublishResult
		status  int
	}{
		"stored":         {`{"orderId":"o-1","cents":1}`, newMemory().verdict, http.StatusAccepted},
		"no order":       {`{`, newMemory().verdict, http.StatusBadRequest},
		"schema broken":  {`{"orderId":"o-1","cents":0}`, newMemory().verdict, http.StatusBadRequest},
		"refused":        {`{"orderId":"o-1","cents":1}`, failed(messaging.Rejected, messaging.CategoryConfiguration, messaging.CodeUnknownTopic), http.StatusServiceUnavailable},
		"perhaps stored": {`{"orderId":"o-1","cents":1}`, failed(messaging.Ambiguous, messaging.CategoryAmbiguous, messaging.CodeConnectionLost), http.StatusGatewayTimeout},
	} {
		s, m := open(t)
		m.verdict = c.verdict
		w := httptest.NewRecorder()
		s.Place(w, httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(c.body)))
		if w.Code != c.status {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	// Asking again sends the same message.
	s, m := open(t)
	id := messaging.NewMessageID()
	r := httptest.NewRequest(http.MethodPost, "/orders", strings.NewReader(`{"orderId":"o-1","cents":1}`))
	r.Header.Set("Message-Id", id.String())
	if s.Place(httptest.NewRecorder(), r); len(m.sent) != 1 || m.sent[0].ID != id {
		t.Error("another id was sent")
	}
}

func TestImportStopsAtTheFirstThatIsNotStored(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	if n, err := s.Import(t.Context(), strings.NewReader("{\"orderId\":\"a\",\"cents\":1}\n{\"orderId\":\"b\",\"cents\":2}\n")); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := s.Import(t.Context(), strings.NewReader("{\"orderId\":\"a\",\"cents\":1}\n{\"orderId\":\"b\",\"cents\":0}\n")); n != 1 || err == nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := s.Import(t.Context(), strings.NewReader("{\"orderId\":\"a\",\"cents\":1}\nno order\n")); n != 1 || err == nil {
		t.Errorf("%d, %v", n, err)
	}
}

func TestPlaceAllTellsWhatIsMissing(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	rejected, ambiguous := s.PlaceAll(t.Context(), []publishing.OrderPlaced{{OrderID: "a", Cents: 1}, {OrderID: "b"}, {OrderID: "c", Cents: 3}})
	if len(rejected) != 1 || rejected[0].Payload.OrderID != "b" || len(ambiguous) != 0 {
		t.Errorf("rejected %+v, ambiguous %+v", rejected, ambiguous)
	}
}

// The golden messages of the catalogue hold for the Go type too.
func TestGoldenMessages(t *testing.T) {
	t.Parallel()
	p, err := platform.Open(t.Context(), platform.Options{File: "relay.yaml", Env: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	versions, err := golden.Read(os.DirFS("schemas"), "order.placed")
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range golden.Decode(t.Context(), p.Codecs()[0], publishing.Orders, versions) {
		t.Error(problem)
	}
}
