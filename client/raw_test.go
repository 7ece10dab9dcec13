package client_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/backend-skeleton/relay/client"
	"github.com/backend-skeleton/relay/messaging"
)

// granting is a profile that opens raw bytes.
type granting bool

func (g granting) Profile(messaging.DestinationName) (messaging.Profile, bool) {
	return messaging.Profile{RawBytes: bool(g)}, true
}

func TestRawBytesNeedAGrantAndAreAudited(t *testing.T) {
	t.Parallel()
	files := messaging.Destination[messaging.Raw]{Name: "files", Type: "file.stored", Version: 1}
	var log bytes.Buffer
	c, err := client.New(client.Config{Producer: "orders", Profiles: granting(true), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	outbox, err := client.NewOutbox(c, files)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := outbox.Prepare(t.Context(), files.New(messaging.Raw("s3cret")), nil); err != nil {
		t.Fatal(err)
	}
	if text := log.String(); !strings.Contains(text, "action=SCHEMA_VALIDATION_BYPASSED") || !strings.Contains(text, "destination=files") || strings.Contains(text, "s3cret") {
		t.Errorf("log: %s", text)
	}
	if _, err := outbox.Prepare(t.Context(), files.New(nil), nil); !errors.Is(err, messaging.ErrValidation) {
		t.Errorf("nil bytes: %v", err)
	}
	if c, err = client.New(client.Config{Producer: "orders", Profiles: granting(false)}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.NewOutbox(c, files); !errors.Is(err, messaging.ErrCapabilityUnavailable) {
		t.Errorf("without grant: %v", err)
	}
}
