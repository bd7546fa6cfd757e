// Package traceparent carries a W3C trace context over the places that no
// instrumentation crosses: a task's row, a wake-up's claim, the link to a node,
// and a command's environment. It links no more of OpenTelemetry than its
// interfaces, so that a node may use it.
//
// A trace context is the text of the header "traceparent": empty for none.
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

// With returns a context that goes on with a trace; the same one where the text
// is empty or no trace context.
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
