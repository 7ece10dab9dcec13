package outbox

import "errors"

// ErrLeaseLost says that another process owns the lane now.
var ErrLeaseLost = errors.New("the lane belongs to another relay")
