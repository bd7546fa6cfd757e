// Package traceparent carries a W3C trace context across boundaries without
// OpenTelemetry instrumentation: a task's row, the claim of a wake-up, the link
// to a node, and a command's environment. It imports only OpenTelemetry's
// interfaces, so that it adds little to a node's binary.
//
// A trace context is the value of the header "traceparent", or "" for none.
// https://www.w3.org/TR/trace-context/
package traceparent

import (
	"context"
	"crypto/sha256"
	"net/http"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// Header is the name of the header, in HTTP and in gRPC's metadata alike.
const Header = "traceparent"

// Variable is the name under which commands find theirs.
const Variable = "TRACEPARENT"

// Of returns the context's trace context.
func Of(ctx context.Context) string {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ""
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return carrier[Header]
}

// With returns a context that continues with a trace; the same one where the
// text is empty or no trace context.
func With(ctx context.Context, text string) context.Context {
	if text == "" {
		return ctx
	}
	return propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{Header: text})
}

// Child returns the trace context of something with a lasting id in the trace
// that text belongs to: the same one whenever it is asked for.
func Child(text, id string) string {
	parent := trace.SpanContextFromContext(With(context.Background(), text))
	if !parent.IsValid() {
		return ""
	}
	return Of(trace.ContextWithRemoteSpanContext(context.Background(), parent.WithSpanID(SpanID(id))))
}

// SpanID returns the span id of something with a lasting id.
func SpanID(id string) trace.SpanID {
	sum := sha256.Sum256([]byte(id))
	return trace.SpanID(sum[:8])
}

// Transport adds the trace context of each request's own context to it.
func Transport(next http.RoundTripper) http.RoundTripper {
	if next == nil {
		next = http.DefaultTransport
	}
	return transport{next}
}

type transport struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if text := Of(r.Context()); text != "" {
		r = r.Clone(r.Context())
		r.Header.Set(Header, text)
	}
	return t.next.RoundTrip(r)
}
