package config

import (
	"testing"
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"500ms": 500 * time.Millisecond, "30s": 30 * time.Second, "1h30m": 90 * time.Minute, "7d": 7 * day,
		"1.5d": 36 * time.Hour, "1d12h": 36 * time.Hour, "1ns": 1, "36500d": 36500 * day,
	} {
		d, err := ParseDuration(text)
		if err != nil || d.Std() != want {
			t.Errorf("%s: %v, %v", text, d, err)
		}
		if back, err := ParseDuration(d.String()); err != nil || back != d {
			t.Errorf("%s prints %s, which reads %v, %v", text, d, back, err)
		}
	}
	for _, text := range []string{
		"", "0", "30", "1.5", "0s", "0d", "-1s", "-1d", "1y", "1w", "d", "1d-2h", "1h1d", "36501d", "1e9d", "9999999999d", "NaN", "1d1", " 1s",
	} {
		if d, err := ParseDuration(text); err == nil {
			t.Errorf("%q is accepted as %s", text, d)
		}
	}
}

func TestDurationPrintsShortly(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"7d": 7 * day, "5m": 5 * time.Minute, "1h": time.Hour, "36h": 36 * time.Hour, "1m30s": 90 * time.Second, "10m": 10 * time.Minute, "1h0m5s": time.Hour + 5*time.Second,
	} {
		if got := Duration(d).String(); got != want {
			t.Errorf("%v prints %s, want %s", d, got, want)
		}
	}
}

func TestParseSize(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"1": 1, "1048576": 1 << 20, "4MiB": 4 << 20, "32KiB": 32 << 10, "1GiB": 1 << 30, "128B": 128} {
		s, err := ParseSize(text)
		if err != nil || int64(s) != want {
			t.Errorf("%s: %d, %v", text, s, err)
		}
		if back, err := ParseSize(s.String()); err != nil || back != s {
			t.Errorf("%s prints %s", text, s)
		}
	}
	for _, text := range []string{"", "0", "0MiB", "-1", "4MB", "4 MiB", "1.5MiB", "4mib", "9223372036854775808", "9007199254740993GiB", "0x10"} {
		if s, err := ParseSize(text); err == nil {
			t.Errorf("%q is accepted as %s", text, s)
		}
	}
}

// The words of the file are those of the public vocabulary.
func TestWordsAreThoseOfTheVocabulary(t *testing.T) {
	t.Parallel()
	check := func(what string, words []string, parse func(string) error) {
		for _, w := range words {
			if err := parse(w); err != nil {
				t.Errorf("%s %s is no word of the vocabulary: %v", what, w, err)
			}
		}
	}
	check("confirmation", Confirmation("").Values(), func(s string) error { _, err := messaging.ParseConfirmationLevel(s); return err })
	check("ordering", Ordering("").Values(), func(s string) error { _, err := messaging.ParseOrdering(s); return err })
	check("delivery", Delivery("").Values(), func(s string) error { _, err := messaging.ParseDeliveryGuarantee(s); return err })
	check("processing", Processing("").Values(), func(s string) error { _, err := messaging.ParseProcessingGuarantee(s); return err })
	check("message kind", MessageKind("").Values(), func(s string) error { _, err := messaging.ParseMessageKind(s); return err })
	check("category", Category("").Values(), func(s string) error { _, err := messaging.ParseCategory(s); return err })
}
