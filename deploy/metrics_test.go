package deploy

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/backend-skeleton/relay/internal/observe"
	"github.com/backend-skeleton/relay/messaging"
)

// exported gathers what a relay shows at /metrics: each metric of the product with its labels.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	o, err := observe.New(observe.Config{Destinations: map[messaging.DestinationName]string{"d": "b"}})
	if err != nil {
		t.Fatal(err)
	}
	o.Breaker("b", "d", observe.BreakerOpen, "")
	o.Recorded("d", messaging.Confirmed, nil, "PUBLISHED", 1)
	err = o.CollectTable(time.Second, func(context.Context) ([]observe.TableRows, error) {
		return []observe.TableRows{{Destination: "d", Rows: map[string]int64{"PENDING": 1}, Lanes: map[string]int64{"FREE": 1}}}, nil
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
	families, err := o.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	labels := map[string][]string{}
	for _, f := range families {
		labels[f.GetName()] = []string{}
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels[f.GetName()] = append(labels[f.GetName()], l.GetName())
		}
	}
	return labels
}

var (
	selector  = regexp.MustCompile(`\b((?:relay|messaging)_[a-z_]+)\{([^}]*)\}`)
	labelName = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*"`)
)

// checkExpr looks for metrics that no relay exports and for labels that they do not have.
func checkExpr(t *testing.T, where, expr string, known map[string][]string) {
	t.Helper()
	names := metricsIn(expr)
	if len(names) == 0 {
		t.Errorf("%s asks for none of the product's metrics: %s", where, expr)
	}
	for _, name := range names {
		if _, ok := known[name]; !ok {
			t.Errorf("%s: no relay exports %s", where, name)
		}
	}
	for _, s := range selector.FindAllStringSubmatch(expr, -1) {
		name := metricsIn(s[1])[0]
		for _, l := range labelName.FindAllStringSubmatch(s[2], -1) {
			if !slices.Contains(known[name], l[1]) {
				t.Errorf("%s: %s has no label %s, only %s", where, name, l[1], strings.Join(known[name], ", "))
			}
		}
	}
}

// TestDashboardAsksForWhatIsExported: a panel with a misspelt metric is an empty panel, and nobody notices.
func TestDashboardAsksForWhatIsExported(t *testing.T) {
	t.Parallel()
	known := exported(t)
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			checkExpr(t, p.Title, target.Expr, known)
		}
	}
}

// TestAlertsAskForWhatIsExported: an alert on a misspelt metric never fires.
func TestAlertsAskForWhatIsExported(t *testing.T) {
	t.Parallel()
	known := exported(t)
	for _, g := range readAlerts(t).Groups {
		for _, r := range g.Rules {
			checkExpr(t, r.Alert, r.Expr, known)
		}
	}
}

// TestAlertsKnowTheStates: the words in selectors are those that the relay writes.
func TestAlertsKnowTheStates(t *testing.T) {
	t.Parallel()
	for _, g := range readAlerts(t).Groups {
		for _, r := range g.Rules {
			if strings.Contains(r.Expr, "relay_breaker_state") && !strings.Contains(r.Expr, `state="`+observe.BreakerOpen+`"`) {
				t.Errorf("%s waits for a state that no breaker has: %s", r.Alert, r.Expr)
			}
		}
	}
}
