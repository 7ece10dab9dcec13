package messaging

// Tenants is an allow-list of tenants. Nil allows every value of the right form;
// an empty list allows none. It is immutable and safe for concurrent use.
type Tenants struct{ allowed map[Tenant]struct{} }

// NewTenants makes a list of exactly the given tenants.
func NewTenants(ts ...Tenant) *Tenants {
	t := &Tenants{allowed: make(map[Tenant]struct{}, len(ts))}
	for _, tenant := range ts {
		t.allowed[tenant] = struct{}{}
	}
	return t
}

// Check accepts an absent tenant and one of the list. The error is an
// [ErrValidation] with the code TENANT_NOT_ALLOWED; it never quotes the tenant.
func (t *Tenants) Check(tenant Tenant) error {
	if t == nil || tenant == "" {
		return nil
	}
	if _, ok := t.allowed[tenant]; ok {
		return nil
	}
	return &Error{
		Op: "check tenant", Kind: ErrValidation,
		Failure: NewFailure(CategoryValidation, CodeTenantNotAllowed, "the tenant is not in the allow-list"),
	}
}
