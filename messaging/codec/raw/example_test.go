package raw_test

import (
	"context"
	"fmt"

	"github.com/backend-skeleton/relay/messaging"
	"github.com/backend-skeleton/relay/messaging/codec/raw"
)

// Raw bytes have a codec for each content type. A destination opens them by the grant RAW_BYTES, and every publish of them is
// an audit event.
func Example() {
	ctx := context.Background()
	c, err := raw.New("image/png")
	if err != nil {
		fmt.Println(err)
		return
	}
	data, _, err := c.Encode(ctx, "image.stored", 1, messaging.Raw("bytes"))
	fmt.Println(c.ContentType(), string(data), err)
	_, _, err = c.Encode(ctx, "image.stored", 1, "text is no bytes")
	fmt.Println(err != nil)
	// Output:
	// image/png bytes <nil>
	// true
}
