package messaging_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/backend-skeleton/relay/messaging"
)

func TestParseMessageType(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"order.created", "a.b", "order-x_1.created.v2", "a.1", "o." + strings.Repeat("x", 238)} {
		if got, err := messaging.ParseMessageType(s); err != nil || string(got) != s {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []string{"", "order", "Order.Created", ".a", "a.", "a..b", "1.a", "_a.b", "a.b c", "주문.생성", "a/b.c", "o." + strings.Repeat("x", 239)} {
		if got, err := messaging.ParseMessageType(s); !errors.Is(err, messaging.ErrValidation) || got != "" {
			t.Errorf("%q is accepted", s)
		}
	}
}

// Limits count characters, not bytes: the database counts so too.
func TestTextLimits(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		limit int
		parse func(string) error
	}{
		"destination": {160, func(s string) error { _, err := messaging.ParseDestinationName(s); return err }},
		"producer":    {120, func(s string) error { _, err := messaging.ParseProducerID(s); return err }},
		"tenant":      {120, func(s string) error { _, err := messaging.ParseTenant(s); return err }},
		"correlation": {255, func(s string) error { _, err := messaging.ParseCorrelationID(s); return err }},
		"content":     {120, messaging.CheckContentType},
		"key":         {320, func(s string) error { return messaging.CheckKey("ordering key", s) }},
	} {
		if err := c.parse(strings.Repeat("가", c.limit)); err != nil {
			t.Errorf("%s at the limit: %v", what, err)
		}
		for name, s := range map[string]string{
			"empty":      "",
			"over":       strings.Repeat("가", c.limit+1),
			"not utf-8":  "s3cret\xff",
			"nul":        "s3cret\x00",
			"line break": "s3cret\nx",
		} {
			err := c.parse(s)
			if !errors.Is(err, messaging.ErrValidation) {
				t.Errorf("%s, %s: error %v", what, name, err)
			} else if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s, %s: the error quotes the value: %v", what, name, err)
			}
		}
	}
}

func TestParseConsumerName(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"order-projection", "a", "a.b_c-9", strings.Repeat("a", 200)} {
		if _, err := messaging.ParseConsumerName(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []string{"", "Order", "a b", "a/b", strings.Repeat("a", 201)} {
		if _, err := messaging.ParseConsumerName(s); !errors.Is(err, messaging.ErrValidation) {
			t.Errorf("%q is accepted", s)
		}
	}
}

func TestParseSchemaVersion(t *testing.T) {
	t.Parallel()
	if v, err := messaging.ParseSchemaVersion("12"); v != 12 || err != nil {
		t.Errorf("%d, %v", v, err)
	}
	for _, s := range []string{"", "0", "-1", "+1", "01", "1.0", "x", "99999999999"} {
		if _, err := messaging.ParseSchemaVersion(s); !errors.Is(err, messaging.ErrValidation) {
			t.Errorf("%q is accepted", s)
		}
	}
}
