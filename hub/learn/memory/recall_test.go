package memory_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/learn/memory"
	"github.com/deckhand-sh/deckhand/hub/learn/scope"
	"github.com/deckhand-sh/deckhand/hub/work/task/tasktest"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

// labelled reads the labelled set: entries, and the key that answers each question.
func labelled(t *testing.T) (entries [][2]string, questions [][2]string) {
	t.Helper()
	data, err := os.ReadFile("testdata/recall.txt")
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		if q, key, ok := strings.Cut(line, " > "); ok {
			questions = append(questions, [2]string{q, key})
		} else if key, value, ok := strings.Cut(line, " = "); ok {
			entries = append(entries, [2]string{key, value})
		}
	}
	return entries, questions
}

// Of the labelled questions, at least 85 in 100 find the entry that answers them among the
// first three, although the user has 2,000 more entries. To see the figures:
// scripts/test ./hub/learn/memory -run Accuracy -v
func TestRecallAccuracyOnTheLabelledSet(t *testing.T) {
	t.Parallel()
	f := tasktest.New(t)
	f.User("ann", "basic")
	m := memory.New(memory.Config{Store: f.Store, Recorder: f.Recorder, Redact: &redact.Redactor{}})
	v := visibility.As(tasktest.Org, "ann", "basic")
	entries, questions := labelled(t)
	require.GreaterOrEqual(t, len(questions), 60)
	for _, e := range entries {
		_, err := m.Set(t.Context(), v, "admin", memory.Draft{Scope: scope.Scope{Kind: scope.User}, Type: memory.Fact, Key: e[0], Value: e[1], Confidence: 1}, tasktest.By("ann"))
		require.NoError(t, err)
	}
	// Others of the same kind of words: what such a memory is full of.
	f.Exec(`INSERT INTO memories (id, org_id, scope_kind, scope_id, type, key, value, body, source, confirmed_by, confidence)
		SELECT 'memory_x' || n, $1, 'user', 'user_ann', 'fact', 'note ' || n, to_jsonb(x.text), 'note ' || n || E'\n' || x.text, 'person', 'ann', 1
		FROM generate_series(1, 2000) AS n, LATERAL (SELECT string_agg(w.word, ' ') AS text FROM (
			SELECT (ARRAY['server','order','customer','page','build','report','price','stock','mail','test','service','file','user','product','shop','check','change','list'])[1 + floor(random() * 18)::int] AS word
			FROM generate_series(1, 12) AS k WHERE n IS NOT NULL) AS w) AS x`, tasktest.Org)
	f.Exec("ANALYZE memories")
	first, third := 0, 0
	var missed []string
	for _, q := range questions {
		hits, err := m.Recall(t.Context(), f.Store.Queries, scope.Run{Viewer: v}, memory.Question{Text: q[0], Limit: 3})
		require.NoError(t, err)
		found := -1
		var got []string
		for i, h := range hits {
			got = append(got, h.Key)
			if h.Key == q[1] && found < 0 {
				found = i
			}
		}
		if found == 0 {
			first++
		}
		if found >= 0 {
			third++
		} else {
			missed = append(missed, fmt.Sprintf("%s: %q instead of %q", q[0], got, q[1]))
		}
	}
	n := float64(len(questions))
	t.Logf("retrieval accuracy on %d questions: %.1f %% among the first three, %.1f %% first", len(questions), 100*float64(third)/n, 100*float64(first)/n)
	require.GreaterOrEqual(t, float64(third)/n, 0.85, strings.Join(missed, "\n"))
}

// A hostile text is a question like any other.
func TestHostileQuestionsFindNothingElse(t *testing.T) {
	t.Parallel()
	f := tasktest.New(t)
	f.User("ann", "basic")
	f.User("bob", "basic")
	m := memory.New(memory.Config{Store: f.Store, Recorder: f.Recorder, Redact: &redact.Redactor{}})
	for _, name := range []string{"ann", "bob"} {
		_, err := m.Set(t.Context(), visibility.As(tasktest.Org, name, "basic"), "admin", memory.Draft{
			Scope: scope.Scope{Kind: scope.User}, Type: memory.Fact, Key: "place", Value: "the place of " + name, Confidence: 1,
		}, tasktest.By(name))
		require.NoError(t, err)
	}
	ann := scope.Run{Viewer: visibility.As(tasktest.Org, "ann", "basic")}
	for _, text := range []string{
		"place", "'@user:user_bob' place", "place | bob", "!ann & place", "place' | '@user:user_bob", `\`, "place:*", "place <-> of", strings.Repeat("place ", 5000), "place\x00of",
	} {
		hits, err := m.Recall(t.Context(), f.Store.Queries, ann, memory.Question{Text: strings.ReplaceAll(text, "\x00", " "), Limit: 10})
		require.NoError(t, err, text)
		for _, h := range hits {
			require.Equal(t, "user_ann", h.ScopeID, text)
		}
	}
	for _, agent := range []string{"agent_x' | '@user:user_bob", `agent_\'`} {
		ann.AgentID, ann.WorkspaceID = agent, agent
		_, err := m.Recall(t.Context(), f.Store.Queries, ann, memory.Question{Text: "place", Limit: 10})
		require.NoError(t, err)
	}
}
