package script_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/worker/model"
	"github.com/deckhand-sh/deckhand/worker/model/script"
)

// play runs a script against answers and returns the transcript.
func play(t *testing.T, s *script.Script, opening string, answers ...string) []model.Message {
	t.Helper()
	messages := []model.Message{{Text: opening}}
	for i := 0; ; i++ {
		turn, err := s.Generate(t.Context(), &model.Request{Messages: messages}, nil)
		require.NoError(t, err)
		messages = append(messages, model.Message{Turn: turn})
		if i == len(answers) {
			return messages
		}
		reply := model.Message{}
		for _, call := range model.Calls(turn) {
			reply.Results = append(reply.Results, model.Result{CallID: call.GetId(), Tool: call.GetName(), Text: answers[i]})
		}
		if len(reply.Results) == 0 {
			reply.Text = answers[i]
		}
		messages = append(messages, reply)
	}
}

const polling = `
turns:
  - name: poll
    reasoning: Is it up?
    calls: [{tool: shell_exec, arguments: {command: "curl $1 ${HOME:-x} $${kept}"}}]
    usage: {input_tokens: 5, output_tokens: 6, cache_read_tokens: 7, cache_write_tokens: 8}
    capture: {state: 'state=(\w+)', pid: {pattern: 'pid=(\d+)', default: unknown}}
  - when: state=starting
    text: Not yet (${state}).
    calls: [{tool: shell_exec, arguments: {command: sleep 1, env: [a, "${state}"]}}]
    next: poll
  - when: state=up
    calls: [{tool: complete_task, arguments: {summary: "It is ${state}, pid ${pid}", n: 3}}]
`

func TestPatternsChooseTurnsAndCapturesAreUsedLater(t *testing.T) {
	t.Parallel()
	s, err := script.Parse("p.yaml", []byte(polling))
	require.NoError(t, err)
	require.Equal(t, []string{"shell_exec", "complete_task"}, s.Tools())
	messages := play(t, s, "goal", "state=starting pid=7", "slept", "state=up")
	first := messages[1].Turn
	require.Equal(t, `{"command":"curl $1 ${HOME:-x} ${kept}"}`, model.Calls(first)[0].GetArgumentsJson())
	require.Equal(t, "script", first.GetProvider())
	require.Equal(t, "scripted", first.GetModel())
	require.True(t, proto.Equal(&deckhandv1.Usage{InputTokens: 5, OutputTokens: 6, CacheReadTokens: 7, CacheWriteTokens: 8}, first.GetUsage()))
	require.Equal(t, `{"command":"sleep 1","env":["a","starting"]}`, model.Calls(messages[3].Turn)[0].GetArgumentsJson())
	last := model.Calls(messages[7].Turn)[0]
	require.Equal(t, `{"n":3,"summary":"It is up, pid unknown"}`, last.GetArgumentsJson())
	ids := map[string]bool{}
	for _, m := range messages {
		for _, call := range model.Calls(m.Turn) {
			require.False(t, ids[call.GetId()], "call ids differ over the transcript")
			ids[call.GetId()] = true
		}
	}
}

// Which turn comes next is a function of the transcript, not of memory.
func TestAFreshCopyGoesOnFromAnyPointOfATranscript(t *testing.T) {
	t.Parallel()
	s, err := script.Parse("p.yaml", []byte(polling))
	require.NoError(t, err)
	whole := play(t, s, "goal", "state=starting pid=7", "slept", "state=starting", "slept", "state=up pid=9")
	for n := 1; n < len(whole); n += 2 {
		fresh, err := script.Parse("p.yaml", []byte(polling))
		require.NoError(t, err)
		turn, err := fresh.Generate(t.Context(), &model.Request{Messages: whole[:n]}, nil)
		require.NoError(t, err)
		require.True(t, proto.Equal(whole[n].Turn, turn), "turn %d", n)
	}
}

func TestTextIsStreamedInPiecesOverTheDelay(t *testing.T) {
	t.Parallel()
	s, err := script.Parse("s.yaml", []byte("turns: [{reasoning: '"+strings.Repeat("é", 100)+"', text: end, delay: 20ms}]"))
	require.NoError(t, err)
	var streamed strings.Builder
	pieces := 0
	begin := time.Now()
	_, err = s.Generate(t.Context(), &model.Request{Messages: []model.Message{{Text: "x"}}}, func(d model.Delta) {
		require.True(t, strings.ToValidUTF8(d.Text, "?") == d.Text)
		streamed.WriteString(d.Text)
		pieces++
	})
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("é", 100)+"end", streamed.String())
	require.Equal(t, 6, pieces)
	require.GreaterOrEqual(t, time.Since(begin), 15*time.Millisecond)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = s.Generate(ctx, &model.Request{Messages: []model.Message{{Text: "x"}}}, nil)
	require.ErrorIs(t, err, context.Canceled)
}

func TestScriptsThatCannotGoOnSayWhere(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text    string
		answers []string
		says    string
	}{
		"nothing matches the goal":  {"turns: [{when: other}]", nil, "s.yaml: no turn's `when` matches the opening message"},
		"nothing is left":           {"turns:\n  - text: a", []string{"b"}, "s.yaml:2: the script has no turn for the results of this one"},
		"a capture finds nothing":   {"turns:\n  - text: a\n    capture: {x: 'y(z)'}\n  - text: b", []string{"b"}, "s.yaml:3: capture x: y(z) matches nothing"},
		"a capture of another road": {"turns:\n  - {when: nowhere, text: a, capture: {x: '(a)'}}\n  - text: ${x}", nil, "s.yaml:3: ${x} is used before"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := script.Parse("s.yaml", []byte(tc.text))
			require.NoError(t, err)
			messages := []model.Message{{Text: "goal"}}
			for _, answer := range tc.answers {
				turn, err := s.Generate(t.Context(), &model.Request{Messages: messages}, nil)
				require.NoError(t, err)
				messages = append(messages, model.Message{Turn: turn}, model.Message{Text: answer})
			}
			_, err = s.Generate(t.Context(), &model.Request{Messages: messages}, nil)
			require.ErrorContains(t, err, tc.says)
			require.Equal(t, model.Invalid, model.AsError(err).Kind)
		})
	}
}

func TestMistakesAreReportedWithTheirLines(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, says string }{
		"an empty file":         {"", "s.yaml:1: the script is empty"},
		"a list":                {"- a", "s.yaml:1: the script must be keys and values"},
		"no turns":              {"turns: []", "s.yaml:1: turns must be a list of 1 to 2000 turns"},
		"an unknown key":        {"turns:\n  - txt: a", `s.yaml:2: unknown key "txt" in a turn`},
		"an unknown call key":   {"turns:\n  - calls:\n      - tool: a\n        args: {}", `s.yaml:4: unknown key "args" in a call`},
		"a call without tool":   {"turns:\n  - calls:\n      - arguments: {}", "s.yaml:3: tool is missing"},
		"a bad pattern":         {"turns:\n  - text: a\n    when: '('", "s.yaml:2: when: error parsing regexp"},
		"a capture of no group": {"turns:\n  - text: a\n    capture: {x: abc}", "s.yaml:3: capture x: put exactly one group"},
		"a jump to nowhere":     {"turns:\n  - next: there", `s.yaml:2: next is "there"`},
		"two of one name":       {"turns:\n  - name: a\n  - name: a", `s.yaml:3: two turns are named "a"`},
		"a strange reference":   {"turns:\n  - text: ${HOME}", "s.yaml:2: ${HOME} is captured nowhere: add it under capture, or write $${HOME}"},
		"a strange stop":        {"turns:\n  - stop: now", `s.yaml:2: stop is "now"`},
		"a strange delay":       {"turns:\n  - delay: 1y", `s.yaml:2: delay is "1y"`},
		"negative usage":        {"turns:\n  - usage: {input_tokens: -1}", "s.yaml:2: usage must not be negative"},
		"a wrong type":          {"turns:\n  - usage: {input_tokens: many}", "s.yaml: line 2: cannot unmarshal"},
		"an alias":              {"turns:\n  - &a {text: x}\n  - *a", "s.yaml:2: YAML anchors"},
		"broken YAML":           {"turns: [", "s.yaml: line 1"},
		"two documents":         {"turns: [{text: a}]\n---\nturns: []", "s.yaml: the script holds more than one YAML document"},
		"two megabytes":         {strings.Repeat("#", 2<<20), "at most 1048576"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := script.Parse("s.yaml", []byte(tc.text))
			require.ErrorContains(t, err, tc.says)
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(polling))
	f.Add([]byte("turns: [{capture: {a: {pattern: (x), default: y}}}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := script.Parse("s.yaml", data)
		require.Equal(t, err == nil, s != nil)
		if s != nil {
			_, _ = s.Generate(t.Context(), &model.Request{Messages: []model.Message{{Text: "x"}}}, nil)
		}
	})
}

// The personas that are shipped can be read, and their scripts call only tools
// that their persona lists.
func TestShippedPersonasAndScriptsFit(t *testing.T) {
	t.Parallel()
	const folder = "../../../personas"
	files, err := filepath.Glob(filepath.Join(folder, "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		p, err := persona.Parse(filepath.Base(file), data, persona.Vocabulary{})
		require.NoError(t, err)
		if p.Script == "" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(folder, p.Script))
		require.NoError(t, err)
		s, err := script.Parse(p.Script, text)
		require.NoError(t, err)
		require.Subset(t, p.Tools, s.Tools())
	}
}
