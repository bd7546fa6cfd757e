package tool_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/toolargs"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// An agent sees which agents it can give work to, and what each is for.
func TestTheTargetsOfDelegationAreNamed(t *testing.T) {
	t.Parallel()
	tools, err := tool.NewRegistry()
	require.NoError(t, err)
	p := &persona.Persona{Agents: persona.Agents{Delegate: []string{"qa", "ops"}}}
	named := tool.WithTargets(tools.Record("delegate"), p, map[string]string{"qa": "Tests releases."})
	schema, err := json.Marshal(named.GetInputSchema().AsMap()["properties"].(map[string]any)["agent"])
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"string","minLength":1,"maxLength":63,"enum":["qa","ops"],"description":"One of:\n- qa: Tests releases.\n- ops"}`, string(schema))
	require.NotContains(t, tools.Record("delegate").GetInputSchema().String(), "Tests releases", "the shared record stays as it is")
	require.Same(t, tools.Record("file_read"), tool.WithTargets(tools.Record("file_read"), p, nil))
}

// An agent sees which of its tools ask a person first.
func TestToolsThatAskAPersonSaySo(t *testing.T) {
	t.Parallel()
	tools, err := tool.NewRegistry()
	require.NoError(t, err)
	own := []string{"file_read", "file_write", "file_delete", "shell_exec"}
	for _, c := range []struct {
		p    persona.Persona
		want []string
	}{
		{persona.Persona{}, []string{"file_delete"}},
		{persona.Persona{Approvals: persona.Approvals{Tools: []string{"file_read"}}}, []string{"file_delete", "file_read"}},
		{persona.Persona{Mode: persona.Supervised}, []string{"file_delete", "file_write", "job_input", "job_kill", "shell_exec"}},
		{persona.Persona{Approvals: persona.Approvals{Categories: []string{"moderate"}}}, []string{"file_delete", "file_write", "job_input", "job_kill", "shell_exec"}},
	} {
		c.p.Tools = own
		var got []string
		for _, record := range tools.For(&c.p) {
			if strings.HasSuffix(record.GetDescription(), " A person is asked before each call, which may take long or be refused.") {
				got = append(got, record.GetName())
			}
		}
		require.Equal(t, c.want, got)
	}
	require.NotContains(t, tools.Record("file_delete").GetDescription(), "A person is asked", "the shared record stays as it is")
}

// apply_patch is offered to models that are trained on it, file_view to those that see, and
// both to agents that list them.
func TestToolsThatAreOfferedByModel(t *testing.T) {
	t.Parallel()
	tools, err := tool.NewRegistry()
	require.NoError(t, err)
	offered := func(name, provider, model string, listed ...string) bool {
		for _, record := range tools.Offered(&persona.Persona{Tools: listed}, provider, model) {
			if record.GetName() == name {
				return true
			}
		}
		return false
	}
	require.True(t, offered("apply_patch", "openai", "gpt-5.2-codex", "file_edit"))
	require.True(t, offered("apply_patch", "openrouter", "openai/gpt-5", "file_edit"))
	require.False(t, offered("apply_patch", "openai", "gpt-5", "file_read"), "it may not edit")
	require.False(t, offered("apply_patch", "anthropic", "claude-opus-4-5", "file_edit"))
	require.True(t, offered("apply_patch", "anthropic", "claude-opus-4-5", "apply_patch", "file_edit"))

	require.True(t, offered("file_view", "anthropic", "claude-opus-4-5", "file_read"))
	require.False(t, offered("file_view", "anthropic", "claude-opus-4-5", "shell_exec"), "it may not read files")
	require.False(t, offered("file_view", "ollama", "llama3.2", "file_read"), "it does not see")
	require.True(t, offered("file_view", "ollama", "llama3.2", "file_view"))
}

// Each tool says when to use it and shows a call, which its own schema accepts.
func TestEachToolShowsACallThatFits(t *testing.T) {
	t.Parallel()
	tools, err := tool.NewRegistry()
	require.NoError(t, err)
	for _, name := range tools.Names() {
		record := tools.Record(name)
		example := tool.Example(record.GetDescription())
		require.NotEmpty(t, example, name)
		_, err := toolargs.Check(record, example)
		require.NoError(t, err, "%s: %s", name, example)
	}
}

// Of every tool it is known whether it can be undone, and what cannot.
func TestEveryToolSaysWhatCannotBeUndone(t *testing.T) {
	t.Parallel()
	r, err := tool.NewRegistry()
	require.NoError(t, err)
	for _, name := range r.Names() {
		one := r.Get(name)
		said := 0
		for _, yes := range []bool{one.ReadOnly, one.Reversible, one.Irreversible != ""} {
			if yes {
				said++
			}
		}
		require.Equal(t, 1, said, "%s is read-only, or reversible, or says what is not", name)
		require.Equal(t, one.Irreversible, r.Record(name).GetIrreversible())
		require.Equal(t, one.Reversible, r.Record(name).GetReversible())
	}
	require.Contains(t, r.Irreversible(), "shell_exec")
	require.NotContains(t, r.Irreversible(), "file_delete")
}

// The console reads some arguments by their names, which are in a file of its own.
func TestTheConsoleReadsArgumentsThatToolsHave(t *testing.T) {
	t.Parallel()
	r, err := tool.NewRegistry()
	require.NoError(t, err)
	data, err := os.ReadFile("../../ui/src/features/task/fields.json")
	require.NoError(t, err)
	var read map[string][]string
	require.NoError(t, json.Unmarshal(data, &read))
	require.NotEmpty(t, read)
	for name, fields := range read {
		require.NotNil(t, r.Get(name), "there is no tool %s", name)
		for _, field := range fields {
			schema := r.Record(name).GetInputSchema().AsMap()
			for _, part := range strings.Split(field, ".") {
				if items, ok := schema["items"].(map[string]any); ok {
					schema = items
				}
				properties, _ := schema["properties"].(map[string]any)
				schema, _ = properties[part].(map[string]any)
				require.NotNil(t, schema, "%s has no argument %s", name, field)
			}
		}
	}
}

// Of every tool it is known what it is about and how long it takes, and only those are said to
// be retryable whose repetition does no harm.
func TestEveryToolSaysItsTraits(t *testing.T) {
	t.Parallel()
	r, err := tool.NewRegistry()
	require.NoError(t, err)
	for _, name := range r.Names() {
		one, record := r.Get(name), r.Record(name)
		require.NotZero(t, one.Kind, name)
		require.NotEmpty(t, deckhandv1.ToolKind_name[int32(one.Kind)], name)
		require.Less(t, one.Expected, one.Timeout, name)
		if one.Place != deckhandv1.ToolPlace_TOOL_PLACE_WORKER && !one.Ends {
			require.Positive(t, one.Expected, name)
		}
		if one.Retryable {
			require.True(t, one.Idempotent || one.ReadOnly, "%s is retryable and not idempotent", name)
		}
		require.True(t, tool.Covers(one.LeastRole(), one.Category), name)
		require.Equal(t, one.Kind, record.GetKind(), name)
		require.Equal(t, one.LeastRole(), record.GetLeastRole(), name)
		require.Equal(t, one.Retryable, record.GetRetryable(), name)
	}
	for name, want := range map[string]struct {
		role string
		asks deckhandv1.ToolConfirmation
	}{
		"file_read":   {"basic", deckhandv1.ToolConfirmation_TOOL_CONFIRMATION_NEVER},
		"shell_exec":  {"advanced", deckhandv1.ToolConfirmation_TOOL_CONFIRMATION_SUPERVISED},
		"file_delete": {"admin", deckhandv1.ToolConfirmation_TOOL_CONFIRMATION_ALWAYS},
		"update_plan": {"basic", deckhandv1.ToolConfirmation_TOOL_CONFIRMATION_NEVER},
	} {
		require.Equal(t, want.role, r.Get(name).LeastRole(), name)
		require.Equal(t, want.asks, r.Get(name).Confirmation(), name)
	}
}
