package inbox

import (
	"context"
	"fmt"
	"time"

	"github.com/backend-skeleton/relay/internal/inbox/inboxdb"
	"github.com/backend-skeleton/relay/messaging"
)

// ConsumerStats counts the rows of one consumer.
type ConsumerStats struct {
	Consumer messaging.ConsumerName
	Messages int64 // all rows, expired ones included
	Expired  int64 // due for Prune
	Oldest   time.Time
	Newest   time.Time
}

// Stats counts per consumer, in the order of their names. It reads the whole table.
func Stats(ctx context.Context, db DB) ([]ConsumerStats, error) {
	rows, err := inboxdb.New(db).InboxStats(ctx)
	if err != nil {
		return nil, fmt.Errorf("count the inbox: %w", err)
	}
	stats := make([]ConsumerStats, len(rows))
	for i, r := range rows {
		stats[i] = ConsumerStats{
			Consumer: messaging.ConsumerName(r.ConsumerName), Messages: r.Messages, Expired: r.Expired,
			Oldest: r.Oldest, Newest: r.Newest,
		}
	}
	return stats, nil
}
