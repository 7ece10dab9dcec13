package relay

import (
	"slices"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/messaging"
)

// What becomes of a refused row, and who else is concerned, by cause: one case per rule of the contract.
func TestWhatBecomesOfARowByCause(t *testing.T) {
	t.Parallel()
	const (
		asItWas = outbox.State("")
		retry   = outbox.RetryableFailure
	)
	transient := messaging.CategoryTransientInfrastructure
	for _, c := range []struct {
		cause      string
		completion messaging.Completion
		category   messaging.Category
		code       string
		unsent     bool
		ownKey     bool
		state      outbox.State
		attempts   int32
		concerned  scope
	}{
		{cause: "confirmed", completion: messaging.Confirmed, state: outbox.Published, attempts: 1},
		{cause: "local validation", completion: messaging.Rejected, category: messaging.CategoryValidation, code: messaging.CodeInvalidMessage, unsent: true, state: outbox.Parked, attempts: 1},
		{cause: "poison", completion: messaging.Rejected, category: messaging.CategoryPoisonMessage, code: messaging.CodeHeaderRejected, state: outbox.Parked, attempts: 1},
		{cause: "unroutable under its own key", completion: messaging.Rejected, category: transient, code: messaging.CodeUnroutable, ownKey: true, state: retry, attempts: 1},
		{cause: "unroutable under the profile's key", completion: messaging.Rejected, category: transient, code: messaging.CodeUnroutable, state: retry, attempts: 1, concerned: destinationCount},
		{cause: "nack", completion: messaging.Rejected, category: transient, code: messaging.CodeNacked, state: retry, attempts: 1, concerned: destinationCount},
		{cause: "authorization", completion: messaging.Rejected, category: messaging.CategoryAuthorization, code: messaging.CodeNotAuthorized, concerned: destinationOpen},
		{cause: "unknown topic", completion: messaging.Rejected, category: messaging.CategoryConfiguration, code: messaging.CodeUnknownTopic, concerned: destinationOpen},
		{cause: "unknown exchange", completion: messaging.Rejected, category: messaging.CategoryConfiguration, code: messaging.CodeUnknownExchange, concerned: destinationOpen},
		{cause: "broker configuration", completion: messaging.Rejected, category: messaging.CategoryConfiguration, code: messaging.CodeBrokerConfiguration, concerned: destinationOpen},
		{cause: "authentication", completion: messaging.Rejected, category: messaging.CategoryAuthentication, code: messaging.CodeAuthenticationFailed, concerned: brokerOpen},
		{cause: "unreachable", completion: messaging.Rejected, category: transient, code: messaging.CodeBrokerUnreachable, unsent: true, concerned: brokerOpen},
		{cause: "not sent", completion: messaging.Rejected, category: transient, code: messaging.CodeNotSent, unsent: true, concerned: destinationStuck},
		{cause: "session lost", completion: messaging.Rejected, category: transient, code: messaging.CodeProducerSessionLost},
		{cause: "behind a row that was not stored", completion: messaging.Rejected, category: transient, code: messaging.CodePredecessorNotStored, unsent: true},
		{cause: "ambiguous", completion: messaging.Ambiguous, category: messaging.CategoryAmbiguous, code: messaging.CodeConfirmTimeout, state: outbox.Ambiguous, attempts: 1, concerned: destinationCount},
	} {
		t.Run(c.cause, func(t *testing.T) {
			t.Parallel()
			d := &Destination{Attempts: 3, Block: true, OwnRoutingKey: c.ownKey, Backoff: Backoff{Initial: time.Second, Max: time.Second, Multiplier: 2}}
			res := messaging.PublishResult{Completion: c.completion, Evidence: messaging.Evidence{Transmission: messaging.Transmitted}}
			if c.unsent {
				res.Evidence.Transmission = messaging.NotTransmitted
			}
			if c.completion != messaging.Confirmed {
				res.Failure = messaging.NewFailure(c.category, c.code, "")
			}
			got := d.dispose(&outbox.Row{}, res)
			if got.asItWas != (c.state == asItWas) || got.state != c.state || got.attempt != c.attempts || got.breaker != c.concerned {
				t.Errorf("as it was %t, %q, attempts +%d, concerned %d; want %q, +%d, %d", got.asItWas, got.state, got.attempt, got.breaker, c.state, c.attempts, c.concerned)
			}
			doubt := int32(0)
			if c.completion == messaging.Ambiguous {
				doubt = 1
			}
			if got.ambiguous != doubt {
				t.Errorf("ambiguous attempts +%d, want +%d", got.ambiguous, doubt)
			}
			last := d.dispose(&outbox.Row{Attempts: 2}, res)
			if slices.Contains([]outbox.State{retry, outbox.Ambiguous}, c.state) && last.state != outbox.Parked {
				t.Errorf("with its attempts used up the row is %q, want PARKED", last.state)
			}
			if c.state == asItWas && !last.asItWas {
				t.Error("a row whose attempts are used up is not left as it was")
			}
			doubted := d.dispose(&outbox.Row{AmbiguousAttempts: 1}, res)
			if doubted.state == retry || doubted.state == outbox.Pending || doubted.state == outbox.Held {
				t.Errorf("a row that may have been delivered becomes %q", doubted.state)
			}
		})
	}
}
