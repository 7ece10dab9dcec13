package config

import (
	"errors"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time in the file: Go's syntax plus d for days of 24 hours (500ms, 30s, 5m, 7d, 1d12h).
// A unit is always needed, and a duration is always more than zero: no value means "for ever" or "never".
type Duration time.Duration

// MaxDuration is the longest duration that the file may name: about a hundred years.
const MaxDuration = Duration(36500 * day)

const day = 24 * time.Hour

var daysPart = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?)d(.*)$`)

// Std returns the duration as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String prints the duration as the file would hold it, whole days as d.
func (d Duration) String() string {
	if d > 0 && time.Duration(d)%day == 0 {
		return strconv.FormatInt(int64(time.Duration(d)/day), 10) + "d"
	}
	text := time.Duration(d).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// MarshalText gives the form of the file.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// ParseDuration reads the form of the file. Zero, negative and longer than MaxDuration are errors, as is a number
// without unit.
func ParseDuration(text string) (Duration, error) {
	if text == "" {
		return 0, errors.New("is empty; write a duration such as 500ms, 30s, 5m or 7d")
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, errors.New("has no unit; write a duration such as 500ms, 30s, 5m or 7d")
	}
	rest, days := text, 0.0
	if m := daysPart.FindStringSubmatch(text); m != nil {
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return 0, errNoDuration
		}
		days, rest = n, m[2]
		if strings.HasPrefix(rest, "-") || strings.HasPrefix(rest, "+") {
			return 0, errNoDuration
		}
	}
	var d time.Duration
	if rest != "" {
		parsed, err := time.ParseDuration(rest)
		if err != nil {
			return 0, errNoDuration
		}
		d = parsed
	}
	total := days*float64(day) + float64(d)
	if total > float64(MaxDuration) || math.IsNaN(total) {
		return 0, errors.New("is longer than " + MaxDuration.String())
	}
	sum := Duration(days*float64(day)) + Duration(d)
	if sum <= 0 {
		return 0, errors.New("must be more than 0; no duration means \"never\" or \"for ever\"")
	}
	return sum, nil
}

var errNoDuration = errors.New("is not a duration; write one such as 500ms, 30s, 5m or 7d")

func (d *Duration) parseText(text string) error {
	parsed, err := ParseDuration(text)
	if err != nil {
		return err
	}
	*d = parsed
	return nil
}
