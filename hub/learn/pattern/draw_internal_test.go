package pattern

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

// A run follows a pattern if it called most of its tools in their order, whatever else it called
// first.
func TestARunFollowsTheToolsInTheirOrder(t *testing.T) {
	t.Parallel()
	called := func(tools ...string) (r run) {
		for _, name := range tools {
			r.steps = append(r.steps, db.StepsToLearnRow{Tool: name, State: "succeeded"})
		}
		return r
	}
	a := Approach{Tools: []string{"file_read", "shell_exec", "file_write"}}
	require.True(t, followed(called("file_write", "file_read", "shell_exec"), a), "one that comes first does not hide the others")
	require.True(t, followed(called("file_read", "shell_exec", "file_write"), a))
	require.False(t, followed(called("file_write", "shell_exec", "file_read"), a))
	require.False(t, followed(called("shell_exec"), a))
}

// A secret in a goal is no keyword.
func TestSecretsAreNoKeywords(t *testing.T) {
	t.Parallel()
	r := run{steps: []db.StepsToLearnRow{{Tool: "shell_exec", State: "succeeded", Arguments: `{"command":"deploy"}`}}}
	r.task.Goal = "Deploy the relay with ghp_0123456789abcdefghijABCDEFGHIJ012345"
	r.task.State = string(task.Succeeded)
	d, ok := draw(r, "deployer", &redact.Redactor{})
	require.True(t, ok)
	require.Equal(t, []string{"deploy", "relay"}, d.Keywords)
}
