package observe_test

import (
	"context"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/observe"
)

// The page is what dashboards and alarms are written from: it must name every metric with its labels.
func TestMetricsAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z, ]*)\\|").FindAllStringSubmatch(string(page), -1) {
		labels := strings.FieldsFunc(m[2], func(r rune) bool { return r == ',' || r == ' ' })
		slices.Sort(labels)
		documented[m[1]] = strings.Join(labels, ",")
	}
	o := newObserver(t, nil)
	everything(t, o, "order-events", "kafka-primary")
	consumers(t, o)
	err = o.CollectTable(time.Second, func(context.Context) ([]observe.TableRows, error) {
		return []observe.TableRows{{Rows: map[string]int64{"PENDING": 1}, Lanes: map[string]int64{"FREE": 1}}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = o.CollectStorage(time.Second, func(context.Context) (observe.Storage, error) {
		return observe.Storage{AsOf: time.Now(), Tables: []observe.Table{{Name: "messaging_outbox", LastVacuum: time.Now()}}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	exported := map[string]string{}
	for name, family := range gather(t, o) {
		var labels []string
		for _, l := range family.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		exported[name] = strings.Join(labels, ",")
	}
	if !maps.Equal(documented, exported) {
		t.Errorf("the page has %v\nexported are %v", documented, exported)
	}
}
