package messaging

import (
	"maps"
	"slices"
	"strconv"
)

// BatchError holds the error of each index of a batch that did not succeed.
// [errors.Is] and [errors.As] look into every item.
type BatchError struct{ Items map[int]error }

// Error gives the number of failed items and the first of them.
func (e *BatchError) Error() string {
	if len(e.Items) == 0 {
		return "batch: no item failed"
	}
	first := slices.Min(slices.Collect(maps.Keys(e.Items)))
	return "batch: " + strconv.Itoa(len(e.Items)) + " failed, first is item " + strconv.Itoa(first) + ": " + e.Items[first].Error()
}

// Unwrap gives the items in ascending order of their index.
func (e *BatchError) Unwrap() []error {
	errs := make([]error, 0, len(e.Items))
	for _, i := range slices.Sorted(maps.Keys(e.Items)) {
		errs = append(errs, e.Items[i])
	}
	return errs
}
