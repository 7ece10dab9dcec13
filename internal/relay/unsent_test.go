package relay_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/backend-skeleton/relay/internal/outbox"
	"github.com/backend-skeleton/relay/messaging"
)

// A row is on its way when its key becomes blocked, by a redrive of what stood before it, so that the next row of the key is
// set aside. Then it turns out that the first was never sent. It waits in the table with the other: if it stayed as it was,
// the younger one would be the head.
func TestARowThatWasNotSentStaysBeforeOneThatWasSetAside(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.config.Lease = 60 * time.Second
	b.config.Destinations[0].Block = false
	b.config.Destinations[0].Timeout = 30 * time.Second // the test says when the broker answers
	dead := b.add(1, 1)[0]
	heal := b.poisoned(theRow(dead))
	b.start()
	wait(t, "the head to be parked", b.isParked(dead))

	heal()
	answer := b.broker.answer
	var first uuid.UUID
	b.broker.set(func() {
		b.broker.mute = true
		b.broker.answer = func(key string, id messaging.MessageID, try int) (messaging.PublishResult, bool) {
			if !theRow(dead)(id) && try == 1 && len(b.broker.muted) == 0 {
				return rejected(messaging.CategoryTransientInfrastructure, messaging.CodeBrokerUnreachable, messaging.NotTransmitted), false
			}
			return answer(key, id, try)
		}
	})
	first = b.add(1, 1)[0]
	var tell func()
	wait(t, "the first row to be on its way", func() (found bool) {
		b.broker.set(func() {
			if found = len(b.broker.muted) == 1; found {
				tell = b.broker.muted[0]
			}
		})
		return found
	})
	b.operate(outbox.Redrive, dead)
	second := b.add(1, 1)[0]
	b.until(map[string]int{"HELD": 1, "PENDING": 1, "RETRYABLE_FAILURE": 1})
	b.broker.set(func() { b.broker.mute = false })
	tell()
	b.until(map[string]int{"PUBLISHED": 3})
	b.inOrder([]uuid.UUID{dead, first, second})
}
