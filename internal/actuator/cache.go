package actuator

import (
	"context"
	"time"
)

const (
	// freshFor is how long an answer serves further requests.
	freshFor = time.Second
	// costFactor stretches it where the query is dear: at most a tenth of the time
	// goes into statistics, whatever the size of the table.
	costFactor = 10
	// queryTimeout bounds one query.
	queryTimeout = 5 * time.Second
)

// cache lets one request at a time ask the reader, and the others take its
// answer, failures included: a database in trouble is not asked by every probe.
type cache struct {
	reader StatsReader
	slot   chan struct{} // holds a token while nobody asks

	// guarded by the slot
	stats Stats
	err   error
	until time.Time
}

func newCache(r StatsReader) *cache {
	c := &cache{reader: r, slot: make(chan struct{}, 1)}
	c.slot <- struct{}{}
	return c
}

func (c *cache) get(ctx context.Context) (Stats, error) {
	select {
	case <-c.slot:
	case <-ctx.Done():
		return Stats{}, ctx.Err()
	}
	defer func() { c.slot <- struct{}{} }()
	if time.Now().Before(c.until) {
		return c.stats, c.err
	}
	// A caller who goes away must not spoil the answer for those who wait.
	query, cancel := context.WithTimeout(context.WithoutCancel(ctx), queryTimeout)
	defer cancel()
	began := time.Now()
	c.stats, c.err = c.reader.OutboxStats(query)
	ended := time.Now()
	c.until = ended.Add(max(freshFor, costFactor*ended.Sub(began)))
	return c.stats, c.err
}
