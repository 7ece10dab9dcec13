package json

import (
	"fmt"
	"strconv"

	"github.com/backend-skeleton/relay/messaging"
)

func refuse(code, message string) *messaging.Failure {
	return messaging.NewFailure(messaging.CategoryDeserialization, code, message)
}

// refuseTyped keeps the type of a library's error and drops its text.
func refuseTyped(code, message string, err error) *messaging.Failure {
	f := refuse(code, message)
	f.ErrorType = fmt.Sprintf("%T", err)
	return f
}

func decodeError(f *messaging.Failure) error {
	return &messaging.Error{Op: "decode json", Kind: messaging.ErrSerialization, Failure: f}
}

func encodeError(message string, err error) error {
	f := messaging.NewFailure(messaging.CategoryValidation, messaging.CodeSerialization, message)
	if err != nil {
		f.ErrorType = fmt.Sprintf("%T", err)
	}
	return &messaging.Error{Op: "encode json", Kind: messaging.ErrSerialization, Failure: f}
}

// encodeRefused is the verdict of a check on what would be sent: the code that a consumer would give.
func encodeRefused(f *messaging.Failure) error {
	return &messaging.Error{
		Op: "encode json", Kind: messaging.ErrSerialization,
		Failure: messaging.NewFailure(messaging.CategoryValidation, f.Code, f.Message),
	}
}

func sizeText(have, limit int) string {
	return "the payload has " + strconv.Itoa(have) + " bytes, the limit is " + strconv.Itoa(limit)
}
