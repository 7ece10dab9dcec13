package consume_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/consume"
	"github.com/backend-skeleton/relay/messaging"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	policy := func(m messaging.Mode) messaging.RetryPolicy {
		return messaging.RetryPolicy{Mode: m, MaxAttempts: 3, InitialDelay: time.Second, MaxDelay: 10 * time.Second, Multiplier: 2}
	}
	business := *messaging.NewFailure(messaging.CategoryPermanentBusiness, "NO_STOCK", "")
	busy := *messaging.NewFailure(messaging.CategoryProcessingTransient, "BUSY", "")
	of := func(c messaging.Category, code string) messaging.Failure { return *messaging.NewFailure(c, code, "") }
	retry := func(m messaging.Mode, change func(*consume.RetryContext)) consume.RetryContext {
		c := consume.RetryContext{Policy: policy(m), Verdict: messaging.VerdictRetry, Failure: busy, Meta: messaging.DeliveryMetadata{Attempt: 1}}
		if change != nil {
			change(&c)
		}
		return c
	}
	with := func(f messaging.Failure) func(*consume.RetryContext) {
		return func(c *consume.RetryContext) { c.Failure = f }
	}
	last := func(c *consume.RetryContext) { c.Meta.Attempt = 3 }
	for name, row := range map[string]struct {
		c    consume.RetryContext
		want messaging.Decision
	}{
		"inline":                       {retry(messaging.ModeInline, nil), messaging.RetryInline{Delay: time.Second}},
		"inline is at most 5 s":        {retry(messaging.ModeInline, func(c *consume.RetryContext) { c.Policy.InitialDelay = 8 * time.Second }), messaging.RetryInline{Delay: 5 * time.Second}},
		"blocking":                     {retry(messaging.ModeBlocking, nil), messaging.PauseAndRetry{Delay: time.Second, Whole: true}},
		"pause":                        {retry(messaging.ModePausePartition, nil), messaging.PauseAndRetry{Delay: time.Second}},
		"first stage":                  {retry(messaging.ModeRetryDestination, nil), messaging.PublishToRetryDestination{Stage: 1, Delay: time.Second}},
		"second stage":                 {retry(messaging.ModeRetryDestination, func(c *consume.RetryContext) { c.Meta.Attempt = 2 }), messaging.PublishToRetryDestination{Stage: 2, Delay: 2 * time.Second}},
		"a delay is rounded up":        {retry(messaging.ModeRetryDestination, func(c *consume.RetryContext) { c.Wanted = 1500 * time.Millisecond }), messaging.PublishToRetryDestination{Stage: 2, Delay: 2 * time.Second}},
		"no stage waits so long":       {retry(messaging.ModeRetryDestination, func(c *consume.RetryContext) { c.Wanted = time.Hour }), messaging.PublishToRetryDestination{Stage: 2, Delay: 2 * time.Second}},
		"broker delayed":               {retry(messaging.ModeBrokerDelayed, nil), messaging.ReturnToBroker{Delay: time.Second}},
		"none":                         {retry(messaging.ModeNone, nil), messaging.DeadLetterDecision{Failure: busy}},
		"order lets nobody overtake":   {retry(messaging.ModeInline, func(c *consume.RetryContext) { c.Ordered = true }), messaging.PauseAndRetry{Delay: time.Second}},
		"ordered stage":                {retry(messaging.ModeRetryDestination, func(c *consume.RetryContext) { c.Ordered = true }), messaging.PauseAndRetry{Delay: time.Second}},
		"ordered and blocking":         {retry(messaging.ModeBlocking, func(c *consume.RetryContext) { c.Ordered = true }), messaging.PauseAndRetry{Delay: time.Second, Whole: true}},
		"exhausted":                    {retry(messaging.ModePausePartition, last), messaging.DeadLetterDecision{Failure: busy}},
		"more attempts than there are": {retry(messaging.ModePausePartition, func(c *consume.RetryContext) { c.Meta.Attempt = 4711 }), messaging.DeadLetterDecision{Failure: busy}},
		"exhausted and blocked":        {retry(messaging.ModePausePartition, func(c *consume.RetryContext) { last(c); c.Block = true }), messaging.PauseAndRetry{Operator: true}},
		"exhausted and doubtful": {retry(messaging.ModePausePartition, func(c *consume.RetryContext) {
			last(c)
			c.ReviewDoubtful, c.SideEffectPossible = true, true
		}), messaging.Park{Failure: busy, Place: messaging.ParkingManualReview}},
		"doubtful, nobody reviews": {retry(messaging.ModePausePartition, func(c *consume.RetryContext) { last(c); c.SideEffectPossible = true }), messaging.DeadLetterDecision{Failure: busy}},
		"no verdict":               {retry(messaging.ModePausePartition, func(c *consume.RetryContext) { c.Verdict = 0 }), messaging.PauseAndRetry{Delay: time.Second}},
		"dead letter":              {retry(messaging.ModePausePartition, func(c *consume.RetryContext) { c.Verdict, c.Failure = messaging.VerdictDeadLetter, business }), messaging.DeadLetterDecision{Failure: business}},
		"business is not retried":  {retry(messaging.ModePausePartition, with(business)), messaging.DeadLetterDecision{Failure: business}},
		"reject": {
			retry(messaging.ModePausePartition, func(c *consume.RetryContext) { c.Verdict = messaging.VerdictReject }),
			messaging.DeadLetterDecision{Failure: *messaging.NewFailure(messaging.CategoryPermanentBusiness, messaging.CodeRejectNotAllowed, "only an at-most-once destination lets a handler discard")},
		},
		"reject at most once": {retry(messaging.ModeNone, func(c *consume.RetryContext) { c.Verdict, c.AtMostOnce = messaging.VerdictReject, true }), messaging.RejectDecision{Failure: busy}},
		"retry at most once":  {retry(messaging.ModeNone, func(c *consume.RetryContext) { c.AtMostOnce = true }), messaging.RejectDecision{Failure: busy}},
		"undecodable": {
			retry(messaging.ModePausePartition, with(of(messaging.CategoryDeserialization, "X"))),
			messaging.Park{Failure: of(messaging.CategoryDeserialization, "X"), Place: messaging.ParkingSchema},
		},
		"schema code":  {retry(messaging.ModePausePartition, with(of(messaging.CategoryValidation, messaging.CodeSchemaViolation))), messaging.Park{Failure: of(messaging.CategoryValidation, messaging.CodeSchemaViolation), Place: messaging.ParkingSchema}},
		"foreign":      {retry(messaging.ModePausePartition, with(of(messaging.CategoryValidation, messaging.CodeForeignMessage))), messaging.Park{Failure: of(messaging.CategoryValidation, messaging.CodeForeignMessage), Place: messaging.ParkingSchema}},
		"integrity":    {retry(messaging.ModePausePartition, with(of(messaging.CategoryValidation, messaging.CodeIntegrityMismatch))), messaging.Park{Failure: of(messaging.CategoryValidation, messaging.CodeIntegrityMismatch), Place: messaging.ParkingSecurity}},
		"tenant":       {retry(messaging.ModePausePartition, with(of(messaging.CategoryValidation, messaging.CodeTenantNotAllowed))), messaging.Park{Failure: of(messaging.CategoryValidation, messaging.CodeTenantNotAllowed), Place: messaging.ParkingSecurity}},
		"unauthorized": {retry(messaging.ModePausePartition, with(of(messaging.CategoryAuthorization, "X"))), messaging.Park{Failure: of(messaging.CategoryAuthorization, "X"), Place: messaging.ParkingSecurity}},
		"object gone":  {retry(messaging.ModePausePartition, with(of(messaging.CategoryPermanentBusiness, messaging.CodeObjectGone))), messaging.Park{Failure: of(messaging.CategoryPermanentBusiness, messaging.CodeObjectGone), Place: messaging.ParkingManualReview}},
		"validation is never retried": {retry(messaging.ModePausePartition, func(c *consume.RetryContext) {
			c.Failure = of(messaging.CategoryValidation, "X")
			c.Policy.Retryable = []messaging.Category{messaging.CategoryValidation}
		}), messaging.DeadLetterDecision{Failure: of(messaging.CategoryValidation, "X")}},
		"a category that is taken away": {retry(messaging.ModePausePartition, func(c *consume.RetryContext) {
			c.Policy.NonRetryable = []messaging.Category{messaging.CategoryProcessingTransient}
		}), messaging.DeadLetterDecision{Failure: busy}},
		"a category that is added": {retry(messaging.ModePausePartition, func(c *consume.RetryContext) {
			c.Failure, c.Policy.Retryable = of(messaging.CategoryPoisonMessage, "X"), []messaging.Category{messaging.CategoryPoisonMessage}
		}), messaging.PauseAndRetry{Delay: time.Second}},
		"an outage costs no attempt": {retry(messaging.ModeNone, func(c *consume.RetryContext) { last(c); c.Free = true }), messaging.PauseAndRetry{Delay: 500 * time.Millisecond}},
		"draining":                   {retry(messaging.ModePausePartition, func(c *consume.RetryContext) { c.Draining = true }), nil},
		"draining, dead letter":      {retry(messaging.ModePausePartition, func(c *consume.RetryContext) { c.Draining, c.Verdict = true, messaging.VerdictDeadLetter }), nil},
	} {
		if got := consume.Decide(row.c); got != row.want {
			t.Errorf("%s: %#v, want %#v", name, got, row.want)
		}
	}
}

// C10: the wait before attempt n+1 is the policy's n-th delay, and each distinct one has a stage.
func TestC10_EachStageWaitsItsOwnDelay(t *testing.T) {
	t.Parallel()
	p := messaging.RetryPolicy{Mode: messaging.ModeRetryDestination, MaxAttempts: 6, InitialDelay: time.Second, MaxDelay: 20 * time.Second, Multiplier: 4}
	if got, want := consume.Stages(p), []time.Duration{time.Second, 4 * time.Second, 16 * time.Second, 20 * time.Second}; !slices.Equal(got, want) {
		t.Fatalf("stages %v, want %v", got, want)
	}
	for attempt, want := range map[int]messaging.PublishToRetryDestination{
		1: {Stage: 1, Delay: time.Second}, 2: {Stage: 2, Delay: 4 * time.Second}, 3: {Stage: 3, Delay: 16 * time.Second},
		4: {Stage: 4, Delay: 20 * time.Second}, 5: {Stage: 4, Delay: 20 * time.Second},
	} {
		got := consume.Decide(consume.RetryContext{
			Policy: p, Verdict: messaging.VerdictRetry, Meta: messaging.DeliveryMetadata{Attempt: attempt},
			Failure: *messaging.NewFailure(messaging.CategoryThrottled, "SLOW", ""),
		})
		if got != want {
			t.Errorf("attempt %d: %#v, want %#v", attempt, got, want)
		}
	}
}

// Whatever the policy and the attempt number: above zero, at most the cap.
func TestDelayIsWithinItsBounds(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	numbers := []int{math.MinInt, -1, 0, 1, 2, 3, 10, 62, 63, 64, 65, 1000, math.MaxInt}
	factors := []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 0.5, 1, 1.5, 2, 10, math.MaxFloat64}
	for range 20000 {
		p := messaging.RetryPolicy{
			InitialDelay: time.Duration(random.Int64N(int64(8 * 24 * time.Hour))), Multiplier: factors[random.IntN(len(factors))],
			Jitter: factors[random.IntN(len(factors))],
		}
		p.MaxDelay = p.InitialDelay + time.Duration(random.Int64N(int64(24*time.Hour)))
		attempt := numbers[random.IntN(len(numbers))]
		if random.IntN(2) == 0 {
			attempt = random.IntN(2000)
		}
		cap := max(p.MaxDelay, time.Millisecond)
		if d := consume.Delay(p, attempt, factors[random.IntN(len(factors))]); d <= 0 || d > cap {
			t.Fatalf("%+v, attempt %d: %v", p, attempt, d)
		}
	}
	p := messaging.RetryPolicy{InitialDelay: time.Second, MaxDelay: 10 * time.Second, Multiplier: 2, Jitter: 1}
	if d := consume.Delay(p, 2, 0.25); d != 500*time.Millisecond {
		t.Errorf("a quarter of 2 s is %v", d)
	}
}

func TestTransitions(t *testing.T) {
	t.Parallel()
	all := []consume.State{
		consume.Received, consume.Decoding, consume.SchemaParking, consume.Processing, consume.InboxReserved, consume.BusinessTransactionCommitted,
		consume.RetryPending, consume.DeadLetterPending, consume.Rejected, consume.HandlerSucceeded, consume.SettlementSending, consume.Settled, consume.SettlementUnknown,
	}
	allowed := map[consume.State][]consume.State{
		consume.Received:                     {consume.Decoding},
		consume.Decoding:                     {consume.Processing, consume.SchemaParking, consume.DeadLetterPending, consume.RetryPending, consume.Rejected, consume.SettlementSending},
		consume.Processing:                   {consume.InboxReserved, consume.HandlerSucceeded, consume.RetryPending, consume.DeadLetterPending, consume.SchemaParking, consume.Rejected},
		consume.InboxReserved:                {consume.BusinessTransactionCommitted},
		consume.BusinessTransactionCommitted: {consume.HandlerSucceeded},
		consume.RetryPending:                 {consume.Decoding, consume.Processing, consume.SettlementSending},
		consume.SchemaParking:                {consume.SettlementSending},
		consume.DeadLetterPending:            {consume.SettlementSending},
		consume.Rejected:                     {consume.SettlementSending},
		consume.HandlerSucceeded:             {consume.SettlementSending},
		consume.SettlementSending:            {consume.Settled, consume.SettlementUnknown},
		consume.Settled:                      {consume.Processing}, // settled before its handler
	}
	for _, from := range all {
		for _, to := range all {
			if got, want := from.Next(to), slices.Contains(allowed[from], to); got != want {
				t.Errorf("%v -> %v is %t, want %t", from, to, got, want)
			}
		}
	}
	if consume.State(99).String() != "INVALID" || consume.State(99).Next(consume.Settled) {
		t.Error("a state that does not exist has a name or a step")
	}
}
