package platform_test

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/platform"
)

// A refusal is counted and logged with how far it got, and nothing of the message.
func TestVerdictsAreCountedAndLogged(t *testing.T) {
	t.Parallel()
	var log lockedBuffer
	p := open(t, newDesk(), local, func(o *platform.Options) { o.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	publisher, err := platform.NewPublisher(p, created)
	if err != nil {
		t.Fatal(err)
	}
	bad := created.New(order{ID: "s3cret"})
	bad.Tenant = "s3cret"
	if _, err := publisher.Publish(t.Context(), bad, nil); !errors.Is(err, messaging.ErrPublishRejected) {
		t.Fatal(err)
	}
	if text := log.String(); !strings.Contains(text, "level=WARN") || !strings.Contains(text, "code=TENANT_NOT_ALLOWED") || !strings.Contains(text, "stage=CREATED") || strings.Contains(text, "s3cret") {
		t.Errorf("log: %s", text)
	}
	rec := httptest.NewRecorder()
	p.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`messaging_publish_messages_total{destination="order-events",outcome="REJECTED"} 1`,
		`messaging_publish_attempts_total{broker="main",destination="order-events",outcome="REJECTED"} 0`,
	} {
		if !strings.Contains(rec.Body.String(), want) {
			t.Errorf("no %s", want)
		}
	}
}

type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestPages(t *testing.T) {
	t.Parallel()
	p := open(t, newDesk(), local)
	publisher, err := platform.NewPublisher(p, created)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := publisher.Publish(t.Context(), created.New(order{}), nil); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/healthz": `"UP"`, "/readyz": `"ready": true`, "/info": `"name": "orders"`, "/actuator/messaging": `"state": "CREATED"`,
		"/metrics": `messaging_publish_attempts_total{broker="main",destination="order-events",outcome="CONFIRMED"} 1`,
	} {
		rec := httptest.NewRecorder()
		p.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
		if rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), want) {
			t.Errorf("%s: %d, no %s in %s", path, rec.Code, want, rec.Body)
		}
		rec = httptest.NewRecorder()
		p.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodPost, path, nil))
		if rec.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", path, rec.Code)
		}
	}
}

type listener struct {
	mu     sync.Mutex
	events []platform.PublishEvent
	audits []platform.AuditEvent
}

func (l *listener) ObservePublish(e platform.PublishEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
}

func (l *listener) ObserveAudit(e platform.AuditEvent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.audits = append(l.audits, e)
}

func TestHooks(t *testing.T) {
	t.Parallel()
	l := &listener{}
	p := open(t, newDesk(), local, func(o *platform.Options) { o.Observe = []any{l} })
	mails := messaging.Destination[messaging.Raw]{Name: "email-work", Type: "email.requested", Version: 1}
	publisher, err := platform.NewPublisher(p, mails)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := publisher.Publish(t.Context(), mails.New(messaging.Raw("x")), nil); err != nil {
		t.Fatal(err)
	}
	if len(l.events) != 1 || l.events[0].Stage != "BROKER_ACCEPTED" || l.events[0].Broker != "main" || l.events[0].Result.Completion != messaging.Confirmed {
		t.Errorf("%+v", l.events)
	}
	if len(l.audits) != 1 || l.audits[0].Action != "SCHEMA_VALIDATION_BYPASSED" || l.audits[0].Destination != "email-work" {
		t.Errorf("%+v", l.audits)
	}
}
