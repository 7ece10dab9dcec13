package config

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"net"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// checker holds a decoded configuration against the rules that no single value can break.
type checker struct {
	c        *Config
	broken   map[string]bool // paths that are blamed already
	findings []Finding
	warnings []string
}

func (k *checker) all() {
	k.unavailable()
	k.environment()
	k.relay()
	k.limits()
	k.credentials()
	k.brokers()
	k.catalogue()
	k.destinations()
	k.consumers()
	k.parking()
	k.inbox()
}

// find blames a path, once.
func (k *checker) find(at, format string, args ...any) {
	if k.broken[at] {
		return
	}
	k.broken[at] = true
	f := Finding{Path: at, Variable: k.c.env[at], Message: fmt.Sprintf(format, args...)}
	if f.Variable == "" {
		f.Line = nearestLine(k.c.lines, at)
	}
	k.findings = append(k.findings, f)
}

func (k *checker) warn(at, format string, args ...any) {
	k.warnings = append(k.warnings, at+": "+fmt.Sprintf(format, args...))
}

// set tells whether a path stands in the file or the environment.
func (k *checker) set(at string) bool { return k.c.known[at] }

// guarded tells an environment in which the rules of production hold.
func (k *checker) guarded() bool {
	return k.c.Messaging.Environment == Staging || k.c.Messaging.Environment == Production
}

// each walks a map by name, so that findings come in one order.
func each[T any](m map[string]T) iter.Seq2[string, T] {
	return func(yield func(string, T) bool) {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			if !yield(name, m[name]) {
				return
			}
		}
	}
}

// unavailable refuses features that this version does not have, instead of ignoring that they are switched on.
func (k *checker) unavailable() {
	c := k.c
	const not = "is not available in this version"
	for at, on := range each(map[string]bool{
		"admin.enabled":                c.Admin.Enabled,
		"cdc.enabled":                  c.CDC.Enabled,
		"experimental.enabled":         c.Experimental.Enabled,
		"observability.traces.enabled": c.Observability.Traces.Enabled,
	}) {
		if on {
			k.find(at, not+"; write false or leave it out")
		}
	}
	if len(c.ClaimCheck.Stores) > 0 {
		k.find("claim-check.stores", not+"; payloads stay within the logical limit")
	}
}

func (k *checker) environment() {
	const at = "messaging.topology.mode"
	switch mode := k.c.Messaging.Topology.Mode; {
	case mode == AutoCreateDev && k.guarded():
		k.find(at, "topology is never created by the relay in %s; use VALIDATE_ONLY", k.c.Messaging.Environment)
	case mode != ValidateOnly:
		k.find(at, "%s is not available in this version; use VALIDATE_ONLY", mode)
	}
}

func (k *checker) relay() {
	r := k.c.Relay
	if len(r.Serve) == 0 {
		k.find("relay.serve", "is empty; name destinations, or leave it out to serve all")
	}
	for i, pattern := range r.Serve {
		k.servePattern(fmt.Sprintf("relay.serve[%d]", i), pattern)
	}
	if r.Poll >= r.Lease {
		k.find("relay.poll", "%s must be shorter than relay.lease (%s)", r.Poll, r.Lease)
	}
	k.backoff("relay.backoff", r.Backoff)
	if r.Breaker.OpenFor > r.Breaker.OpenMax {
		k.find("relay.breaker.open-for", "%s is more than relay.breaker.open-max (%s)", r.Breaker.OpenFor, r.Breaker.OpenMax)
	}
	k.address("http.listen", k.c.HTTP.Listen)
	k.address("admin.listen", k.c.Admin.Listen)
}

func (k *checker) servePattern(at, pattern string) {
	if _, err := path.Match(pattern, ""); err != nil {
		k.find(at, "%s is not a glob; an opening [ needs its ]", shown(pattern))
		return
	}
	for name := range k.c.Messaging.Destinations {
		if ok, _ := path.Match(pattern, name); ok {
			return
		}
	}
	if strings.ContainsAny(pattern, `*?[\`) {
		k.warn(at, "%s matches no destination of the file", shown(pattern))
		return
	}
	k.find(at, "no destination has this name%s", suggest(pattern, slices.Collect(maps.Keys(k.c.Messaging.Destinations))))
}

func (k *checker) backoff(at string, b Backoff) {
	if b.Initial > b.Max {
		k.find(at+".initial", "%s is more than %s.max (%s)", b.Initial, at, b.Max)
	}
}

// address checks a listener's host:port.
func (k *checker) address(at, text string) {
	_, port, err := net.SplitHostPort(text)
	n, numberErr := strconv.Atoi(port)
	if err != nil || numberErr != nil || n < 0 || n > 65535 {
		k.find(at, "is not an address; write host:port, such as 127.0.0.1:8080")
	}
}

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*$`)

// name checks the name of a map entry.
func (k *checker) name(at, name string, most int) {
	if len(name) > most {
		k.find(at, "the name is longer than %d characters", most)
		return
	}
	if !nameForm.MatchString(name) {
		k.find(at, "the name must be of a-z 0-9 . _ - and begin with a letter or digit")
	}
}

// maxDestinationName is in characters, as in the table.
const maxDestinationName = 160

// destinationForm is nameForm in the letters and digits of any script, as far as they have no upper case.
var destinationForm = regexp.MustCompile(`^[\p{Ll}\p{Lo}\p{Lm}\p{N}][\p{Ll}\p{Lo}\p{Lm}\p{M}\p{N}._-]*$`)

func (k *checker) destinationName(at, name string) {
	switch {
	case utf8.RuneCountInString(name) > maxDestinationName:
		k.find(at, "the name is longer than %d characters", maxDestinationName)
	case !destinationForm.MatchString(name):
		k.find(at, "the name must be of lower-case letters, digits and . _ - and begin with a letter or digit")
	}
}

// reference checks that a name stands in a map of the file.
func reference[T any](k *checker, at, name, where string, m map[string]T) (T, bool) {
	v, ok := m[name]
	if !ok {
		k.find(at, "%s is not in %s%s", shown(name), where, suggestReference(name, slices.Sorted(maps.Keys(m))))
	}
	return v, ok
}

func suggestReference(name string, known []string) string {
	if len(known) == 0 {
		return ", which is empty"
	}
	return suggest(name, known)
}

func sortedKeys[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }

// orDefault is the value of an optional setting.
func orDefault[T cmp.Ordered](p *T, fallback T) T {
	if p == nil {
		return fallback
	}
	return *p
}
