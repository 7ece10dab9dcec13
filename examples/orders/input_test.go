package orders

import (
	"strings"
	"testing"
)

// TestBundledOrders: each order walks all its steps in order, and orders overlap, else the demo would prove no order.
func TestBundledOrders(t *testing.T) {
	t.Parallel()
	steps, lines, switches, last := map[string]Step{}, 0, 0, ""
	for c, err := range Bundled() {
		if err != nil {
			t.Fatal(err)
		}
		lines++
		if steps[c.OrderID] != before(c.Step) {
			t.Fatalf("line %d: %s after %q", lines, c.Step, steps[c.OrderID])
		}
		if c.OrderID != last {
			switches, last = switches+1, c.OrderID
		}
		steps[c.OrderID] = c.Step
	}
	for id, s := range steps {
		if s != Shipped {
			t.Errorf("order %s ends as %s", id, s)
		}
	}
	if lines != 1000 || len(steps) != 250 || switches < 500 {
		t.Errorf("%d lines, %d orders, %d switches between orders", lines, len(steps), switches)
	}
}

func TestReadNamesTheLine(t *testing.T) {
	t.Parallel()
	n := 0
	for _, err := range Read([]byte("{\"orderId\":\"R-1\",\"step\":\"placed\"}\n{broken\n{}\n")) {
		n++
		if n == 2 && (err == nil || !strings.Contains(err.Error(), "line 2")) {
			t.Errorf("error %v", err)
		}
	}
	if n != 2 {
		t.Errorf("%d lines, want the reading to end at the second", n)
	}
}
