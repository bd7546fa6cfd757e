// Package tracing sends spans from hub and worker to a collector, over
// OTLP/HTTP. The standard OpenTelemetry variables configure it. It is off
// unless OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is
// set, and if OTEL_SDK_DISABLED=true; OTEL_TRACES_SAMPLER,
// OTEL_RESOURCE_ATTRIBUTES and the others have their standard meaning.
// https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
//
// A nil *Tracer is disabled: it creates no spans and costs nothing. If the
// collector cannot be reached, spans are lost and nothing blocks.
package tracing

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"connectrpc.com/connect"
	"connectrpc.com/otelconnect"
	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/deckhand-sh/deckhand/internal/lifecycle"
	"github.com/deckhand-sh/deckhand/internal/traceparent"
)

// flushTime bounds the sending of the last spans at a stop.
const flushTime = 3 * time.Second

// Tracer makes spans. It is a lifecycle.Service: Stop sends what is left.
type Tracer struct {
	lifecycle.Runner

	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// on reports whether the environment names a collector.
func on() bool {
	return !strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") && os.Getenv("OTEL_TRACES_EXPORTER") != "none" &&
		os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")+os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
}

// New creates the tracer of a service, as the environment says; nil when it is
// off. OTEL_SERVICE_NAME goes before the name.
func New(ctx context.Context, service string, log hclog.Logger) (*Tracer, error) {
	if !on() {
		return nil, nil //nolint:nilnil // nil is a tracer that is off
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("send traces: %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", service)), resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("read OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { log.Warn("traces are not sent", "error", err) }))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about), sdktrace.WithIDGenerator(ids{}))
	return &Tracer{provider: provider, tracer: provider.Tracer("github.com/deckhand-sh/deckhand")}, nil
}

// Start implements lifecycle.Service.
func (t *Tracer) Start(ctx context.Context) error {
	return t.Run(ctx, func(ctx context.Context) error {
		<-ctx.Done()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
		defer cancel()
		return t.provider.Shutdown(ctx)
	})
}

// often are calls that come all the time, or last forever: they make no spans.
var often = []string{"/RenewLeases", "/PublishThinking", "/RecordEvents", "/Watch", "/WatchNodeTelemetry", "/OpenTerminal"}

// Interceptors make a span of each call of the API, at either end, in the trace
// of its caller; none when it is off.
func (t *Tracer) Interceptors() ([]connect.Interceptor, error) {
	if t == nil {
		return nil, nil
	}
	one, err := otelconnect.NewInterceptor(
		otelconnect.WithTracerProvider(t.provider), otelconnect.WithPropagator(propagation.TraceContext{}), otelconnect.WithTrustRemote(),
		otelconnect.WithoutMetrics(),
		otelconnect.WithFilter(func(_ context.Context, spec connect.Spec) bool {
			for _, suffix := range often {
				if strings.HasSuffix(spec.Procedure, suffix) {
					return false
				}
			}
			return true
		}),
	)
	if err != nil {
		return nil, fmt.Errorf("trace calls: %w", err)
	}
	return []connect.Interceptor{one}, nil
}

// Span begins a span. The returned function ends it, as failed if the error is
// not nil, with attributes that were not known before.
func (t *Tracer) Span(ctx context.Context, name string, about ...attribute.KeyValue) (context.Context, func(err error, more ...attribute.KeyValue)) {
	if t == nil {
		return ctx, func(error, ...attribute.KeyValue) {}
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithAttributes(about...))
	return ctx, func(err error, more ...attribute.KeyValue) {
		span.SetAttributes(more...)
		if err != nil {
			span.SetStatus(codes.Error, "") // the words are in the log, masked
		}
		span.End()
	}
}

// Past makes a span of what something with a lasting id did elsewhere, below the
// context's: traceparent.Child names it, for what it began itself.
func (t *Tracer) Past(ctx context.Context, name, id string, from, to time.Time, about ...attribute.KeyValue) {
	if t == nil || !trace.SpanContextFromContext(ctx).IsSampled() || from.IsZero() || to.Before(from) {
		return
	}
	ctx = context.WithValue(ctx, idKey{}, id)
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(from), trace.WithAttributes(about...))
	span.End(trace.WithTimestamp(to))
}

// idKey is the context key of the persistent id of the span to be created.
type idKey struct{}

// ids makes random ids, and those of spans with a lasting id from it.
type ids struct{}

// NewIDs implements sdktrace.IDGenerator.
func (i ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	return random[trace.TraceID](), i.NewSpanID(ctx, trace.TraceID{})
}

// NewSpanID implements sdktrace.IDGenerator.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if id, ok := ctx.Value(idKey{}).(string); ok {
		return traceparent.SpanID(id)
	}
	return random[trace.SpanID]()
}
