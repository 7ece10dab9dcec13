package client_test

import (
	"slices"
	"sync"
	"testing"

	"github.com/backend-skeleton/relay/client"
	"github.com/backend-skeleton/relay/messaging"
)

// TestB63_IDsRise: what the client makes one after another is sorted as text and as bytes, so inserts stay at the right end
// of the primary key; and no two of 16 goroutines are the same. (The written form also bounds the size of the indexes.)
func TestB63_IDsRise(t *testing.T) {
	t.Parallel()
	orders := newOutbox(t, newClient(t, client.Config{}), created)
	ids := func(n int) []string {
		made := make([]string, n)
		for i := range made {
			made[i] = prepare(t, orders, messaging.Envelope[order]{}, nil).ID().String()
		}
		return made
	}
	if made := ids(10_000); !slices.IsSorted(made) || len(slices.Compact(made)) != 10_000 {
		t.Error("ids do not rise strictly")
	}
	var mu sync.Mutex
	seen := map[string]bool{}
	var makers sync.WaitGroup
	for range 16 {
		makers.Go(func() {
			made := ids(1000)
			mu.Lock()
			defer mu.Unlock()
			if !slices.IsSorted(made) {
				t.Error("ids of one goroutine do not rise")
			}
			for _, id := range made {
				seen[id] = true
			}
		})
	}
	makers.Wait()
	if len(seen) != 16_000 {
		t.Errorf("%d different ids of 16000", len(seen))
	}
}
