package bench

import (
	"context"
	"fmt"
	mrand "math/rand/v2"
	"strconv"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// payloadBytes and headers are the row's size in every part: a small event.
const payloadBytes = 300

const headers = `{"x-region": "eu-central-1", "x-build": "2026.01.15-3", "x-shard": "00000017", "x-lang": "de"}`

// keys gives the ordering key of row i, nil without one.
type keys func(i int) any

func keyless(int) any { return nil }

func hotKey(int) any { return "order-1" }

// among spreads rows over n keys.
func among(n int) keys {
	return func(i int) any { return "order-" + strconv.Itoa(i%n) }
}

// payload is text that does not compress to nothing.
func payload() []byte { return payloadOf(payloadBytes) }

func payloadOf(bytes int) []byte {
	b := make([]byte, bytes)
	for i := range b {
		b[i] = byte('a' + mrand.IntN(26))
	}
	return b
}

var columns = []string{"message_id", "destination", "message_type", "producer", "ordering_key", "headers", "payload"}

// load inserts rows into the outbox, spread over the destinations; 0 bytes are payloadBytes.
func (p *place) load(ctx context.Context, rows int, destinations []string, key keys, bytes int) error {
	if bytes == 0 {
		bytes = payloadBytes
	}
	body := payloadOf(bytes)
	n := 0
	copied, err := p.pool.CopyFrom(ctx, pgx.Identifier{"messaging_outbox"}, columns, pgx.CopyFromFunc(func() ([]any, error) {
		if n == rows {
			return nil, nil
		}
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		n++
		return []any{[16]byte(id), destinations[n%len(destinations)], "bench.order.placed", "bench", key(n), headers, body}, nil
	}))
	if err == nil && copied != int64(rows) {
		err = fmt.Errorf("loaded %d rows of %d", copied, rows)
	}
	return err
}
