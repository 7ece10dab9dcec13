package client

import (
	"errors"

	"github.com/backend-skeleton/relay/messaging"
)

// ErrCommitUnknown says that COMMIT was sent and no answer came, so the transaction may be committed or not. A message is safe
// either way: it exists if the transaction does. Handling it again through the inbox resolves the doubt: the reservation
// of the next try waits for the open COMMIT and then says DUPLICATE or FIRST.
var ErrCommitUnknown = errors.New("commit without an answer: the transaction may be committed or not")

// refused makes the error of an operation. kind may be nil where cause has one of its own.
func refused(op string, kind error, d messaging.DestinationName, cause error) error {
	return &messaging.Error{Op: op, Kind: kind, Destination: d, Cause: cause}
}
