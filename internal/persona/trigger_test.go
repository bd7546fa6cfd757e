package persona_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/persona"
)

// triggered returns a persona with triggers, the first line of which is 7.
func triggered(triggers string) []byte {
	return []byte("---\nname: watch\ndescription: d\nprovider: anthropic\nmodel: m\ntriggers:\n" + triggers +
		"tools: [shell_exec]\nlimits: {iterations: 5}\n---\nGo.\n")
}

func TestAPersonaNamesItsTriggers(t *testing.T) {
	t.Parallel()
	p, err := persona.Parse("w.md", triggered(`  - name: nightly
    cron: "30 2 * * *"
    time_zone: Europe/Berlin
    jitter: 1m
    missed: all
    goal: |
      Look.
      Then tell.
  - {name: reviews, webhook: github, filter: payload.action == 'opened', map: {title: payload.pull_request.title}, rate: 60, max_body: 2MiB}
  - {name: tidy, loop: true, pause: 0s, budget_usd: 2.5}
  - {name: button, manual: true, priority: 9}
`), persona.Vocabulary{})
	require.NoError(t, err)
	require.Len(t, p.Triggers, 4)
	cron, hook, loop, manual := p.Triggers[0], p.Triggers[1], p.Triggers[2], p.Triggers[3]
	require.Equal(t, []string{"cron", "webhook", "loop", "manual"}, []string{cron.Kind, hook.Kind, loop.Kind, manual.Kind})
	require.Equal(t, 7, cron.Line)
	require.Equal(t, "30 2 * * *", cron.Spec.GetCron().GetSchedule())
	require.Equal(t, time.Minute, cron.Spec.GetCron().GetJitter().AsDuration())
	require.Equal(t, "Look.\nThen tell.", cron.Spec.GetGoal())
	require.Nil(t, cron.Spec.GetWebhook())
	require.Equal(t, "github", hook.Sender)
	require.Equal(t, map[string]string{"title": "payload.pull_request.title"}, hook.Spec.GetMapping())
	require.EqualValues(t, 2<<20, hook.Spec.GetWebhook().GetMaxBytes())
	require.Zero(t, loop.Spec.GetLoop().GetPause().AsDuration())
	require.EqualValues(t, 2_500_000, loop.Spec.GetLoop().GetBudgetMicros())
	require.EqualValues(t, 9, manual.Spec.GetPriority())
}

// What is wrong is said with its line.
func TestWrongTriggersAreRefusedWithTheirLine(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"no kind":        {"  - {name: a}\n", "w.md:7: a trigger is one thing"},
		"two kinds":      {"  - {name: a, loop: true, cron: '@daily'}\n", "w.md:7: a trigger is one thing"},
		"a kind denied":  {"  - {name: a, loop: false}\n", "w.md:7: a trigger is one thing"},
		"no name":        {"  - {loop: true}\n", "w.md:7: name is missing"},
		"a name":         {"  - {name: A b, loop: true}\n", "triggers.name is \"A b\""},
		"twice":          {"  - {name: a, loop: true}\n  - {name: a, manual: true}\n", "w.md:8: triggers has two of the name"},
		"unknown key":    {"  - {name: a, cron: '@daily', timezone: UTC}\n", "unknown key \"triggers.timezone\": write \"time_zone\""},
		"of another":     {"  - name: a\n    cron: '@daily'\n    pause: 5m\n", "w.md:9: triggers.pause goes with loop only"},
		"no list":        {"  name: a\n", "triggers must be a list"},
		"no mapping":     {"  - nightly\n", "must be keys and values"},
		"a time":         {"  - {name: a, loop: true, pause: soon}\n", "triggers.pause must be a time"},
		"an amount":      {"  - {name: a, loop: true, budget_usd: -1}\n", "triggers.budget_usd must be a number"},
		"what hub finds": {"  - {name: a, cron: '61 * * * *'}\n", "w.md:7: triggers, a: no such minute"},
	} {
		_, err := persona.Parse("w.md", triggered(c.text), persona.Vocabulary{Trigger: func(_ *persona.Persona, t persona.Trigger) error {
			if strings.HasPrefix(t.Spec.GetCron().GetSchedule(), "61") {
				return errors.New("no such minute")
			}
			return nil
		}})
		require.ErrorContains(t, err, c.want, name)
	}
}
