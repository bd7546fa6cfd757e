// Package trigger is the command "deckhand trigger": it manages what starts
// agents without a person: webhooks, schedules and loops.
package trigger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand trigger".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("trigger", "Manage triggers: webhooks, schedules, loops and buttons", `
A trigger starts tasks of an agent without a person. Each firing is a delivery,
which is kept with what became of it, and can be tried and replayed.
`, `
deckhand trigger create nightly --agent log-triage --cron "30 2 * * *" --time-zone Europe/Berlin
deckhand trigger create reviews --agent log-triage --webhook github
deckhand trigger list
deckhand trigger deliveries reviews
`)
	cmd.AddCommand(
		createCommand(e), updateCommand(e), listCommand(e), showCommand(e), testCommand(e),
		deliveriesCommand(e), deliveryCommand(e), replayCommand(e), fireCommand(e), enableCommand(e),
		disableCommand(e), rotateCommand(e), deleteCommand(e),
	)
	return cmd
}

// NoteSecret says what the sender is to be given.
func NoteSecret(e *env.Env, url string, t *deckhandv1.Trigger, secret string) {
	if secret == "" {
		return
	}
	if t.GetSpec().GetWebhook().GetVerify() == "token" {
		e.Notef("give the sender this URL; its token is not shown again:\n%s%s?token=%s", url, t.GetPath(), secret)
		return
	}
	e.Notef("give the sender this URL and secret; the secret is not shown again:\n%s%s\n%s", url, t.GetPath(), secret)
}

func noun() output.Noun[*deckhandv1.Trigger] {
	return output.Noun[*deckhandv1.Trigger]{
		Name: (*deckhandv1.Trigger).GetName,
		Columns: []output.Column[*deckhandv1.Trigger]{
			{Header: "name", Value: (*deckhandv1.Trigger).GetName},
			{Header: "agent", Value: (*deckhandv1.Trigger).GetAgentName},
			{Header: "kind", Value: func(x *deckhandv1.Trigger) string { return output.EnumName(x.GetKind()) }},
			{Header: "waits for", Value: waitsFor, Max: 50},
			{Header: "state", Value: func(x *deckhandv1.Trigger) string {
				if x.GetHeld() != "" {
					return "held"
				}
				return output.EnumName(x.GetState())
			}},
			{Header: "next", Value: func(x *deckhandv1.Trigger) string {
				if len(x.GetNextRuns()) == 0 {
					return "-"
				}
				return output.Moment(x.GetNextRuns()[0])
			}},
			{Header: "runs", Value: func(x *deckhandv1.Trigger) string { return fmt.Sprint(x.GetRuns()) }},
			{Header: "id", Value: (*deckhandv1.Trigger).GetId, Wide: true},
			{Header: "last task", Value: (*deckhandv1.Trigger).GetLastTaskId, Wide: true},
			{Header: "by", Value: (*deckhandv1.Trigger).GetCreatedBy, Wide: true},
			{Header: "reason", Value: func(x *deckhandv1.Trigger) string { return cmp.Or(x.GetHeld(), x.GetReason()) }, Wide: true},
			{Header: "since", Value: func(x *deckhandv1.Trigger) string { return output.Moment(x.GetStateSince()) }, Alone: true},
			{Header: "secret", Value: func(x *deckhandv1.Trigger) string {
				if x.GetSecretEndsIn() == "" {
					return ""
				}
				text := "…" + x.GetSecretEndsIn()
				if x.GetOldSecretUntil() != nil {
					text += ", and the one before until " + output.Moment(x.GetOldSecretUntil())
				}
				return text
			}, Alone: true},
			{Header: "created", Value: func(x *deckhandv1.Trigger) string { return output.Moment(x.GetCreatedAt()) }, Alone: true},
			{Header: "next runs", Value: func(x *deckhandv1.Trigger) string {
				var runs []string
				for _, at := range x.GetNextRuns() {
					runs = append(runs, output.Moment(at))
				}
				return strings.Join(runs, "\n")
			}, Block: true},
			{Header: "goal", Value: func(x *deckhandv1.Trigger) string { return x.GetSpec().GetGoal() }, Block: true},
			{Header: "filter", Value: func(x *deckhandv1.Trigger) string { return x.GetSpec().GetFilter() }, Block: true},
			{Header: "mapping", Value: func(x *deckhandv1.Trigger) string {
				var lines []string
				for _, name := range slices.Sorted(maps.Keys(x.GetSpec().GetMapping())) {
					lines = append(lines, name+" = "+x.GetSpec().GetMapping()[name])
				}
				return strings.Join(lines, "\n")
			}, Block: true},
		},
	}
}

func waitsFor(x *deckhandv1.Trigger) string {
	switch spec := x.GetSpec(); x.GetKind() {
	case deckhandv1.TriggerKind_TRIGGER_KIND_WEBHOOK:
		return "POST " + x.GetPath()
	case deckhandv1.TriggerKind_TRIGGER_KIND_CRON:
		return spec.GetCron().GetSchedule() + " " + cmp.Or(spec.GetCron().GetTimeZone(), "UTC")
	case deckhandv1.TriggerKind_TRIGGER_KIND_LOOP:
		pause := "1m0s"
		if p := spec.GetLoop().GetPause(); p != nil {
			pause = p.AsDuration().String()
		}
		return "its last run, and " + pause
	case deckhandv1.TriggerKind_TRIGGER_KIND_MANUAL, deckhandv1.TriggerKind_TRIGGER_KIND_UNSPECIFIED:
	}
	return "a person"
}

// Verifications returns the ways in which senders of webhooks prove themselves.
func Verifications() []string { return slices.Clone(verifications) }

// Senders returns what --webhook of a new trigger takes.
func Senders() []string {
	out := slices.Concat(presets, verifications)
	slices.Sort(out)
	return slices.Compact(out)
}
