package client_test

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/backend-skeleton/relay/client"
	"github.com/backend-skeleton/relay/internal/dbtest"
	"github.com/backend-skeleton/relay/messaging"
)

func TestInboxHandlerVerdicts(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t)
	config := client.InboxConfig{Consumer: "billing", LockWait: 20 * time.Millisecond}
	inbox, err := client.NewInbox(db.Pool, config)
	if err != nil {
		t.Fatal(err)
	}
	inboxSQL, err := client.NewInboxSQL(db.SQL(t), config)
	if err != nil {
		t.Fatal(err)
	}
	var effect func(context.Context) error
	for door, h := range map[string]messaging.Handler[order]{
		"pgx":          client.InboxHandler(inbox, func(ctx context.Context, _ pgx.Tx, _ messaging.Delivery[order]) error { return effect(ctx) }),
		"database/sql": client.InboxHandlerSQL(inboxSQL, func(ctx context.Context, _ *sql.Tx, _ messaging.Delivery[order]) error { return effect(ctx) }),
	} {
		if bound, ok := h.(messaging.InboxBound); !ok || bound.InboxConsumer() != "billing" {
			t.Errorf("%s: the handler is not bound to its inbox", door)
		}
		d := messaging.Delivery[order]{Envelope: created.New(order{}), Hash: messaging.HashPayload([]byte("a"))}
		other := d
		other.Hash = messaging.HashPayload([]byte("b"))
		permanent := messaging.NewFailure(messaging.CategoryPermanentBusiness, "NO_SUCH_ORDER", "")
		for _, step := range []struct {
			d       messaging.Delivery[order]
			effect  func(context.Context) error
			verdict messaging.Verdict
			code    string
		}{
			{d, func(context.Context) error { return errors.New("not today") }, messaging.VerdictRetry, messaging.CodeHandlerFailed},
			{d, func(context.Context) error { return permanent }, messaging.VerdictDeadLetter, "NO_SUCH_ORDER"},
			{d, func(ctx context.Context) error {
				_, err := pgx.Connect(ctx, "postgres://nobody@127.0.0.1:1/none")
				return err
			}, messaging.VerdictRetry, messaging.CodeDatabase},
			{d, func(ctx context.Context) error {
				mine := effect
				defer func() { effect = mine }()
				effect = func(context.Context) error { t.Error("ran beside another try"); return nil }
				if r := h.Handle(ctx, d); r.Verdict() != messaging.VerdictRetry || r.Failure().Code != messaging.CodeInboxBusy || r.Failure().Category != messaging.CategoryTransientInfrastructure {
					t.Errorf("%s: beside another try: %v %v", door, r.Verdict(), r.Failure())
				}
				return nil
			}, messaging.VerdictSuccess, ""},
			{d, func(context.Context) error { t.Error("a duplicate ran"); return nil }, messaging.VerdictSuccess, ""},
			{other, func(context.Context) error { t.Error("another payload ran"); return nil }, messaging.VerdictDeadLetter, messaging.CodeIntegrityMismatch},
		} {
			effect = step.effect
			r := h.Handle(t.Context(), step.d)
			if r.Verdict() != step.verdict || step.code != "" && r.Failure().Code != step.code {
				t.Errorf("%s: %v %v, want %v %s", door, r.Verdict(), r.Failure(), step.verdict, step.code)
			}
		}
	}
}
