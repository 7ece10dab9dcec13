package messaging_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/backend-skeleton/relay/messaging"
)

var causeKinds = map[string]error{
	"configuration": messaging.ErrConfiguration, "capability": messaging.ErrCapabilityUnavailable, "validation": messaging.ErrValidation,
	"serialization": messaging.ErrSerialization, "schema": messaging.ErrSchemaIncompatible, "too large": messaging.ErrTooLarge,
	"header": messaging.ErrHeaderRejected, "timeout": messaging.ErrPublishTimeout, "routing": messaging.ErrRouting,
	"authentication": messaging.ErrAuthentication, "authorization": messaging.ErrAuthorization, "broker": messaging.ErrBrokerUnavailable,
	"backpressure": messaging.ErrBackpressure, "topology": messaging.ErrTopology, "consumer": messaging.ErrConsumer,
	"handler timeout": messaging.ErrHandlerTimeout, "settlement": messaging.ErrSettlement, "settlement unknown": messaging.ErrSettlementUnknown,
	"settlement completed": messaging.ErrSettlementAlreadyCompleted, "retry": messaging.ErrRetryExhausted, "dead letter": messaging.ErrDeadLetter,
	"redrive": messaging.ErrRedrive, "reply": messaging.ErrReplyTimeout, "unit": messaging.ErrUnitLost, "closed": messaging.ErrClosed,
}

func matching(err error) (kinds []string) {
	for name, kind := range causeKinds {
		if errors.Is(err, kind) {
			kinds = append(kinds, name)
		}
	}
	return kinds
}

// A caller must be able to branch on a publish error without meeting two answers.
func TestPublishErrorsHaveExactlyOneVerdictAndAtMostOneCause(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		completion messaging.Completion
		category   messaging.Category
		code       string
		cause      string // "" for none
	}{
		{messaging.Rejected, messaging.CategoryValidation, messaging.CodeTooLarge, "too large"},
		{messaging.Rejected, messaging.CategoryValidation, messaging.CodeHeaderRejected, "header"},
		{messaging.Rejected, messaging.CategoryValidation, messaging.CodeRoutingKeyTooLong, "validation"},
		{messaging.Rejected, messaging.CategoryValidation, messaging.CodeRecordRefused, "validation"},
		{messaging.Rejected, messaging.CategoryValidation, messaging.CodeInvalidMessage, "validation"},
		{messaging.Rejected, messaging.CategoryValidation, messaging.CodeSerialization, "serialization"},
		{messaging.Rejected, messaging.CategoryTransientInfrastructure, messaging.CodeUnroutable, "routing"},
		{messaging.Rejected, messaging.CategoryTransientInfrastructure, messaging.CodeNacked, ""},
		{messaging.Rejected, messaging.CategoryTransientInfrastructure, messaging.CodeNotEnoughReplicas, "broker"},
		{messaging.Rejected, messaging.CategoryThrottled, messaging.CodeThrottled, "backpressure"},
		{messaging.Rejected, messaging.CategoryAuthorization, messaging.CodeNotAuthorized, "authorization"},
		{messaging.Rejected, messaging.CategoryConfiguration, messaging.CodeUnknownTopic, "topology"},
		{messaging.Rejected, messaging.CategoryConfiguration, messaging.CodeUnknownExchange, "topology"},
		{messaging.Rejected, messaging.CategoryConfiguration, messaging.CodeBrokerConfiguration, "configuration"},
		{messaging.Rejected, messaging.CategoryAuthentication, messaging.CodeAuthenticationFailed, "authentication"},
		{messaging.Rejected, messaging.CategoryTransientInfrastructure, messaging.CodeBrokerUnreachable, "broker"},
		{messaging.Rejected, messaging.CategoryThrottled, messaging.CodeBackpressure, "backpressure"},
		{messaging.Rejected, messaging.CategoryTransientInfrastructure, messaging.CodeNotSent, ""},
		{messaging.Rejected, messaging.CategoryTransientInfrastructure, messaging.CodePredecessorNotStored, ""},
		{messaging.Rejected, messaging.CategoryTransientInfrastructure, messaging.CodeProducerSessionLost, "broker"},
		{messaging.Rejected, messaging.CategoryTransientInfrastructure, messaging.CodeClosed, "closed"},
		{messaging.Ambiguous, messaging.CategoryAmbiguous, messaging.CodeConfirmTimeout, "timeout"},
		{messaging.Ambiguous, messaging.CategoryAmbiguous, messaging.CodeConnectionLost, "broker"},
		{messaging.Ambiguous, messaging.CategoryAmbiguous, messaging.CodeChannelClosed, "broker"},
		{messaging.Ambiguous, messaging.CategoryAmbiguous, messaging.CodeUnknownOutcome, ""},
	} {
		for _, ended := range []error{nil, context.Canceled, context.DeadlineExceeded} {
			r := messaging.PublishResult{Completion: c.completion, Failure: messaging.NewFailure(c.category, c.code, "")}
			err := r.Err("order-events", messaging.LevelBrokerAck, ended)
			rejected, ambiguous := errors.Is(err, messaging.ErrPublishRejected), errors.Is(err, messaging.ErrPublishAmbiguous)
			if rejected == ambiguous || rejected != (c.completion == messaging.Rejected) {
				t.Errorf("%s: rejected %v, ambiguous %v", c.code, rejected, ambiguous)
			}
			var want []string
			if c.cause != "" {
				want = []string{c.cause}
			}
			if got := matching(err); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s: cause kinds %v, want %v", c.code, got, want)
			}
			if ended != nil && !errors.Is(err, ended) {
				t.Errorf("%s: the context's error is lost", c.code)
			}
			var failure *messaging.Failure
			var e *messaging.Error
			if !errors.As(err, &failure) || failure.Code != c.code || !errors.As(err, &e) || e.Destination != "order-events" {
				t.Errorf("%s: failure and destination are not found in %v", c.code, err)
			}
		}
	}
}

func TestConfirmedBelowTheRequiredLevelIsStoredNotRejected(t *testing.T) {
	t.Parallel()
	r := messaging.PublishResult{Completion: messaging.Confirmed, Evidence: messaging.Evidence{Level: messaging.LevelBrokerAck}}
	for _, required := range []messaging.ConfirmationLevel{0, messaging.LevelNone, messaging.LevelBrokerAck} {
		if err := r.Err("d", required, context.Canceled); err != nil {
			t.Errorf("required %s: %v", required, err)
		}
	}
	err := r.Err("d", messaging.LevelReplicationOrPersistenceAck, nil)
	if got := matching(err); fmt.Sprint(got) != "[configuration]" || errors.Is(err, messaging.ErrPublishRejected) || errors.Is(err, messaging.ErrPublishAmbiguous) {
		t.Errorf("kinds %v of %v", got, err)
	}
}

func TestNoVerdictIsAmbiguous(t *testing.T) {
	t.Parallel()
	if err := (messaging.PublishResult{}).Err("d", 0, nil); !errors.Is(err, messaging.ErrPublishAmbiguous) {
		t.Errorf("error %v", err)
	}
}

func TestRejectedLocally(t *testing.T) {
	t.Parallel()
	_, headerErr := messaging.NewHeaders(map[string]string{"msg.id": "x"})
	_, nameErr := messaging.ParseTenant("")
	own := messaging.NewFailure(messaging.CategoryValidation, messaging.CodeTooLarge, "")
	for _, c := range []struct {
		err  error
		code string
	}{
		{headerErr, messaging.CodeHeaderRejected},
		{fmt.Errorf("prepare: %w", nameErr), messaging.CodeInvalidMessage},
		{&messaging.Error{Failure: own}, messaging.CodeTooLarge},
		{errors.New("quoting s3cret"), messaging.CodeInvalidMessage},
	} {
		r := messaging.RejectedLocally(c.err)
		if r.Completion != messaging.Rejected || r.Evidence.Transmission != messaging.NotTransmitted || r.Evidence.BrokerAccepted || r.Failure.Code != c.code {
			t.Errorf("%v: %+v", c.err, r)
		}
		if strings.Contains(r.Failure.Error(), "s3cret") {
			t.Error("a foreign text entered the failure")
		}
	}
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	err := &messaging.Error{
		Op: "publish", Kind: messaging.ErrPublishRejected, Destination: "order-events",
		Failure: messaging.NewFailure(messaging.CategoryValidation, messaging.CodeTooLarge, "9 bytes, the limit is 8").WithCause(errors.New("library text with s3cret")),
		Cause:   messaging.ErrTooLarge,
	}
	if got, want := err.Error(), "publish to order-events: publish rejected: VALIDATION TOO_LARGE: 9 bytes, the limit is 8: too large"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestBatchError(t *testing.T) {
	t.Parallel()
	err := error(&messaging.BatchError{Items: map[int]error{
		7: fmt.Errorf("x: %w", messaging.ErrPublishAmbiguous), 2: messaging.ErrPublishRejected,
	}})
	if !errors.Is(err, messaging.ErrPublishAmbiguous) || !errors.Is(err, messaging.ErrPublishRejected) || errors.Is(err, messaging.ErrClosed) {
		t.Error("errors.Is does not look into every item")
	}
	if got, want := err.Error(), "batch: 2 failed, first is item 2: publish rejected"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (&messaging.BatchError{}).Error(); got == "" {
		t.Error("an empty batch error has no text")
	}
}

func TestFailureRetryableFollowsTheCategory(t *testing.T) {
	t.Parallel()
	retryable := map[messaging.Category]bool{
		messaging.CategoryTransientInfrastructure: true, messaging.CategoryThrottled: true,
		messaging.CategoryProcessingTransient: true, messaging.CategoryAmbiguous: true,
	}
	for c := messaging.CategoryTransientInfrastructure; c <= messaging.CategoryValidation; c++ {
		if got := messaging.NewFailure(c, "X", "").Retryable; got != retryable[c] {
			t.Errorf("%s: retryable %v", c, got)
		}
	}
}
