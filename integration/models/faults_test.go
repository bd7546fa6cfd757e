package models

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model/anthropic/anthropictest"
	"github.com/deckhand-sh/deckhand/worker/model/modeltest"
)

const (
	succeeded = deckhandv1.TaskState_TASK_STATE_SUCCEEDED
	failed    = deckhandv1.TaskState_TASK_STATE_FAILED
	paused    = deckhandv1.TaskState_TASK_STATE_PAUSED
)

type block = anthropictest.Block

func answer(blocks ...block) modeltest.Answer {
	return modeltest.Answer{Answer: anthropictest.Answer{Blocks: blocks, Piece: 5000, Usage: anthropictest.Usage{Input: 1000, Output: 100}}}
}

func fail(status int, kind, message string) modeltest.Answer {
	return modeltest.Answer{Answer: anthropictest.Answer{Status: status, ErrorType: kind, ErrorMessage: message}}
}

var (
	work = block{Tool: "shell_exec", ID: "call_1", Input: `{"command": "make NAME"}`}
	done = block{Tool: "complete_task", ID: "call_2", Input: `{"summary": "it is done"}`}
)

// kinds are a format's own names of errors; an error without one is left unchanged.
var kinds = map[modeltest.Format]map[string]string{
	modeltest.Messages: {"auth": "authentication_error", "rate": "rate_limit_error", "fault": "api_error", "busy": "overloaded_error", "long": "invalid_request_error"},
	modeltest.Gemini:   {"auth": "UNAUTHENTICATED", "rate": "RESOURCE_EXHAUSTED", "fault": "INTERNAL", "busy": "UNAVAILABLE", "long": "INVALID_ARGUMENT"},
	modeltest.Chat:     {"auth": "invalid_api_key", "rate": "rate_limit_exceeded", "fault": "server_error", "busy": "", "long": "context_length_exceeded"},
}

const tooLong = "prompt is too long: the input token count exceeds the maximum number of tokens"

// mishap is a fault in a model's responses, and its expected result.
type mishap struct {
	answers  []modeltest.Answer
	state    deckhandv1.TaskState
	code     fault.Code
	commands int
	// asked is how often the model was asked, of which the cost was reported,
	// or is a bound; the others cost nothing.
	asked, reported, estimated int
}

func mishaps() map[string]mishap {
	cut := answer(block{Text: "I shall"}, work)
	cut.Piece, cut.Break = 5, 6
	silent := answer(done)
	silent.Silent = true
	refusal := answer(block{Text: "I will not."})
	refusal.StopReason = "refusal"
	later := fail(429, "rate", "slow down")
	later.Header = map[string]string{"Retry-After": "1"}
	var many []block
	for range 300 {
		many = append(many, block{Tool: "file_read", ID: "same", Input: `{"path": "a"}`})
	}
	ends := answer(done)
	return map[string]mishap{
		"half a tool call, then it dies": {[]modeltest.Answer{cut, answer(work), ends}, succeeded, "", 1, 3, 2, 1},
		"arguments that are no JSON":     {[]modeltest.Answer{answer(block{Tool: "shell_exec", ID: "x", Input: `{"command": "mak`}), answer(work), ends}, succeeded, "", 1, 3, 3, 0},
		"a tool that there is not":       {[]modeltest.Answer{answer(block{Tool: "rm_rf", ID: "x", Input: `{}`}), answer(work), ends}, succeeded, "", 1, 3, 3, 0},
		"two calls with one id":          {[]modeltest.Answer{answer(work, work), ends}, succeeded, "", 2, 2, 2, 0},
		"a turn that is empty":           {[]modeltest.Answer{answer(), answer(work), ends}, succeeded, "", 1, 3, 3, 0},
		"a refusal":                      {[]modeltest.Answer{refusal}, failed, fault.ModelUnavailable, 0, 1, 1, 0},
		"300 calls at once":              {[]modeltest.Answer{answer(many...), ends}, succeeded, "", 0, 2, 2, 0},
		"5 MB of text":                   {[]modeltest.Answer{answer(block{Text: strings.Repeat("0123456789", 500_000)}, work), ends}, succeeded, "", 1, 2, 2, 0},
		"no usage":                       {[]modeltest.Answer{silent}, succeeded, "", 0, 1, 0, 1},
		"401":                            {[]modeltest.Answer{fail(401, "auth", "no")}, paused, fault.CredentialInvalid, 0, 1, 0, 0},
		"429 that says when":             {[]modeltest.Answer{later, answer(work), ends}, succeeded, "", 1, 3, 2, 0},
		"429 that does not":              {[]modeltest.Answer{fail(429, "rate", "slow down"), answer(work), ends}, succeeded, "", 1, 3, 2, 0},
		"500":                            {[]modeltest.Answer{fail(500, "fault", "oops"), answer(work), ends}, succeeded, "", 1, 3, 2, 0},
		"529":                            {[]modeltest.Answer{fail(529, "busy", "busy"), answer(work), ends}, succeeded, "", 1, 3, 2, 0},
		"half an answer, then 401":       {[]modeltest.Answer{cut, fail(401, "auth", "no")}, paused, fault.CredentialInvalid, 0, 2, 0, 1},
		"too long a prompt":              {[]modeltest.Answer{answer(work), fail(400, "long", tooLong)}, failed, fault.ContextTooLarge, 1, 2, 1, 0},
	}
}

// Whatever a model or the way to it does, the task ends in the right
// state, no command runs twice, and the budget has what the calls cost: nothing
// stays set aside, and the task and its model calls agree.
func TestWhateverAModelDoesTheTaskEndsRight(t *testing.T) {
	t.Parallel()
	for named, f := range modeltest.Formats {
		t.Run(named, func(t *testing.T) {
			t.Parallel()
			all := mishaps()
			srv := modeltest.New(t, tell(f, all))
			r := newRig(t)
			r.connect(f, srv.URL)
			r.apply("tester", served[f][0], served[f][1], "")
			ids := map[string]string{}
			for name := range all {
				ids[name] = r.submit("tester", "mishap["+name+"]")
			}
			for name, tc := range all {
				t.Run(name, func(t *testing.T) { r.held(t, ids[name], name, tc) })
			}
			require.Zero(t, row[int64](r, "SELECT coalesce(sum(reserved_micros), 0)::bigint FROM budget_accounts"))
			require.Equal(t, row[int64](r, "SELECT sum(spent_micros)::bigint FROM budget_accounts WHERE scope = 'organisation' AND period = ''"),
				row[int64](r, "SELECT sum(cost_micros)::bigint FROM model_calls"))
		})
	}
}

// held compares a task that ended with its mishap's expected result.
func (r *rig) held(t *testing.T, id, name string, tc mishap) {
	task := r.rested(id)
	require.Equal(t, tc.state, task.GetState(), "%s %s", task.GetReason(), task.GetErrorMessage())
	require.Equal(t, string(tc.code), task.GetErrorCode())
	require.Equal(t, tc.commands, r.ran(name), "no command is repeated, none is left out")
	by := func(basis string) int {
		return row[int](r, "SELECT count(*) FROM model_calls WHERE task_id = $1 AND basis = $2", id, basis)
	}
	require.Equal(t, tc.reported, by("reported"))
	require.Equal(t, tc.estimated, by("estimated"))
	require.Equal(t, tc.asked-tc.reported-tc.estimated, by("unsent"))
	spent := row[int64](r, "SELECT spent_micros FROM budget_accounts WHERE scope = 'task' AND object_id = $1", id)
	require.Equal(t, tc.reported+tc.estimated > 0, spent > 0)
	require.Equal(t, spent, task.GetUsage().GetCostMicros(), "the task costs what its calls do")
}

// tell responds to each task as its mishap says: a task's goal names it.
func tell(f modeltest.Format, all map[string]mishap) func(modeltest.Request) modeltest.Answer {
	asked := map[string]int{}
	return func(r modeltest.Request) modeltest.Answer {
		name := goal(r.Text)
		asked[name]++
		answers := all[name].answers
		a := answers[min(asked[name], len(answers))-1]
		if a.Break > 0 && f == modeltest.Gemini {
			a.Break = 3 // a call comes whole there, but the end does not
		}
		a.Blocks = slices.Clone(a.Blocks)
		for i := range a.Blocks {
			a.Blocks[i].Input = strings.ReplaceAll(a.Blocks[i].Input, "NAME", name)
		}
		words := kinds[f]
		if words == nil {
			words = kinds[modeltest.Chat]
		}
		if a.Status != 0 {
			a.ErrorType = words[a.ErrorType]
		}
		return a
	}
}

// goal finds the name of a mishap in a model's input.
func goal(text string) string {
	_, rest, _ := strings.Cut(text, "mishap[")
	name, _, _ := strings.Cut(rest, "]")
	return name
}
