package config

import (
	"errors"
	"math"
	"regexp"
	"strconv"
)

// Size is a number of bytes in the file: a whole number, alone (bytes) or with B, KiB, MiB or GiB (4MiB). A size is
// always more than zero.
type Size int64

var (
	sizeForm  = regexp.MustCompile(`^([0-9]+)(B|KiB|MiB|GiB)?$`)
	sizeUnits = map[string]int64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
)

// String prints the size in the largest unit that divides it.
func (s Size) String() string {
	for _, unit := range []string{"GiB", "MiB", "KiB"} {
		if n := sizeUnits[unit]; s != 0 && int64(s)%n == 0 {
			return strconv.FormatInt(int64(s)/n, 10) + unit
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// MarshalText gives the form of the file.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// ParseSize reads the form of the file. Zero, negative and unknown units are errors.
func ParseSize(text string) (Size, error) {
	m := sizeForm.FindStringSubmatch(text)
	if m == nil {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil && n < 0 {
			return 0, errors.New("must be more than 0 bytes")
		}
		return 0, errors.New("is not a size; write bytes, or a whole number with KiB, MiB or GiB, such as 4MiB")
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil || n > math.MaxInt64/sizeUnits[m[2]] {
		return 0, errors.New("is too large for a size")
	}
	if n == 0 {
		return 0, errors.New("must be more than 0 bytes; no size means \"unlimited\"")
	}
	return Size(n * sizeUnits[m[2]]), nil
}

func (s *Size) parseText(text string) error {
	parsed, err := ParseSize(text)
	if err != nil {
		return err
	}
	*s = parsed
	return nil
}
