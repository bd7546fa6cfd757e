package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPolicyCorpusPrintsWhatPassesPerClassWithoutAHub(t *testing.T) {
	t.Parallel()
	got := execute(t.Context(), "policy", "corpus", "--json")
	require.Equal(t, 0, got.code, got.stderr)
	var scores []struct {
		Class                 string
		Cases, Percent, Limit float64
	}
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &scores))
	require.Len(t, scores, 3)
	require.Equal(t, "evasion", scores[0].Class)
	require.GreaterOrEqual(t, scores[0].Cases, 150.0)
	require.GreaterOrEqual(t, scores[1].Cases, 40.0)
	require.GreaterOrEqual(t, scores[2].Cases, 300.0)
	require.Equal(t, 4.0, scores[2].Limit)
	require.Contains(t, execute(t.Context(), "policy", "corpus").stdout, "PERCENT")
}

func TestPolicyCorpusFailsOverALimit(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "mine.yaml")
	require.NoError(t, os.WriteFile(file, []byte("evasion:\n  - {does: nothing, script: ls}\n  - {does: deletes the root, script: rm -rf /}\n"), 0o600))
	got := execute(t.Context(), "policy", "corpus", file, "--wrong")
	require.Equal(t, 1, got.code)
	require.Contains(t, got.stderr, "50.0 % of the evasion cases, and 30 % is the limit")
	require.Contains(t, got.stderr, "nothing: it passes")
	require.Equal(t, 0, execute(t.Context(), "policy", "corpus", file, "--max-evasions", "50").code)
	require.NoError(t, os.WriteFile(file, []byte("evasions: []\n"), 0o600))
	got = execute(t.Context(), "policy", "corpus", file)
	require.Contains(t, got.stderr, `there is no class "evasions": write evasion, sequence or everyday`)
}
