package deploy

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var metricName = regexp.MustCompile(`\b(?:relay|messaging)_[a-z_]+\b`)

// metricsIn lists the names of the product's metrics in a PromQL expression, without the suffixes of a histogram.
func metricsIn(expr string) []string {
	var names []string
	for _, n := range metricName.FindAllString(expr, -1) {
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			n = strings.TrimSuffix(n, suffix)
		}
		names = append(names, n)
	}
	return names
}

type alertFile struct {
	Groups []struct {
		Name  string `yaml:"name"`
		Rules []struct {
			Alert       string            `yaml:"alert"`
			Expr        string            `yaml:"expr"`
			For         string            `yaml:"for"`
			Labels      map[string]string `yaml:"labels"`
			Annotations map[string]string `yaml:"annotations"`
		} `yaml:"rules"`
	} `yaml:"groups"`
}

func readAlerts(t *testing.T) alertFile {
	t.Helper()
	f, err := os.Open("prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var a alertFile
	dec := yaml.NewDecoder(f)
	dec.KnownFields(true)
	if err := dec.Decode(&a); err != nil {
		t.Fatalf("alerts.yml: %v", err)
	}
	return a
}

// TestAlertsSayWhatToDo: an alert without an action wakes someone up for nothing.
func TestAlertsSayWhatToDo(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, g := range readAlerts(t).Groups {
		for _, r := range g.Rules {
			if seen[r.Alert] {
				t.Errorf("alert %s stands there twice", r.Alert)
			}
			seen[r.Alert] = true
			if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["action"] == "" {
				t.Errorf("alert %s lacks a severity, a summary or an action", r.Alert)
			}
		}
	}
	if len(seen) == 0 {
		t.Error("no alert")
	}
}

type dashboard struct {
	UID    string `json:"uid"`
	Panels []struct {
		ID      int    `json:"id"`
		Title   string `json:"title"`
		GridPos struct{ X, Y, W, H int }
		Targets []struct {
			Expr string `json:"expr"`
		} `json:"targets"`
	} `json:"panels"`
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	text, err := os.ReadFile("grafana/dashboards/relay.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatalf("relay.json: %v", err)
	}
	return d
}

// TestDashboardLayout: panels have ids of their own, fit the grid of 24 columns and do not overlap.
func TestDashboardLayout(t *testing.T) {
	t.Parallel()
	d := readDashboard(t)
	if d.UID != "relay" {
		t.Errorf("uid %q; links in the documents end in /d/relay", d.UID)
	}
	type cell struct{ x, y int }
	ids, cells := map[int]bool{}, map[cell]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("panel %q: id %d is taken", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q leaves the grid", p.Title)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other, taken := cells[cell{x, y}]; taken && other != p.Title {
					t.Fatalf("panels %q and %q overlap", other, p.Title)
				}
				cells[cell{x, y}] = p.Title
			}
		}
		if len(p.Targets) == 0 {
			t.Errorf("panel %q shows nothing", p.Title)
		}
	}
}
