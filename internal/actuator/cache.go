package actuator

import (
	"context"
	"time"
)

const (
	// freshFor is how long an answer serves further requests.
	freshFor = time.Second
	// storageFreshFor is the same for what changes slowly.
	storageFreshFor = 10 * time.Second
	// costFactor stretches it where the query is dear: at most a tenth of the time
	// goes into statistics, whatever the size of the table.
	costFactor = 10
	// queryTimeout bounds one query.
	queryTimeout = 5 * time.Second
)

// cache lets one request at a time ask the reader, and the others take its
// answer, failures included: a database in trouble is not asked by every probe.
type cache[T any] struct {
	read  func(context.Context) (T, error)
	fresh time.Duration
	slot  chan struct{} // holds a token while nobody asks

	// guarded by the slot
	answer T
	err    error
	until  time.Time
}

func newCache[T any](read func(context.Context) (T, error), fresh time.Duration) *cache[T] {
	c := &cache[T]{read: read, fresh: fresh, slot: make(chan struct{}, 1)}
	c.slot <- struct{}{}
	return c
}

func (c *cache[T]) get(ctx context.Context) (answer T, err error) {
	select {
	case <-c.slot:
	case <-ctx.Done():
		return answer, ctx.Err()
	}
	defer func() { c.slot <- struct{}{} }()
	if time.Now().Before(c.until) {
		return c.answer, c.err
	}
	// A caller who goes away must not spoil the answer for those who wait.
	query, cancel := context.WithTimeout(context.WithoutCancel(ctx), queryTimeout)
	defer cancel()
	began := time.Now()
	c.answer, c.err = c.read(query)
	ended := time.Now()
	c.until = ended.Add(max(c.fresh, costFactor*ended.Sub(began)))
	return c.answer, c.err
}
