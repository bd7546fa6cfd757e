package policy_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/deckhand-sh/deckhand/hub/policy"
)

// What the personas that we ship run is not asked about by the policy that we
// ship: a demonstration that waits for a person shows nothing.
func TestTheShippedPersonasAreNotAskedAbout(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("../../personas/*.script.yaml")
	require.NoError(t, err)
	read := 0
	for _, file := range scripts {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		var script struct {
			Turns []struct {
				Calls []struct {
					Tool      string         `yaml:"tool"`
					Arguments map[string]any `yaml:"arguments"`
				} `yaml:"calls"`
			} `yaml:"turns"`
		}
		require.NoError(t, yaml.Unmarshal(data, &script))
		for _, turn := range script.Turns {
			for _, c := range turn.Calls {
				if command, _ := c.Arguments["command"].(string); c.Tool == "shell_exec" && command != "" {
					read++
					d := policy.Default().Decide(policy.Call{Tool: c.Tool, Arguments: c.Arguments})
					require.NotEqual(t, policy.Ask, d.Effect, "%s: %s: %s", file, d.Why, command)
				}
			}
		}
	}
	require.GreaterOrEqual(t, read, 4)
}
