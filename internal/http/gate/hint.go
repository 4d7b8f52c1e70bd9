package gate

import "context"

type (
	questionKey struct{}
	causeKey    struct{}
)

// AsQuestion marks ctx as that of a question for a quota.
func AsQuestion(ctx context.Context) context.Context {
	return context.WithValue(ctx, questionKey{}, true)
}

// IsQuestion reports whether ctx is that of a question for a quota. A rule is asked what one more
// unit would meet, since there is no request whose cost it could find.
func IsQuestion(ctx context.Context) bool { return ctx.Value(questionKey{}) != nil }

// WithCause returns a context with a function that says why a request costs so many tokens, in a
// sentence of printable ASCII without quotes and backslashes.
func WithCause(ctx context.Context, cause func() string) context.Context {
	return context.WithValue(ctx, causeKey{}, cause)
}

// causeOf returns that sentence, or "".
func causeOf(ctx context.Context) string {
	if cause, ok := ctx.Value(causeKey{}).(func() string); ok {
		return cause()
	}
	return ""
}
