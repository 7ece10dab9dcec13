package jsonschema_test

import (
	"strings"
	"testing"

	"github.com/backend-skeleton/relay/messaging/codec/jsonschema"
)

// A number that has too many digits to be compared is refused without a look at them: in time, without a panic, under
// every keyword that compares. What a float64 holds, and more, is compared exactly.
func TestNumbersThatCannotBeCompared(t *testing.T) {
	t.Parallel()
	for _, keyword := range []string{`"type":"integer"`, `"maximum":5`, `"multipleOf":3`, `"enum":[1,2]`, `"const":1`} {
		s, err := jsonschema.Compile([]byte(`{"items":{` + keyword + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		for _, number := range []string{"1e1001", "1E+1000000", "-1e-1000000000", "1e99999999999999999999", strings.Repeat("9", 1001)} {
			body := "[" + strings.Repeat(number+",", 1000) + number + "]"
			if rule := s.Broken([]byte(body)); rule != "a number of more than 1000 digits, which is not compared" {
				t.Errorf("%s, %.20s: %q", keyword, number, rule)
			}
		}
	}
	s, err := jsonschema.Compile([]byte(`{"properties":{"n":{"maximum":18446744073709551615}},"additionalProperties":{"type":"integer"}}`))
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{
		`{"n":18446744073709551615}`: "", `{"n":18446744073709551616}`: "#/properties/n/maximum", `{"n":1e400}`: "#/properties/n/maximum", `{"n":-1e400}`: "",
		`{"m":1e400}`: "", `{"m":1.0}`: "", `{"m":1e-1}`: "#/additionalProperties/type",
	} {
		if rule := s.Broken([]byte(body)); rule != want {
			t.Errorf("%s: %q, want %q", body, rule, want)
		}
	}
	if _, err := jsonschema.Compile([]byte(`{"maximum":1e1000000000}`)); err == nil {
		t.Error("a schema with a number of a thousand million digits compiles")
	}
}
