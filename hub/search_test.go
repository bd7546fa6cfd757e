package hub_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func search(t *testing.T, c *sdk.Client, query string) []*deckhandv1.SearchHit {
	t.Helper()
	return do(t, c.History.SearchHistory, &deckhandv1.SearchHistoryRequest{Query: query}).GetHits()
}

// found waits until a query has so many results.
func (r *rig) found(query string, n int) (out []*deckhandv1.SearchHit) {
	r.t.Helper()
	require.Eventually(r.t, func() bool {
		out = search(r.t, r.user, query)
		return len(out) == n
	}, waittest.Limit(20*time.Second), 50*time.Millisecond, "%d results of %s", n, query)
	return out
}

func marked(hit *deckhandv1.SearchHit) (out []string) {
	for _, p := range hit.GetExcerpt() {
		if p.GetMatch() {
			out = append(out, p.GetText())
		}
	}
	return out
}

// A word that is only in what a command printed is found with its step, a command by
// a part of a name in it, a message with its event, a task by its goal; filters apply.
func TestSearchFindsCommandsOutputsMessagesAndTasks(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), func(context.Context, *nodev1.ExecSpec) (string, *nodev1.Exec) {
		return "building\nzfs: No space left on /dev/quux7\x1b]0;title\a <b>bold</b>\n", &nodev1.Exec{EndReason: nodev1.EndReason_END_REASON_EXITED}
	})
	r.apply("recaller", recaller)
	task := do(t, r.user.Tasks.SubmitTask, &deckhandv1.SubmitTaskRequest{AgentId: "recaller", Goal: "Repair the flumoxator"}).GetTask()
	lease := r.begin(task.GetId(), 1)
	r.turn(lease, 1)
	step, err := r.propose(lease, 1, 0, "shell_exec", `{"command":"make TestLoginFlow\n# for quux7"}`)
	require.NoError(t, err)
	_, err = r.execute(lease, step.GetId())
	require.NoError(t, err)
	_, err = r.say(task.GetId(), "Look at the Zwiebelfisch first", "")
	require.NoError(t, err)

	out := r.found("quux7 in:output", 1)[0]
	require.Equal(t, []any{deckhandv1.SearchKind_SEARCH_KIND_OUTPUT, step.GetId(), int32(1), "shell_exec", task.GetId(), "recaller"},
		[]any{out.GetKind(), out.GetStepId(), out.GetStepNumber(), out.GetTool(), out.GetTaskId(), out.GetAgentName()})
	require.Equal(t, []string{"quux7"}, marked(out))
	call := r.found("loginflow", 1)[0]
	require.Equal(t, deckhandv1.SearchKind_SEARCH_KIND_CALL, call.GetKind())
	require.Equal(t, []string{"TestLoginFlow"}, marked(call))
	require.Contains(t, call.GetExcerpt()[len(call.GetExcerpt())-1].GetText(), "\n# for quux7", "a command's lines are lines")
	said := r.found("zwiebelfisch", 1)[0]
	require.Equal(t, []any{deckhandv1.SearchKind_SEARCH_KIND_MESSAGE, "message_received", "admin"}, []any{said.GetKind(), said.GetEventType(), said.GetSaidBy()})
	require.Positive(t, said.GetEventSeq())
	require.Equal(t, deckhandv1.SearchKind_SEARCH_KIND_TASK, r.found("flumoxator", 1)[0].GetKind())
	require.Len(t, search(t, r.user, `quux7 "no space left" agent:recaller tool:shell_exec`), 1)
	for _, none := range []string{`quux7 "space no left"`, "quux7 agent:walker", "quux7 tool:file_write", "quux7 in:message", "quux7 after:2999-01-01", "quux7 cost:>1000", "quux7 state:failed", "ux7"} {
		require.Empty(t, search(t, r.user, none), none)
	}
	_, err = r.user.History.SearchHistory(t.Context(), &deckhandv1.SearchHistoryRequest{Query: "x agent:nobody"})
	require.True(t, fault.Is(fault.FromConnect(err), fault.NotFound), "%v", err)

	// What somebody does not see in the list of tasks is not found either.
	other := r.as("ina", "advanced")
	require.Empty(t, search(t, other, "quux7"))
	own := do(t, other.Tasks.SubmitTask, &deckhandv1.SubmitTaskRequest{AgentId: "recaller", Goal: "My own flumoxator"}).GetTask()
	r.found("flumoxator", 2)
	hits := search(t, other, "flumoxator")
	require.Len(t, hits, 1)
	require.Equal(t, own.GetId(), hits[0].GetTaskId())
}

// Results come in pages, the newest first, each once, and with the events of an old
// task its messages are not found any more.
func TestSearchHasPagesAndForgetsPrunedMessages(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	task := r.submit("walker").GetId()
	for i := range 12 {
		_, err := r.say(task, fmt.Sprintf("gramophone %d", i), "")
		require.NoError(t, err)
	}
	r.found("gramophone", 12)
	var said []string
	require.NoError(t, sdk.Pages(func(token string) (string, error) {
		page := do(t, r.user.History.SearchHistory, &deckhandv1.SearchHistoryRequest{Query: "gramophone", PageSize: 5, PageToken: token})
		require.LessOrEqual(t, len(page.GetHits()), 5)
		for _, hit := range page.GetHits() {
			said = append(said, hit.GetExcerpt()[1].GetText())
		}
		return page.GetNextPageToken(), nil
	}))
	require.Equal(t, strings.Fields("11 10 9 8 7 6 5 4 3 2 1 0"), strings.Fields(strings.Join(said, "")))
	_, err := r.user.History.SearchHistory(t.Context(), &deckhandv1.SearchHistoryRequest{Query: "gramophone", PageToken: "!"})
	require.True(t, fault.Is(fault.FromConnect(err), fault.Invalid), "%v", err)
}

// Among many entries a rare word, a frequent one and one of another organisation's are
// found through an index, never by reading all.
func TestSearchReadsAnIndex(t *testing.T) {
	t.Parallel()
	h := hubtest.Start(t, hubtest.Config(t))
	r := newRig(t, h, nil)
	task := r.submit("walker").GetId()
	r.found("go on", 1)
	// Entries of calls whose steps are not there: their words are.
	r.exec(fmt.Sprintf(`INSERT INTO search_entries (org_id, task_id, kind, step_id, at, words)
		SELECT 'org_default', '%s', 'call', 'step_' || n, now() - n * interval '1 second',
		       array_to_tsvector(ARRAY['=org org_default', 'frequent', 'w' || n %% 1000, 'rare' || n]) FROM generate_series(1, 60000) AS n`, task))
	r.exec("ANALYZE search_entries")
	for _, query := range []string{"rare77", "frequent", "frequent w7", "nowhere"} {
		begin := time.Now()
		search(t, r.user, query)
		require.Less(t, time.Since(begin), waittest.Limit(time.Second), query)
	}
	require.Len(t, search(t, r.user, "rare59999"), 1)
	require.Equal(t, "step_1", search(t, r.user, "frequent")[0].GetStepId())
	r.exec(`DO $$ DECLARE line text; BEGIN
		FOR line IN EXECUTE 'EXPLAIN SELECT id FROM search_entries WHERE org_id = ''org_default'' AND words @@ ''rare77''::tsquery ORDER BY at DESC, id DESC LIMIT 31' LOOP
			IF line LIKE '%Seq Scan%' THEN RAISE EXCEPTION 'the table is read: %', line; END IF;
		END LOOP; END $$`)
}
