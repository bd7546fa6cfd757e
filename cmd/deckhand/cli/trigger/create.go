package trigger

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// createOptions are the flags of trigger create.
type createOptions struct {
	request    *deckhandv1.CreateTriggerRequest
	flags      *specFlags
	kind       kindFlags
	secretFile string
}

func createCommand(e *env.Env) *cobra.Command {
	o := createOptions{request: &deckhandv1.CreateTriggerRequest{Spec: &deckhandv1.TriggerSpec{}}, flags: &specFlags{}}
	cmd := &cobra.Command{
		Use: "create NAME --agent AGENT (--webhook SENDER | --cron SCHEDULE | --loop | --manual)", Short: "Create a trigger",
		Long: `SENDER is one that there is a mapping for (` + strings.Join(presets, ", ") + `), or how senders
prove themselves (` + strings.Join(verifications, ", ") + `). The secret of a webhook is
shown this once.`,
		Example: `deckhand trigger create reviews --agent log-triage --webhook github --filter "payload.action == 'opened'"
deckhand trigger create nightly --agent log-triage --cron "30 2 * * *" --time-zone Europe/Berlin
deckhand trigger create tidy --agent log-triage --loop --pause 10m --loop-budget 5
deckhand trigger create button --agent log-triage --manual`,
		Args: env.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.request.Name = args[0]
			if o.request.GetAgentId() == "" {
				return env.Usage(cmd, "--agent is missing: name the agent that it starts")
			}
			if err := o.flags.apply(cmd, o.request.GetSpec()); err != nil {
				return err
			}
			var err error
			if o.request.Kind, o.request.Preset, err = o.kind.read(cmd, o.flags, o.request.GetSpec()); err != nil {
				return err
			}
			if o.request.Secret, err = env.ReadSecret(e, o.secretFile); err != nil {
				return err
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Triggers.CreateTrigger(cmd.Context(), o.request)
			if err != nil {
				return err
			}
			NoteSecret(e, client.URL(), res.GetTrigger(), res.GetSecret())
			return output.Brief(e.Printer(), noun(), res.GetTrigger())
		},
	}
	cmd.Flags().StringVar(&o.request.AgentId, "agent", "", "the agent that it starts")
	o.kind.register(cmd)
	cmd.Flags().StringVar(&o.secretFile, "secret-file", "", "file that holds the secret which the sender has issued; - for standard input")
	cmd.Flags().BoolVar(&o.request.Disabled, "disabled", false, "make it without letting it fire")
	o.flags.register(cmd)
	return cmd
}
