package messaging_test

import (
	"testing"

	"github.com/backend-skeleton/relay/messaging"
)

func TestOnlyAllowedBaggageTravels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, baggage string
		allowed       []string
		want          string
	}{
		{"nothing allowed", "tenant=acme,user=7", nil, ""},
		{"one of two", "tenant=acme,user=7", []string{"tenant"}, "tenant=acme"},
		{"spaces and properties", " tenant = acme ;ttl=1 , user=7", []string{"tenant"}, "tenant = acme ;ttl=1"},
		{"another letter case", "Tenant=acme", []string{"tenant"}, ""},
		{"a key as a value", "user=tenant", []string{"tenant"}, ""},
		{"no value", "tenant", []string{"tenant"}, "tenant"},
		{"empty members", ",,tenant=acme,", []string{"tenant"}, "tenant=acme"},
		{"none", "", []string{"tenant"}, ""},
	} {
		in := messaging.TraceContext{Parent: "p", State: "s", Baggage: c.baggage}
		if got := in.WithBaggage(c.allowed); got.Baggage != c.want || got.Parent != "p" || got.State != "s" {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
