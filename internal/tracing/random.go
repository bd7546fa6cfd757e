package tracing

import (
	"crypto/rand"

	"go.opentelemetry.io/otel/trace"
)

// random returns an id that is not all zeros, which would be none.
func random[ID trace.TraceID | trace.SpanID]() (id ID) {
	for id == *new(ID) {
		var b [16]byte
		_, _ = rand.Read(b[:]) // it never fails
		switch to := any(&id).(type) {
		case *trace.TraceID:
			copy(to[:], b[:])
		case *trace.SpanID:
			copy(to[:], b[:])
		}
	}
	return id
}
