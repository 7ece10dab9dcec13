package messagingtest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/backend-skeleton/relay/messaging"
)

// Report is what a run of the contract came to. Every case of the contract is in
// at least one of the lists, by its name: the whole case as "case" or "case:
// reason", a step of it as "case/step: reason".
type Report struct {
	// Proved are the cases of which every step that applies has passed.
	Proved []string
	// NotApplicable are the cases and steps that need a capability which is declared
	// absent, with its name.
	NotApplicable []string
	// NotProved are the steps that this set-up could not provoke. A certified
	// adapter has none.
	NotProved []string
	// Failed are the cases that failed.
	Failed []string
}

// String lists the report, one line per entry.
func (r Report) String() string {
	var b strings.Builder
	for _, part := range []struct {
		title string
		lines []string
	}{{"proved", r.Proved}, {"not applicable", r.NotApplicable}, {"NOT PROVED", r.NotProved}, {"FAILED", r.Failed}} {
		for _, l := range part.lines {
			fmt.Fprintf(&b, "%s: %s\n", part.title, l)
		}
	}
	return b.String()
}

// RunContract runs every case of the contract, each as a subtest by its name,
// over subjects that open gives. A step is skipped only for a capability that the
// adapter declares absent.
//
// A step that the subject cannot provoke does not fail the test: hold the
// report's NotProved against what you accept.
func RunContract(t *testing.T, open func(testing.TB) Subject) Report {
	t.Helper()
	report := runContract(t, contract(), open, func(tb testing.TB, name string, f func(testing.TB)) bool {
		parent, ok := tb.(*testing.T)
		return ok && parent.Run(name, func(t *testing.T) { f(t) })
	})
	t.Logf("the contract:\n%s", report)
	return report
}

// contractCase is one case by its name.
type contractCase struct {
	name  string
	steps []step
}

// step is one proof within a case.
type step struct {
	name string
	// needs are capabilities by their names, "!" before one that must be absent, and [consuming].
	needs string
	run   func(k *kit)
}

// consuming stands among the needs of a step for the consuming half of the port.
const consuming = "Consuming"

// contract is every case.
func contract() []contractCase {
	return slices.Concat(publishingCases(), consumingCases(), handlingCases(), boundaryCases())
}

// subtest runs f under a name and tells whether it passed.
type subtest func(tb testing.TB, name string, f func(testing.TB)) bool

func runContract(tb testing.TB, cases []contractCase, open func(testing.TB) Subject, run subtest) Report {
	tb.Helper()
	var report Report
	var able messaging.Capabilities
	publishOnly := false
	if !run(tb, "capabilities", func(tb testing.TB) {
		k := newKit(tb, open, nil)
		able, publishOnly = k.able(), k.s.PublishOnly
		if publishOnly {
			k.refusesToSubscribe()
		}
	}) {
		report.Failed = append(report.Failed, "capabilities")
		return report
	}
	for _, c := range cases {
		passed, proved, unproved := true, 0, 0
		var absent []string
		ok := run(tb, c.name, func(tb testing.TB) {
			for _, s := range c.steps {
				if missing := absentOf(s.needs, able, publishOnly); missing != "" {
					absent = append(absent, s.name+": "+missing)
					continue
				}
				o := &outcome{}
				passed = run(tb, s.name, func(tb testing.TB) { s.run(newKit(tb, open, o)) }) && passed
				switch {
				case o.impossible != "":
					absent = append(absent, s.name+": "+o.impossible)
				case len(o.unproved) > 0:
					unproved++
					for _, u := range o.unproved {
						report.NotProved = append(report.NotProved, c.name+"/"+s.name+": "+u)
					}
				default:
					proved++
				}
			}
			if passed && proved+unproved == 0 {
				tb.Skipf("not applicable: %s", strings.Join(absent, "; "))
			}
		})
		if reason, all := oneReason(absent); all && len(absent) == len(c.steps) {
			absent = nil
			report.NotApplicable = append(report.NotApplicable, c.name+": "+reason)
		}
		for _, a := range absent {
			report.NotApplicable = append(report.NotApplicable, c.name+"/"+a)
		}
		switch {
		case !ok || !passed:
			report.Failed = append(report.Failed, c.name)
		case proved > 0 && unproved == 0:
			report.Proved = append(report.Proved, c.name)
		}
	}
	return report
}

// oneReason gives the reason that all steps share.
func oneReason(absent []string) (reason string, all bool) {
	for _, a := range absent {
		_, why, _ := strings.Cut(a, ": ")
		if reason != "" && why != reason {
			return "", false
		}
		reason = why
	}
	return reason, reason != ""
}

// outcome is what a step leaves besides passing or failing.
type outcome struct {
	impossible string
	unproved   []string
}

// absentOf says which need is the first that is not met.
func absentOf(needs string, able messaging.Capabilities, publishOnly bool) string {
	has := reflect.ValueOf(able)
	for _, need := range strings.Fields(needs) {
		if need == consuming {
			if publishOnly {
				return "there is no consuming half"
			}
			continue
		}
		if name, not := strings.CutPrefix(need, "!"); not {
			if has.FieldByName(name).Bool() {
				return name + " is declared"
			}
			continue
		}
		if !has.FieldByName(need).Bool() {
			return need + " is not declared"
		}
	}
	return ""
}
