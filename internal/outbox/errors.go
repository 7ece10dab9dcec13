package outbox

import "errors"

// ErrLeaseLost says that another process owns the lane now.
var ErrLeaseLost = errors.New("the lane belongs to another relay")

// ErrRefused says that the table refuses a value for good: repeated, the statement fails the same way.
var ErrRefused = errors.New("the table refuses a value")

// ErrReadOnly says that the server takes no writes: it became a standby, or was set to read only.
var ErrReadOnly = errors.New("the database is read-only")
