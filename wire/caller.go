package wire

import "context"

type callerKey struct{}

// WithCaller is the context of requests of a caller, by the name of its token; an empty
// name changes nothing.
func WithCaller(ctx context.Context, name string) context.Context {
	if name == "" {
		return ctx
	}
	return context.WithValue(ctx, callerKey{}, name)
}

// Caller is whose request it is: the name of a token, empty where callers have none of
// their own.
func Caller(ctx context.Context) string {
	name, _ := ctx.Value(callerKey{}).(string)
	return name
}
