// Package logging creates the process's logger: structured, with levels, and
// with secrets masked. Every line passes through the process's Redactor. The
// package also carries correlation ids in contexts.
package logging

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel/trace"

	"github.com/deckhand-sh/deckhand/internal/redact"
)

// Config says how to log.
type Config struct {
	// Level is trace, debug, info, warn or error.
	Level string `koanf:"log-level"`
	// Format is json or text.
	Format string `koanf:"log-format"`
}

// New creates a logger that writes to w, and to the sinks that are registered with it.
func New(name string, cfg Config, w io.Writer, r *redact.Redactor) (hclog.Logger, error) {
	level := hclog.LevelFromString(cfg.Level)
	if level == hclog.NoLevel {
		return nil, fmt.Errorf("log-level %q: use trace, debug, info, warn or error", cfg.Level)
	}
	if cfg.Format != "json" && cfg.Format != "text" {
		return nil, fmt.Errorf("log-format %q: use json or text", cfg.Format)
	}
	return hclog.NewInterceptLogger(&hclog.LoggerOptions{
		Name: name, Level: level, Output: r.Writer(w), JSONFormat: cfg.Format == "json",
	}), nil
}

type correlationKey struct{}

// CorrelationHeader carries the correlation id between processes, in HTTP
// headers and gRPC metadata alike.
const CorrelationHeader = "deckhand-correlation-id"

// WithCorrelation adds a correlation id to a context.
func WithCorrelation(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, correlationKey{}, id)
}

// Correlation returns the context's correlation id, or "".
func Correlation(ctx context.Context) string {
	id, _ := ctx.Value(correlationKey{}).(string)
	return id
}

// ValidCorrelation reports whether an id from outside may be taken over: 1 to 64
// letters, digits, dashes and underscores.
func ValidCorrelation(id string) bool {
	return id != "" && len(id) <= 64 && strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// From returns the logger with the context's correlation id, and the id of its
// trace where it has one.
func From(ctx context.Context, log hclog.Logger) hclog.Logger {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		log = log.With("trace_id", span.TraceID().String())
	}
	if id := Correlation(ctx); id != "" {
		return log.With("correlation_id", id)
	}
	return log
}
