package schema

import (
	"bytes"
	"encoding/json"
	"math/big"
)

// document reads a schema with its digits as they stand: two integers may differ where no float64 does.
func document(data []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

// precision in bits is far above what schemas compare, and bounds what a number can cost.
const precision = 1024

func number(v any) (*big.Float, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return nil, false
	}
	f, _, err := big.ParseFloat(n.String(), 10, precision, big.ToNearestEven)
	return f, err == nil
}

// equal tells whether two parts of documents say the same; 1 and 1.0 do.
func equal(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		x, okX := number(a)
		y, okY := number(b)
		return okX && okY && x.Cmp(y) == 0
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key, value := range a {
			if other, has := b[key]; !has || !equal(value, other) {
				return false
			}
		}
		return true
	default:
		switch b.(type) {
		case []any, map[string]any, json.Number:
			return false
		}
		return a == b
	}
}
