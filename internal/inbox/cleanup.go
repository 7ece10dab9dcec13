package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/backend-skeleton/relay/internal/inbox/inboxdb"
)

// DB runs statements: a pool, a connection or a transaction of pgx.
type DB = inboxdb.DBTX

// DefaultPruneBatch is how many rows one statement of Prune removes at most, unless told otherwise.
const DefaultPruneBatch = 5000

// Prune removes what has expired, at most batch rows a statement (DefaultPruneBatch if 0), until nothing is due or ctx
// ends, and returns how many rows it removed, also with an error. Several processes may prune at once.
//
// On a pool each statement commits by itself, so what was removed stays removed.
func Prune(ctx context.Context, db DB, batch int) (int64, error) {
	if batch == 0 {
		batch = DefaultPruneBatch
	}
	if batch < 0 || batch > 1_000_000 {
		return 0, errors.New("prune the inbox: a batch has 1 to 1000000 rows")
	}
	var removed int64
	for {
		n, err := inboxdb.New(db).InboxPrune(ctx, int32(batch))
		removed += n
		if err != nil {
			return removed, fmt.Errorf("prune the inbox: %w", err)
		}
		if n < int64(batch) {
			return removed, nil
		}
	}
}
