package loopguard_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/worker/loopguard"
)

// On the labelled set, half of which is stuck, the stop has a precision of
// at least 0.90 and a recall of at least 0.80.
func TestTheGuardKnowsWhoIsStuck(t *testing.T) {
	t.Parallel()
	traces, err := loopguard.Labelled()
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(traces), 100)
	stuck, polling := 0, 0
	for _, trace := range traces {
		for _, kind := range []string{"waits-for-a-job", "waits-longer-and-longer", "sleeps-longer-and-longer", "reads-a-quiet-job", "polls-a-slow-build"} {
			if strings.HasPrefix(trace.Name, kind) {
				require.False(t, trace.Stuck, trace.Name)
				polling++
			}
		}
		if trace.Stuck {
			stuck++
		}
	}
	require.GreaterOrEqual(t, polling, 20, "runs that only wait")
	require.InDelta(t, len(traces)/2, stuck, float64(len(traces))/10)
	score := loopguard.Judge(traces, loopguard.Stop)
	t.Logf("stop: precision %.3f, recall %.3f; wrong: %v", score.Precision(), score.Recall(), score.Wrong)
	require.GreaterOrEqual(t, score.Precision(), 0.90)
	require.GreaterOrEqual(t, score.Recall(), 0.80)
	nudges := loopguard.Judge(traces, loopguard.Nudge)
	t.Logf("nudge: precision %.3f, recall %.3f; wrong: %v", nudges.Precision(), nudges.Recall(), nudges.Wrong)
}

func call(command, result string) []loopguard.Call {
	return []loopguard.Call{{Tool: "shell_exec", Arguments: `{"command":"` + command + `"}`, Result: result}}
}

// First a nudge, then three iterations, then a stop; something new in between
// starts afresh, also across a checkpoint.
func TestANudgeComesBeforeTheStop(t *testing.T) {
	t.Parallel()
	var g loopguard.Guard
	failing := call("make", "exit status 2\nno rule to make target")
	require.Equal(t, loopguard.GoOn, g.Observe(failing).Verdict)
	require.Equal(t, loopguard.GoOn, g.Observe(failing).Verdict)
	found := g.Observe(failing)
	require.Equal(t, loopguard.Nudge, found.Verdict)
	require.Equal(t, loopguard.RepeatedError, found.Kind)
	require.Equal(t, loopguard.GoOn, g.Observe(call("ls", "exit status 0\nMakefile.in")).Verdict, "something new")
	for range 2 {
		require.Equal(t, loopguard.GoOn, g.Observe(failing).Verdict)
	}
	data, err := json.Marshal(g)
	require.NoError(t, err)
	require.Less(t, len(data), 4<<10)
	var other loopguard.Guard
	require.NoError(t, json.Unmarshal(data, &other))
	require.Equal(t, loopguard.Nudge, other.Observe(failing).Verdict)
	require.Equal(t, loopguard.GoOn, other.Observe(failing).Verdict)
	require.Equal(t, loopguard.GoOn, other.Observe(failing).Verdict)
	stop := other.Observe(failing)
	require.Equal(t, loopguard.Stop, stop.Verdict)
	require.Contains(t, stop.Text, "the same error came several times in a row")
}
