package trigger

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/work/trigger/mapping"
	"github.com/deckhand-sh/deckhand/hub/work/trigger/sender"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func presetProgram(t *testing.T, name string) *mapping.Program {
	t.Helper()
	spec := &deckhandv1.TriggerSpec{Webhook: &deckhandv1.WebhookSpec{}}
	from, ok := sender.Named(name)
	require.True(t, ok, name)
	fill(spec, from)
	_, err := check(Webhook, spec)
	require.NoError(t, err, name)
	p, err := mapping.Compile(source(Webhook, spec))
	require.NoError(t, err, name)
	return p
}

func fixtures(t *testing.T, name string) map[string]json.RawMessage {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".json")
	require.NoError(t, err)
	out := map[string]json.RawMessage{}
	require.NoError(t, json.Unmarshal(data, &out))
	return out
}

// Every kind of event that GitHub's and GitLab's documentation describes goes
// through parse, filter and mapping. The bodies are our own, in those shapes.
func TestEveryKindOfEventIsMapped(t *testing.T) {
	t.Parallel()
	for name, least := range map[string]int{"github": 75, "gitlab": 10} {
		p := presetProgram(t, name)
		all := fixtures(t, name)
		require.GreaterOrEqual(t, len(all), least)
		for kind, body := range all {
			kind, _, _ = strings.Cut(kind, " (")
			payload, err := mapping.Payload("application/json", body)
			require.NoError(t, err, kind)
			out, err := p.Run(t.Context(), mapping.Input{Payload: payload, Event: kind, Headers: map[string]string{"X-Github-Event": kind}})
			require.NoError(t, err, "%s of %s", kind, name)
			require.Equal(t, kind != "ping", out.Matched, kind)
			if out.Matched && name == "github" {
				require.Contains(t, out.Prompt, kind)
			}
		}
	}
}

func TestWhatPresetsPickOut(t *testing.T) {
	t.Parallel()
	github, gitlab := fixtures(t, "github"), fixtures(t, "gitlab")
	for _, c := range []struct {
		preset, event string
		body          string
		want          []string
	}{
		{"github", "pull_request", string(github["pull_request"]), []string{"pull_request.opened", "octo-org/hello", ">7<", "Fix the flag", "/pull/7", "octocat"}},
		{"github", "issues", string(github["issues"]), []string{"issues.opened", ">42<", "Crash on empty input"}},
		{"github", "push", string(github["push"]), []string{"Fix all the bugs", "refs/heads/main", "compare/a...b"}},
		{"github", "workflow_run", string(github["workflow_run"]), []string{"workflow_run.completed", "failure", "/actions/runs/10"}},
		{"github", "check_run", string(github["check_run"]), []string{"build", "failure"}},
		{"gitlab", "", string(gitlab["Merge Request Hook"]), []string{"merge_request.open", "grp/hello", "Fix", "ann", ">1<"}},
		{"gitlab", "", string(gitlab["Issue Hook"]), []string{"issue.open", "Crash", ">23<"}},
		{"gitlab", "", string(gitlab["Pipeline Hook"]), []string{"pipeline.failed", "main"}},
		{"slack", "", `{"event":{"type":"app_mention","user":"U1","text":"help me","channel":"C1","ts":"1.2"}}`, []string{"help me", "U1", "C1", "1.2"}},
		{"alertmanager", "", `{"status":"firing","groupKey":"g","commonLabels":{"alertname":"Disk"},"commonAnnotations":{},"alerts":[{"labels":{"instance":"web-1"}}]}`,
			[]string{"firing", "Disk", "web-1"}},
		{"json", "", `{"a":{"b":1}}`, []string{`{"a":{"b":1}}`}},
	} {
		payload, err := mapping.Payload("application/json", []byte(c.body))
		require.NoError(t, err)
		out, err := presetProgram(t, c.preset).Run(t.Context(), mapping.Input{Payload: payload, Event: c.event})
		require.NoError(t, err, c.preset)
		require.True(t, out.Matched)
		for _, text := range c.want {
			require.Contains(t, out.Prompt, text, "%s %s", c.preset, c.event)
		}
	}
}

// Payloads with fields missing, and payloads that no sender has ever sent.
func TestPresetsWithOddPayloads(t *testing.T) {
	t.Parallel()
	for _, name := range sender.Names(sender.Any) {
		p := presetProgram(t, name)
		for _, body := range []string{`{}`, `{"event":null,"alerts":null,"status":null,"issue":null,"pull_request":1,"object_attributes":[],"action":7}`,
			`{"event":{"type":"app_mention"},"status":"firing","alerts":[{}]}`} {
			payload, err := mapping.Payload("application/json", []byte(body))
			require.NoError(t, err)
			in := mapping.Input{Payload: payload, Event: "x"}
			_, err = p.Run(t.Context(), in)
			require.NoError(t, err, "%s with %s", name, body)
			_, err = p.Key(t.Context(), in)
			require.NoError(t, err, "%s with %s", name, body)
		}
	}
	p := presetProgram(t, "alertmanager")
	out, err := p.Run(t.Context(), mapping.Input{Payload: map[string]any{"status": "resolved"}})
	require.NoError(t, err)
	require.False(t, out.Matched)
}

// The example of every sender goes through filter, mapping and goal.
func TestTheExampleOfEverySenderIsMapped(t *testing.T) {
	t.Parallel()
	for _, s := range sender.All() {
		payload, err := mapping.Payload("application/json", []byte(s.Example.Body))
		require.NoError(t, err, s.Name)
		in := mapping.Input{Payload: payload, Event: s.Example.Event}
		p := presetProgram(t, s.Name)
		out, err := p.Run(t.Context(), in)
		require.NoError(t, err, s.Name)
		require.True(t, out.Matched, s.Name)
		for _, text := range s.Example.Prompt {
			require.Contains(t, out.Prompt, text, s.Name)
		}
		if s.Key != "" {
			key, err := p.Key(t.Context(), in)
			require.NoError(t, err, s.Name)
			require.NotEmpty(t, key, s.Name)
		}
	}
}

// Of a name that no sender has, the error lists the known ones.
func TestAnUnknownSenderIsRefused(t *testing.T) {
	t.Parallel()
	spec := &deckhandv1.TriggerSpec{Webhook: &deckhandv1.WebhookSpec{Verify: "nosuch"}}
	_, err := check(Webhook, spec)
	require.ErrorContains(t, err, `spec.webhook.verify is "nosuch"`)
	require.ErrorContains(t, err, strings.Join(sender.Names(sender.Sender.HasProof), ", "))
	_, err = specOf(persona.Trigger{Kind: string(Webhook), Sender: "nosuch", Spec: spec})
	require.ErrorContains(t, err, strings.Join(sender.Names(sender.Any), ", "))
}

// What the spec says stays, also of a sender that has no mapping.
func TestASpecKeepsItsOwnMapping(t *testing.T) {
	t.Parallel()
	for _, s := range sender.All() {
		spec := &deckhandv1.TriggerSpec{Webhook: &deckhandv1.WebhookSpec{}, Mapping: map[string]string{"own": "1"}}
		fill(spec, s)
		require.Equal(t, "1", spec.GetMapping()["own"], s.Name)
		require.NotContains(t, s.Mapping, "own")
	}
}
