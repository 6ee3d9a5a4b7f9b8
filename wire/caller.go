package wire

import "context"

// Tenant is whose requests they are: a named token, with what it may.
type Tenant struct {
	Name   string
	Weight float64 // of its share of a service beside others'; 0 means 1
	Rate   float64 // requests per second that it may send to a gateway; 0 means any
}

type tenantKey struct{}

// WithTenant is the context of the requests of a tenant; nil changes nothing.
func WithTenant(ctx context.Context, t *Tenant) context.Context {
	if t == nil {
		return ctx
	}
	return context.WithValue(ctx, tenantKey{}, t)
}

// TenantOf is whose request it is; nil where callers have no tokens of their own.
func TenantOf(ctx context.Context) *Tenant {
	t, _ := ctx.Value(tenantKey{}).(*Tenant)
	return t
}

// Caller is the name of a tenant, the name of a token; empty for nil.
func (t *Tenant) Caller() string {
	if t == nil {
		return ""
	}
	return t.Name
}
