package traceparent_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/traceparent"
)

const text = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestATraceContextIsCarriedAsText(t *testing.T) {
	t.Parallel()
	require.Equal(t, text, traceparent.Of(traceparent.With(t.Context(), text)))
	for _, bad := range []string{"", "x", "00-0-0-01", "00-00000000000000000000000000000000-b7ad6b7169203331-01", text + "\n"} {
		require.Empty(t, traceparent.Of(traceparent.With(context.Background(), bad)), "%q", bad)
		require.Empty(t, traceparent.Child(bad, "step_1"), "%q", bad)
	}
}

func TestAChildIsTheSameWheneverItIsAskedFor(t *testing.T) {
	t.Parallel()
	child := traceparent.Child(text, "step_1")
	require.Equal(t, child, traceparent.Child(text, "step_1"))
	require.NotEqual(t, child, traceparent.Child(text, "step_2"))
	require.Equal(t, text[:36], child[:36], "the same trace")
	require.Contains(t, child, traceparent.SpanID("step_1").String())
}
