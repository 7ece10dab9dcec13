package messaging_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/backend-skeleton/relay/messaging"
)

func TestFromError(t *testing.T) {
	t.Parallel()
	throttled := messaging.NewFailure(messaging.CategoryThrottled, "SLOW_DOWN", "")
	business := messaging.NewFailure(messaging.CategoryPermanentBusiness, "NO_SUCH_ORDER", "")
	for name, c := range map[string]struct {
		err     error
		verdict messaging.Verdict
		code    string
	}{
		"nil":               {nil, messaging.VerdictSuccess, ""},
		"any error":         {errors.New("x"), messaging.VerdictRetry, messaging.CodeHandlerFailed},
		"retryable failure": {fmt.Errorf("x: %w", throttled), messaging.VerdictRetry, "SLOW_DOWN"},
		"permanent failure": {fmt.Errorf("x: %w", business), messaging.VerdictDeadLetter, "NO_SUCH_ORDER"},
	} {
		h := messaging.FromError(func(context.Context, messaging.Delivery[int]) error { return c.err })
		r := h.Handle(context.Background(), messaging.Delivery[int]{})
		if f := r.Failure(); r.Verdict() != c.verdict || f.Code != c.code {
			t.Errorf("%s: %s with %+v", name, r.Verdict(), f)
		}
	}
}

func TestZeroResultIsNoVerdict(t *testing.T) {
	t.Parallel()
	var r messaging.Result
	if f := r.Failure(); r.Verdict() == messaging.VerdictSuccess || f.Code != messaging.CodeNoVerdict || !f.Retryable {
		t.Errorf("%s with %+v", r.Verdict(), f)
	}
}
