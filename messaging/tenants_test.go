package messaging_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/backend-skeleton/relay/messaging"
)

func TestTenantsAreHeldAgainstTheList(t *testing.T) {
	t.Parallel()
	list := messaging.NewTenants("acme", "globex")
	for _, c := range []struct {
		name    string
		tenants *messaging.Tenants
		tenant  messaging.Tenant
		allowed bool
	}{
		{"of the list", list, "acme", true},
		{"absent", list, "", true},
		{"another", list, "initech", false},
		{"another letter case", list, "Acme", false},
		{"an empty list allows none", messaging.NewTenants(), "acme", false},
		{"no list asks nothing", nil, "initech", true},
	} {
		err := c.tenants.Check(c.tenant)
		var f *messaging.Failure
		switch {
		case c.allowed && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case !c.allowed && (!errors.Is(err, messaging.ErrValidation) || !errors.As(err, &f) || f.Code != messaging.CodeTenantNotAllowed):
			t.Errorf("%s: %v", c.name, err)
		case !c.allowed && strings.Contains(strings.ToLower(err.Error()), strings.ToLower(string(c.tenant))):
			t.Errorf("%s: the error quotes the tenant: %v", c.name, err)
		}
	}
}

func TestProfilesLowerHeaderLimits(t *testing.T) {
	t.Parallel()
	headers, err := messaging.NewHeaders(map[string]string{"a": "1", "b": "22"})
	if err != nil {
		t.Fatal(err)
	}
	e := messaging.Destination[int]{Name: "d", Type: "order.created", Version: 1}.New(1)
	e.Producer, e.Headers = "orders", headers
	for _, p := range []messaging.Profile{{MaxHeaders: 1}, {MaxHeaderBytes: 4}} {
		if err := e.Validate(p); !errors.Is(err, messaging.ErrHeaderRejected) {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if err := e.Validate(messaging.Profile{MaxHeaders: 2, MaxHeaderBytes: 5}); err != nil {
		t.Error(err)
	}
}
