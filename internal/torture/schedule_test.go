package torture

import (
	"testing"
	"time"
)

// A seed is worth reporting only if it brings the same faults again.
func TestPlanIsReproducible(t *testing.T) {
	t.Parallel()
	plan := func(seed uint64) Plan { return NewPlan(seed, 4*time.Hour, 4, 3*time.Second, true) }
	if a, b := plan(7), plan(7); a.String() != b.String() {
		t.Error("one seed made two plans")
	}
	if plan(7).String() == plan(8).String() {
		t.Error("two seeds made one plan")
	}
	kinds := map[Target]map[Kind]int{}
	for _, s := range plan(7) {
		for _, f := range s.Faults {
			if kinds[f.Target] == nil {
				kinds[f.Target] = map[Kind]int{}
			}
			kinds[f.Target][f.Kind]++
		}
	}
	for target, want := range map[Target]int{Relay: 3, Link: 7, Database: 7, Kafka: 7, Rabbit: 8, Rows: 1, PostgresServer: 2, KafkaServer: 2, RabbitServer: 2} {
		if len(kinds[target]) != want {
			t.Errorf("%s: %v, want %d kinds of faults in four hours", target, kinds[target], want)
		}
	}
}
