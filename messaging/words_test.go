package messaging_test

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/backend-skeleton/relay/messaging"
)

type enum interface {
	fmt.Stringer
	encoding.TextMarshaler
}

// The words are stored in the database and read by other languages.
func TestEnumWords(t *testing.T) {
	t.Parallel()
	wordsOf(t, messaging.ParseCompletion, "CONFIRMED REJECTED AMBIGUOUS")
	wordsOf(t, messaging.ParseTransmission, "NOT_TRANSMITTED MAY_HAVE_BEEN_TRANSMITTED TRANSMITTED")
	wordsOf(t, messaging.ParseConfirmationLevel, "NONE BROKER_ACK REPLICATION_OR_PERSISTENCE_ACK")
	wordsOf(t, messaging.ParseRouting, "NOT_APPLICABLE ROUTED UNROUTABLE UNKNOWN")
	wordsOf(t, messaging.ParseCategory, "TRANSIENT_INFRASTRUCTURE THROTTLED PROCESSING_TRANSIENT PERMANENT_BUSINESS POISON_MESSAGE DESERIALIZATION AUTHENTICATION AUTHORIZATION AMBIGUOUS CONFIGURATION VALIDATION")
	wordsOf(t, messaging.ParseOrdering, "NONE DESTINATION PARTITION KEY")
	wordsOf(t, messaging.ParseDeliveryGuarantee, "AT_MOST_ONCE AT_LEAST_ONCE")
	wordsOf(t, messaging.ParseProcessingGuarantee, "APPLICATION_IDEMPOTENT BROKER_TRANSACTIONAL")
	wordsOf(t, messaging.ParseSideEffect, "NONE IDEMPOTENCY_REQUIRED INBOX_TRANSACTIONAL")
	wordsOf(t, messaging.ParseMessageKind, "COMMAND DOMAIN_EVENT INTEGRATION_EVENT WORK_ITEM")
	wordsOf(t, messaging.ParseDestinationKind, "COMMAND EVENT_STREAM WORK_QUEUE PUBSUB")
	wordsOf(t, messaging.ParseSettlementStatus, "SETTLED REJECTED UNKNOWN")
	wordsOf(t, messaging.ParseSettlementProof, "NONE WRITTEN BROKER_ACKED")
}

func wordsOf[E enum](t *testing.T, parse func(string) (E, error), words string) {
	t.Helper()
	var unset E
	name := reflect.TypeFor[E]().Name()
	for i, word := range strings.Fields(words) {
		v, err := parse(word)
		if err != nil || v.String() != word || reflect.ValueOf(v).Uint() != uint64(i+1) {
			t.Errorf("%s %s: %v, %v", name, word, v, err)
			continue
		}
		text, err := v.MarshalText()
		if string(text) != word || err != nil {
			t.Errorf("%s %s: text %s, %v", name, word, text, err)
		}
		back := reflect.New(reflect.TypeFor[E]())
		if err := back.Interface().(encoding.TextUnmarshaler).UnmarshalText(text); err != nil || back.Elem().Interface() != any(v) {
			t.Errorf("%s %s: back %v, %v", name, word, back.Elem(), err)
		}
	}
	for _, s := range []string{"", "UNSET", "INVALID", "confirmed", "EXACTLY_ONCE"} {
		if _, err := parse(s); !errors.Is(err, messaging.ErrValidation) {
			t.Errorf("%s: %q is accepted", name, s)
		}
	}
	if _, err := unset.MarshalText(); err == nil || unset.String() != "UNSET" {
		t.Errorf("%s: zero is not refused, or prints %q", name, unset)
	}
	beyond := reflect.New(reflect.TypeFor[E]()).Elem()
	beyond.SetUint(200)
	if got := beyond.Interface().(fmt.Stringer).String(); got != "INVALID" {
		t.Errorf("%s(200) prints %q", name, got)
	}
}
