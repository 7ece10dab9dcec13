package consume

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/backend-skeleton/relay/messaging"
)

// runBatch calls a batch handler with those deliveries that can be read. Every item has a verdict of its own.
func (k *Consumer) runBatch(ctx context.Context, j *job) {
	var ds []any
	var index []int // of ds in the job
	var route *Route
	for n, i := range j.items {
		in := &Incoming{}
		r, v := k.prepare(i, in)
		var d any
		if !v.given {
			d, v = k.decode(ctx, in, r)
		}
		if v.given {
			j.verdicts[n] = v
			if v.free { // what follows waits behind it
				for m := n + 1; m < len(j.items); m++ {
					j.verdicts[m] = v
				}
				break
			}
			continue
		}
		route = r
		ds, index = append(ds, d), append(index, n)
	}
	if len(ds) == 0 {
		return
	}
	results, panicked := k.callBatch(ctx, route, ds)
	unfinished := func() messaging.Result {
		return messaging.Retry(*messaging.NewFailure(messaging.CategoryProcessingTransient, messaging.CodeUnfinished, "the batch's answer does not name the item, or not in a way that counts"))
	}
	for n, result := range itemResults(len(ds), results, unfinished, k.batchError) {
		v := k.judgeCall(ctx, j.items[index[n]], result, panicked)
		if v.failure.Code == messaging.CodeUnfinished {
			v.doubt = true
		}
		j.verdicts[index[n]] = v
	}
}

// itemResults orders a batch's answer by item. What is not named once and within bounds is unfinished.
func itemResults(n int, results []messaging.ItemResult, unfinished func() messaging.Result, report func(*messaging.BatchError)) []messaging.Result {
	out := make([]messaging.Result, n)
	times := make([]int, n)
	bad := map[int]error{}
	for _, r := range results {
		if r.Index < 0 || r.Index >= n {
			bad[r.Index] = errors.New("the batch has no such item")
			continue
		}
		if times[r.Index]++; times[r.Index] > 1 {
			bad[r.Index] = errors.New("the item is named more than once")
		}
		out[r.Index] = r.Result
	}
	for i := range out {
		if times[i] != 1 {
			out[i] = unfinished()
		}
	}
	if len(bad) > 0 {
		report(&messaging.BatchError{Items: bad})
	}
	return out
}

func (k *Consumer) batchError(err *messaging.BatchError) {
	k.c.Logger.Error("a batch handler's answer names items that do not exist, or twice", "consumer", k.c.Name, "error", err)
}

func (k *Consumer) callBatch(ctx context.Context, route *Route, ds []any) (results []messaging.ItemResult, panicked bool) {
	began := time.Now()
	panicked = true
	defer func() {
		outcome := "BATCH"
		if panicked {
			outcome = "PANIC"
			if value := recover(); value != nil {
				k.c.Hooks.panicked(route.Type, value, debug.Stack())
			}
		}
		k.c.Hooks.handled(route.Type, outcome, time.Since(began))
	}()
	results = route.batch(ctx, ds)
	return results, false
}
