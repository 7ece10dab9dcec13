package raw_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/codec/raw"
)

func TestBytesAreCarriedAsTheyAre(t *testing.T) {
	t.Parallel()
	c, err := raw.New("")
	if err != nil || c.ContentType() != "application/octet-stream" {
		t.Fatal(c.ContentType(), err)
	}
	for _, want := range []messaging.Raw{{}, {0}, []byte("a\x00\xff")} {
		data, ref, err := c.Encode(context.Background(), "file.stored", 1, want)
		if err != nil || ref != nil || !bytes.Equal(data, want) || data == nil {
			t.Fatalf("%q became %q, %v", want, data, err)
		}
		var got messaging.Raw
		if err := c.Decode(context.Background(), "file.stored", 1, nil, data, &got); err != nil || !bytes.Equal(got, want) || got == nil {
			t.Errorf("%q came back as %q, %v", want, got, err)
		}
		if len(got) > 0 {
			if got[0]++; bytes.Equal(got, want) {
				t.Error("the decoded bytes share the delivery's")
			}
		}
	}
}

func TestOnlyRawIsTaken(t *testing.T) {
	t.Parallel()
	c, _ := raw.New("image/png")
	for _, v := range []any{nil, messaging.Raw(nil), []byte("x"), "x", messaging.Tombstone{}} {
		if _, _, err := c.Encode(context.Background(), "file.stored", 1, v); !errors.Is(err, messaging.ErrSerialization) {
			t.Errorf("%T: %v", v, err)
		}
	}
	for _, into := range []any{nil, new([]byte), (*messaging.Raw)(nil), messaging.Raw{}} {
		if err := c.Decode(context.Background(), "file.stored", 1, nil, []byte("x"), into); !errors.Is(err, messaging.ErrSerialization) {
			t.Errorf("%T: %v", into, err)
		}
	}
	if _, err := raw.New(strings.Repeat("x", 121)); !errors.Is(err, messaging.ErrConfiguration) {
		t.Error(err)
	}
}
