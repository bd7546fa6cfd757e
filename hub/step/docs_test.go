package step

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/work/task"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// move matches a transition of a diagram other than the initial one.
var move = regexp.MustCompile(`(?m)^  ([a-z_]+) --> ([a-z_]+)`)

// The diagrams of a task's and a step's states in docs/architecture.md show every
// transition of the tables. The text below the diagrams describes those to cancelled and
// timed_out.
func TestTheDocumentedStatesAreTheTables(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/architecture.md")
	require.NoError(t, err)
	documented := func(heading string) (out []string) {
		_, after, found := strings.Cut(string(page), heading)
		require.True(t, found, heading)
		diagram, _, _ := strings.Cut(after, "\n```\n")
		for _, m := range move.FindAllStringSubmatch(diagram, -1) {
			out = append(out, m[1]+" "+m[2])
		}
		return out
	}
	var tasks, steps []string
	for from, to := range task.Transitions() {
		for _, s := range to {
			if s != task.Cancelled && s != task.TimedOut {
				tasks = append(tasks, string(from+" "+s))
			}
		}
	}
	for from, to := range transitions {
		for _, s := range to {
			if s != Cancelled {
				steps = append(steps, string(from+" "+s))
			}
		}
	}
	require.ElementsMatch(t, tasks, documented("A **task**"))
	require.ElementsMatch(t, steps, documented("A **step**"))
}

func TestTheAPIHasTheStatesOfSteps(t *testing.T) {
	t.Parallel()
	var here, api []string
	for s := range transitions {
		here = append(here, string(s))
	}
	for n, value := range deckhandv1.StepState_name {
		if n != 0 {
			api = append(api, strings.ToLower(strings.TrimPrefix(value, "STEP_STATE_")))
		}
	}
	require.ElementsMatch(t, here, api)
}
