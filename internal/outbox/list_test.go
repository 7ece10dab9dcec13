package outbox

import (
	"testing"

	"github.com/google/uuid"
)

// TestListFindsEveryRowOnce compares with the simple question that would read the whole table.
func TestListFindsEveryRowOnce(t *testing.T) {
	t.Parallel()
	db, s := statsFixture(t)
	for _, destination := range []string{"", "orders", "mails", "nobodys", "absent"} {
		for _, states := range [][]State{AllStates(), {Pending}, {Scheduled}, {Held}, {RetryableFailure}, {Ambiguous}, {Parked}, {Published}, {Parked, Ambiguous}, nil} {
			rows, err := s.List(t.Context(), destination, states, MaxListed)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[uuid.UUID]bool{}
			for _, r := range rows {
				if seen[r.MessageID] {
					t.Errorf("%q %v: a row twice", destination, states)
				}
				seen[r.MessageID] = true
				if r.Code != "" || r.LastOutcome != "" || r.MessageType != "order.created" || r.Stored != r.State || r.CreatedAt.IsZero() {
					t.Errorf("%+v", r)
				}
			}
			words := make([]string, len(states))
			for i, st := range states {
				words[i] = string(st)
			}
			var want int
			err = db.QueryRow(t.Context(), `select count(*) from messaging_outbox where status::text = any($1) and $2 in ('', destination)`, words, destination).Scan(&want)
			if err != nil || len(rows) != want {
				t.Errorf("%q %v: %d rows, want %d, %v", destination, states, len(rows), want, err)
			}
		}
	}
}

func TestListIsBounded(t *testing.T) {
	t.Parallel()
	_, s := statsFixture(t)
	rows, err := s.List(t.Context(), "orders", AllStates(), 5)
	if err != nil || len(rows) != 5 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
	for _, most := range []int{0, -1, MaxListed + 1} {
		if _, err := s.List(t.Context(), "", AllStates(), most); err == nil {
			t.Errorf("%d rows are allowed", most)
		}
	}
}
