package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

const (
	searchedTasks = 100_000
	searchRounds  = 40
)

// searched are the queries: words that are frequent, rare, and in no text, several words, a
// phrase, the beginning of a word, and filters that both may use: to the user
// there is no such agent. Word n occurs the more often the lower n is.
var searched = []string{"w1", "w5000", "w4987 w3", "w2 w1", `"w12 w3"`, "w77", "nowhere", "w9 state:succeeded", "w40 in:task", "w300 w4 in:output"}

// search measures the keyword search over 100,000 tasks, each with a call and its output, and
// the list of tasks with a text, over the API: by an administrator, and by a user who sees
// the tasks that are theirs, a tenth.
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
	if err := s.history(ctx, agent.GetAgent().GetId()); err != nil {
		return nil, err
	}
	out := result{"unit": "ms, p95", "tasks": searchedTasks}
	for name, client := range map[string]*sdk.Client{"ours": s.client, "as_user": user} {
		var took []time.Duration
		var found int
		for range searchRounds {
			for _, query := range searched {
				begin := time.Now()
				res, err := client.History.SearchHistory(ctx, &deckhandv1.SearchHistoryRequest{Query: query})
				if err != nil {
					return nil, fmt.Errorf("search for %s: %w", query, err)
				}
				took = append(took, time.Since(begin))
				found += len(res.GetHits())
			}
		}
		slices.Sort(took)
		out[name], out[name+"_p50"], out["n"], out[name+"_hits"] = percentile(took, 95), percentile(took, 50), len(took), found
	}
	var took []time.Duration
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

// history stores tasks that have ended, with the index of their words as hub/work/search
// writes it. The agent is made private, so that what a user sees is decided row by row.
func (s *stack) history(ctx context.Context, agent string) error {
	conn, err := pgx.Connect(ctx, s.cluster.URL("deckhand"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx) //nolint:errcheck // it is over
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
		`INSERT INTO search_entries (org_id, task_id, kind, at, words)
			SELECT org_id, id, 'task', created_at, to_tsvector('simple', concat_ws(E'\n', title, goal, summary)) FROM tasks WHERE id LIKE 'task_b%'`,
		`INSERT INTO search_entries (org_id, task_id, kind, step_id, at, words)
			SELECT org_id, task_id, 'call', id, proposed_at, to_tsvector('simple', search_call(arguments)) FROM steps WHERE id LIKE 'step_b%'`,
		`INSERT INTO search_entries (org_id, task_id, kind, step_id, at, words)
			SELECT org_id, task_id, 'output', id, proposed_at, to_tsvector('simple', observation) FROM steps WHERE id LIKE 'step_b%'`,
		`VACUUM (ANALYZE) search_entries`, `ANALYZE tasks`, `ANALYZE steps`,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%.60s: %w", statement, err)
		}
	}
	return nil
}
