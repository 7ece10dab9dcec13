package publish_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/backend-skeleton/relay/internal/publish"
	"github.com/backend-skeleton/relay/internal/testenv"
	"github.com/backend-skeleton/relay/messaging"
)

// flood asks in 200 goroutines and answers as the number of the request says.
type flood struct {
	t        *testing.T
	box      mailbox
	request  messaging.Requester[order, quote]
	mu       sync.Mutex // guards what follows
	right    int
	timeouts int
	answers  sync.WaitGroup
}

// answer after some time, so many times.
func (f *flood) answer(to messaging.MessageID, number, times int, after time.Duration) {
	f.answers.Go(func() {
		<-time.After(after) // virtual time
		for range times {
			f.box <- answerTo(to, fmt.Sprintf(`{"cents":%d}`, number))
		}
	})
}

// ask makes n requests; of each twenty, share are answered in time, the last one of those twice, and slow ones late.
func (f *flood) ask(n, share, twice, slow int) {
	f.t.Helper()
	next := make(chan int)
	var workers sync.WaitGroup
	for range 200 {
		workers.Go(func() {
			for number := range next {
				e := event("")
				switch kind := number % 20; {
				case kind < share-twice:
					f.answer(e.ID, number, 1, 10*time.Millisecond)
				case kind < share:
					f.answer(e.ID, number, 2, 10*time.Millisecond)
				case kind < share+slow:
					f.answer(e.ID, number, 1, time.Second)
				}
				ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
				d, err := f.request.Request(ctx, e)
				cancel()
				f.mu.Lock()
				switch {
				case err == nil && d.Payload.Cents == number && d.Causation.MessageID == e.ID:
					f.right++
				case errors.Is(err, messaging.ErrReplyTimeout):
					f.timeouts++
				default:
					f.t.Errorf("request %d: cents %d, %v", number, d.Payload.Cents, err)
				}
				f.mu.Unlock()
			}
		})
	}
	for number := range n {
		next <- number
	}
	close(next)
	workers.Wait()
	f.answers.Wait()
	synctest.Wait()
}

// A request ends once, whatever comes when: late, double and missing replies are counted, reach no other request, and leave
// no waiter behind.
func TestC35_LateRepliesReachNobody(t *testing.T) {
	t.Parallel()
	n := 2000
	if testenv.Full() {
		n = 20_000
	}
	synctest.Test(t, func(t *testing.T) {
		f := &flood{t: t, box: make(mailbox)}
		var late, duplicate int
		replies, err := publish.NewReplies(t.Context(), f.box, func(isLate bool) {
			if isLate {
				late++
			} else {
				duplicate++
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() { replies.Run(); close(ended) }()
		b := newBench(t, &edge{}, 0)
		b.Granted = all
		f.request, err = publish.NewRequester(b.Destination, created, quoted, replies)
		if err != nil {
			t.Fatal(err)
		}
		before := runtime.NumGoroutine()
		f.ask(n, 15, 1, 4)
		if f.right != n*15/20 || f.timeouts != n*5/20 || late != n*4/20 || duplicate != n/20 {
			t.Errorf("%d right replies, %d timeouts, %d late, %d double", f.right, f.timeouts, late, duplicate)
		}
		if after := runtime.NumGoroutine(); after > before+20 {
			t.Errorf("%d goroutines, there were %d", after, before)
		}
		f.right = 0
		f.ask(1000, 20, 0, 0)
		if f.right != 1000 {
			t.Errorf("%d of 1000 requests were answered afterwards", f.right)
		}
		close(f.box)
		<-ended
	})
}
