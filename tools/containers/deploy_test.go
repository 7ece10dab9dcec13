package main

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	promql "github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// The operating files of the project through the parsers of the tools that read them. No daemon is needed.

func TestComposeFileByComposesOwnParser(t *testing.T) {
	t.Parallel()
	options, err := cli.NewProjectOptions([]string{"../../docker-compose.yml"}, cli.WithInterpolation(true), cli.WithResolvedPaths(true))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if n := len(project.Services); n < 6 {
		t.Errorf("%d services", n)
	}
}

func TestDockerfileByBuildKitsOwnParser(t *testing.T) {
	t.Parallel()
	f, err := os.Open("../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tree, err := parser.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	stages, _, err := instructions.Parse(tree.AST, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(stages) != 2 {
		t.Errorf("%d stages, want a build and one that runs", len(stages))
	}
}

func TestAlertsByPrometheusOwnParser(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var alerts struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(text, &alerts); err != nil {
		t.Fatal(err)
	}
	for _, g := range alerts.Groups {
		for _, r := range g.Rules {
			parseExpr(t, r.Alert, r.Expr)
		}
	}
}

func TestDashboardByPrometheusOwnParser(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../deploy/grafana/dashboards/relay.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	// what Grafana fills in before Prometheus sees the expression
	interval, destination := regexp.MustCompile(`\$__rate_interval`), regexp.MustCompile(`\$destination`)
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			expr := destination.ReplaceAllString(interval.ReplaceAllString(target.Expr, "1m"), ".*")
			parseExpr(t, p.Title, expr)
		}
	}
}

func parseExpr(t *testing.T, where, expr string) {
	t.Helper()
	if _, err := promql.NewParser(promql.Options{}).ParseExpr(expr); err != nil {
		t.Errorf("%s: %v", where, err)
	}
}
