package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/trigger"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// applyOptions are the flags of agent apply.
type applyOptions struct {
	files             []string
	dryRun            bool
	owner, visibility string
}

func applyCommand(e *env.Env) *cobra.Command {
	var o applyOptions
	cmd := &cobra.Command{
		Use: "apply -f FILE|DIR", Short: "Create or update agents from persona files",
		Long: `Stores a version of each persona file whose content is new. Of a folder all
*.md files are taken, in subfolders too, README.md left out. Every problem of
every file is shown as file:line, and nothing is stored while there is one.
A new agent is yours, and everybody of the organisation sees it: --owner and
--visibility say otherwise, for agents that are there as well.`,
		Example: `deckhand agent apply -f personas/
deckhand agent apply -f log-triage.md --dry-run
deckhand agent apply -f log-triage.md --owner team:ops --visibility team`,
		Args: env.Args(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(o.files) == 0 {
				return env.Usage(cmd, "-f is missing: name a persona file or a folder of them")
			}
			return apply(e, cmd, o)
		},
	}
	cmd.Flags().StringArrayVarP(&o.files, "filename", "f", nil, "persona file or folder; may be given more than once")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "check only, store nothing")
	addOwnership(cmd, &o.owner, &o.visibility)
	return cmd
}

func apply(e *env.Env, cmd *cobra.Command, o applyOptions) error {
	dryRun := o.dryRun
	requests, err := readPersonas(e, o.files)
	if err != nil {
		return err
	}
	for _, request := range requests {
		request.Owner, request.Visibility = o.owner, o.visibility
	}
	client, err := e.Client()
	if err != nil {
		return err
	}
	// The hub knows more than the files do, for example the tools it has: it
	// checks all of them before the first is stored.
	if len(requests) > 1 && !dryRun {
		if _, err := sendPersonas(cmd.Context(), e, client, requests, true); err != nil {
			return err
		}
	}
	applied, err := sendPersonas(cmd.Context(), e, client, requests, dryRun)
	if err != nil {
		return err
	}
	if dryRun {
		e.Notef("Dry run: nothing stored.")
	}
	for _, res := range applied {
		noteTriggers(e, client.URL(), res.GetTriggers())
	}
	return output.List(e.Printer(), appliedNoun, applied)
}

// noteTriggers says what became of the triggers that a persona names, and shows the secrets of
// those that are new.
func noteTriggers(e *env.Env, hubURL string, triggers []*deckhandv1.AppliedTrigger) {
	for _, t := range triggers {
		if t.GetChange() != "unchanged" {
			e.Notef("trigger %s (%s): %s", t.GetName(), t.GetKind(), t.GetChange())
		}
		trigger.NoteSecret(e, hubURL, &deckhandv1.Trigger{
			Path: t.GetPath(), Spec: &deckhandv1.TriggerSpec{Webhook: &deckhandv1.WebhookSpec{Verify: t.GetVerify()}},
		}, t.GetSecret())
	}
}

// sendPersonas applies or checks files one by one. What the hub finds wrong
// with any of them is shown for all.
func sendPersonas(ctx context.Context, e *env.Env, client *sdk.Client, requests []*deckhandv1.ApplyAgentRequest, dryRun bool) ([]*deckhandv1.ApplyAgentResponse, error) {
	var applied []*deckhandv1.ApplyAgentResponse
	var wrong problems
	for _, request := range requests {
		request.DryRun = dryRun
		res, err := client.Agents.ApplyAgent(ctx, request)
		if code, problem := e.Explain(ctx, err); code == env.ExitUsage {
			wrong.add(request.GetFilename(), problem)
			continue
		}
		if err != nil {
			return nil, err
		}
		applied = append(applied, res)
	}
	return applied, refuse(e, wrong, len(requests))
}

// problems is what is wrong with persona files, a line for each thing.
type problems struct {
	lines  []string
	broken int
}

// add takes what was said of one file; lines that do not name it get its name.
func (p *problems) add(file string, e *fault.Error) {
	p.broken++
	for line := range strings.Lines(e.Message) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, file) {
			line = file + ": " + line
		}
		p.lines = append(p.lines, line)
	}
}

// refuse prints problems and returns one error for all of them; nil without problems.
func refuse(e *env.Env, p problems, files int) error {
	switch len(p.lines) {
	case 0:
		return nil
	case 1:
		return fault.New(fault.Invalid, "%s", p.lines[0])
	}
	for _, line := range p.lines {
		e.Notef("%s", termsafe.Line(line))
	}
	return fault.New(fault.Invalid, "%d of %d persona files cannot be used and nothing was stored", p.broken, files).
		WithFix("correct the lines above and apply again")
}

var appliedNoun = output.Noun[*deckhandv1.ApplyAgentResponse]{
	Name: func(x *deckhandv1.ApplyAgentResponse) string { return x.GetAgent().GetName() },
	Columns: []output.Column[*deckhandv1.ApplyAgentResponse]{
		{Header: "name", Value: func(x *deckhandv1.ApplyAgentResponse) string { return x.GetAgent().GetName() }},
		{Header: "change", Value: (*deckhandv1.ApplyAgentResponse).GetChange},
		{Header: "version", Value: func(x *deckhandv1.ApplyAgentResponse) string { return fmt.Sprint(x.GetAgent().GetVersion()) }},
		{Header: "model", Value: func(x *deckhandv1.ApplyAgentResponse) string {
			return output.ModelName(x.GetAgent().GetProvider(), x.GetAgent().GetModel())
		}},
	},
}
