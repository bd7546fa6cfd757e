package cli_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// A command prints the precision and recall of the guardrails, without a hub.
func TestEvalGuardrailsPrintsPrecisionAndRecall(t *testing.T) {
	t.Parallel()
	got := execute(t.Context(), "eval", "guardrails", "-o", "json")
	require.Equal(t, 0, got.code, got.stderr)
	var scores []struct {
		Verdict           string
		Traces            int
		Precision, Recall float64
	}
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &scores))
	require.Len(t, scores, 2)
	require.Equal(t, "stop", scores[0].Verdict)
	require.GreaterOrEqual(t, scores[0].Traces, 100)
	require.GreaterOrEqual(t, scores[0].Precision, 0.90)
	require.GreaterOrEqual(t, scores[0].Recall, 0.80)
	require.Contains(t, execute(t.Context(), "eval", "guardrails").stdout, "PRECISION")
}
