package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

const (
	searchedTasks = 100_000
	searchRounds  = 10
)

// searchedFor is a query, and what a plain SELECT has to look for to find the same.
type searchedFor struct {
	query, words string
	// kind and state are those of the query's filters.
	kind, state string
}

// searched are the queries: words that are frequent, rare, and in no text, several words, a
// phrase, the beginning of a word, and filters that both may use. Word n occurs the more often
// the lower n is. In a query, a word of three characters stands for longer ones, too.
var searched = []searchedFor{
	{query: "w1", words: "w1"}, {query: "w5000", words: "w5000:*"}, {query: "w4987 w3", words: "w4987:* & w3"}, {query: "w2 w1", words: "w2 & w1"},
	{query: `"w12 w3"`, words: "w12 <-> w3"}, {query: "w77", words: "w77:*"}, {query: nowhere, words: nowhere + ":*"},
	{query: "w9 state:succeeded", words: "w9", state: "succeeded"}, {query: "w40 in:task", words: "w40:*", kind: "task"},
	{query: "w300 w4 in:output", words: "w300:* & w4", kind: "output"},
}

// nowhere is a word that is in no text.
const nowhere = "nowhere"

// plainly finds entries with the same index as the search, and no more: it neither looks at
// who may see what nor makes excerpts.
const plainly = `SELECT x.id FROM search_entries x JOIN tasks y ON y.id = x.task_id
	WHERE x.org_id = 'org_default' AND x.words @@ to_tsquery('simple', $1) AND ($2 = '' OR x.kind = $2) AND ($3 = '' OR y.state = $3)
	ORDER BY x.at DESC, x.id DESC LIMIT 31`

// search measures the keyword search over 100,000 tasks, each with a call and its output, and
// the list of tasks with a text, over the API: by an administrator, and by a user who sees
// the tasks that are theirs, a tenth. The peer is a plain SELECT of the same words.
func search(ctx context.Context) (result, error) {
	s, err := newStack(ctx)
	if err != nil {
		return nil, err
	}
	defer s.stop()
	if err := s.applyNoop(ctx); err != nil {
		return nil, err
	}
	agent, err := s.client.Agents.GetAgent(ctx, &deckhandv1.GetAgentRequest{AgentId: "noop"})
	if err != nil {
		return nil, err
	}
	user, err := s.user(ctx, "ann")
	if err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, s.cluster.URL("deckhand"))
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx) //nolint:errcheck // it is over
	begin := time.Now()
	if err := s.history(ctx, conn, agent.GetAgent().GetId()); err != nil {
		return nil, err
	}
	out := result{"unit": "ms, p95", "tasks": searchedTasks, "indexed_s": time.Since(begin).Seconds(), "peer_name": "plain SELECT"}
	p95 := map[string]float64{}
	for name, client := range map[string]*sdk.Client{"ours": s.client, "as_user": user} {
		took, found, late, err := measured(func(q searchedFor) (int, error) {
			res, err := client.History.SearchHistory(ctx, &deckhandv1.SearchHistoryRequest{Query: q.query})
			return len(res.GetHits()), err
		})
		if err != nil {
			return nil, fmt.Errorf("search as %s: %w", name, err)
		}
		p95[name] = percentile(took, 95)
		out[name], out[name+"_p50"], out["n"], out[name+"_hits"] = p95[name], percentile(took, 50), len(took), found
		out[name+"_timed_out"] = late
	}
	// As the hub does it: rare words and frequent ones need different plans.
	if _, err := conn.Exec(ctx, "SET plan_cache_mode = force_custom_plan"); err != nil {
		return nil, err
	}
	took, found, _, err := measured(func(q searchedFor) (int, error) {
		rows, err := conn.Query(ctx, plainly, q.words, q.kind, q.state)
		if err != nil {
			return 0, err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		return min(len(ids), 30), err // the search asks for one more, to know that there are more
	})
	if err != nil {
		return nil, fmt.Errorf("search plainly: %w", err)
	}
	out["peer"], out["peer_p50"], out["peer_hits"] = percentile(took, 95), percentile(took, 50), found
	out["ratio"] = p95["ours"] / percentile(took, 95)
	if out["ours_timed_out"] == 0 && out["ours_hits"] != out["peer_hits"] {
		return nil, fmt.Errorf("the search found %v entries, and the plain SELECT %v", out["ours_hits"], out["peer_hits"])
	}
	took = nil
	for i := range searchRounds {
		begin := time.Now()
		if _, err := s.client.Tasks.ListTasks(ctx, &deckhandv1.ListTasksRequest{Query: fmt.Sprintf("w%d ", i*31)}); err != nil {
			return nil, err
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	out["list_with_text"] = percentile(took, 95)
	return out, nil
}

// measured makes all searches several times, and returns how long each took, how many entries
// were found, and how many searches the hub has ended because they took too long. Each other
// one has to find something, but for that of a word that is nowhere.
func measured(find func(searchedFor) (int, error)) (took []time.Duration, found, late int, err error) {
	for range searchRounds {
		for _, q := range searched {
			begin := time.Now()
			n, err := find(q)
			took = append(took, time.Since(begin))
			switch {
			case fault.Is(fault.FromConnect(err), fault.Deadline):
				late++
				continue
			case err != nil:
				return nil, 0, 0, fmt.Errorf("%s: %w", q.query, err)
			case (n == 0) != (q.query == nowhere):
				return nil, 0, 0, fmt.Errorf("%s finds %d entries", q.query, n)
			}
			found += n
		}
	}
	slices.Sort(took)
	return took, found, late, nil
}

// user creates a user who may run tasks, and returns their client.
func (s *stack) user(ctx context.Context, name string) (*sdk.Client, error) {
	created, err := s.client.Users.CreateUser(ctx, &deckhandv1.CreateUserRequest{Name: name, Role: "basic"})
	if err != nil {
		return nil, err
	}
	token, err := s.client.Tokens.CreateToken(ctx, &deckhandv1.CreateTokenRequest{
		Name: "benchmark", Kind: deckhandv1.TokenKind_TOKEN_KIND_USER, UserId: created.GetUser().GetId(),
	})
	if err != nil {
		return nil, err
	}
	return sdk.New(sdk.Config{URL: s.hub.URL(), Token: token.GetSecret()})
}

// history stores tasks that have ended, with the events that the hub indexes them from, and
// waits until it has. The agent is made private, so that what a user sees is decided row by row.
func (s *stack) history(ctx context.Context, conn *pgx.Conn, agent string) error {
	words := func(n int) string {
		return fmt.Sprintf("(SELECT string_agg('w' || floor(20000 * power(random(), 4))::int, ' ') FROM generate_series(1, %d) AS k WHERE n IS NOT NULL)", n)
	}
	for _, statement := range []string{
		`UPDATE agents SET visibility = 'private'`,
		fmt.Sprintf(`INSERT INTO tasks (id, org_id, agent_id, agent_version, title, goal, summary, state, reason, workspace_scope, jail_id, created_by, created_by_role,
				correlation_id, lineage_id, created_at, finished_at)
			SELECT 'task_b' || n, 'org_default', '%s', 1, 't' || n, %s, %s, 'succeeded', 'done', 'task', 'jail_b' || n, CASE WHEN n %% 10 = 0 THEN 'ann' ELSE 'admin' END, 'basic',
				'c', 'task_b' || n, now() - n * interval '1 minute', now() - n * interval '1 minute'
			FROM generate_series(1, %d) AS n`, agent, words(10), words(10), searchedTasks),
		fmt.Sprintf(`INSERT INTO steps (id, org_id, task_id, number, turn, call_index, call_id, attempt, tool, category, arguments, arguments_sealed, arguments_digest, observation, state, proposed_at, finished_at)
			SELECT 'step_b' || n, 'org_default', 'task_b' || n, 1, 1, 0, 'c', 1, 'shell_exec', 'moderate', jsonb_build_object('command', %s), '\x00', '\x00', %s, 'succeeded',
				now() - n * interval '1 minute', now() - n * interval '1 minute'
			FROM generate_series(1, %d) AS n`, words(8), words(60), searchedTasks),
		fmt.Sprintf(`INSERT INTO events (org_id, task_id, seq, type, time, actor_kind, actor_id, attempt, correlation_id, payload)
			SELECT 'org_default', 'task_b' || n, e.seq, e.type, now() - n * interval '1 minute', 'hub', 'hub', 1, 'c', jsonb_build_object('step_id', 'step_b' || n)
			FROM generate_series(1, %d) AS n, (VALUES (1, '%s'), (2, '%s'), (3, '%s')) AS e (seq, type)`,
			searchedTasks, eventkind.TaskSubmitted, eventkind.ToolSelected, eventkind.ToolCompleted),
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%.60s: %w", statement, err)
		}
	}
	for indexed := 0; indexed < 3*searchedTasks; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the hub has indexed %d texts: %w", indexed, ctx.Err())
		case <-time.After(time.Second):
		}
		if err := conn.QueryRow(ctx, `SELECT count(*) FROM search_entries WHERE task_id LIKE 'task_b%'`).Scan(&indexed); err != nil {
			return err
		}
	}
	for _, statement := range []string{`VACUUM (ANALYZE) search_entries`, `ANALYZE tasks`, `ANALYZE steps`} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}
