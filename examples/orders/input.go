package orders

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"iter"
)

// Step is what happens to an order.
type Step string

// The steps of an order, in this order.
const (
	Placed  Step = "placed"
	Paid    Step = "paid"
	Packed  Step = "packed"
	Shipped Step = "shipped"
)

// Command is one line of the input: move an order by one step. A placed order brings its customer and total.
type Command struct {
	OrderID    string `json:"orderId"`
	Step       Step   `json:"step"`
	Customer   string `json:"customer,omitempty"`
	TotalCents int64  `json:"totalCents,omitempty"`
}

//go:embed orders.jsonl
var bundled []byte

// Bundled reads the commands that come with the example: 250 orders, four steps each, many orders at a time.
func Bundled() iter.Seq2[Command, error] { return Read(bundled) }

// Read reads commands, one JSON object a line. It ends with the first line that is none.
func Read(lines []byte) iter.Seq2[Command, error] {
	return func(yield func(Command, error) bool) {
		in := bufio.NewScanner(bytes.NewReader(lines))
		for n := 1; in.Scan(); n++ {
			var c Command
			if err := json.Unmarshal(in.Bytes(), &c); err != nil {
				yield(c, fmt.Errorf("line %d is no command: %w", n, err))
				return
			}
			if !yield(c, nil) {
				return
			}
		}
		if err := in.Err(); err != nil {
			yield(Command{}, fmt.Errorf("read the commands: %w", err))
		}
	}
}
