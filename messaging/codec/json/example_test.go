package json_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/codec/json"
)

// Numbers keep their digits, a key given twice is refused, and a strict consumer refuses fields that it does not know.
func Example() {
	ctx := context.Background()
	c, err := json.New(json.Config{MaxDepth: 8, UnknownFields: json.RefuseUnknownFields})
	if err != nil {
		fmt.Println(err)
		return
	}
	var order struct {
		ID   uint64 `json:"id"`
		Open any    `json:"open"`
	}
	fmt.Println(c.Decode(ctx, "order.created", 1, nil, []byte(`{"id":18446744073709551615,"open":1.10}`), &order), order.ID, order.Open)
	for _, body := range []string{`{"id":1,"id":2}`, `{"id":1,"note":"x"}`} {
		var f *messaging.Failure
		fmt.Println(errors.As(c.Decode(ctx, "order.created", 1, nil, []byte(body), &order), &f), f.Code)
	}
	// Output:
	// <nil> 18446744073709551615 1.10
	// true DUPLICATE_KEY
	// true UNKNOWN_FIELD
}
