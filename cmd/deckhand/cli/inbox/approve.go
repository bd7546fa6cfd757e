package inbox

import (
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func approveCommand(e *env.Env) *cobra.Command {
	var reason, arguments, always, shown string
	var everyAgent bool
	var lasts time.Duration
	cmd := &cobra.Command{
		Use: "approve ID...", Short: "Approve calls; one of them optionally with edited arguments",
		Example: `deckhand inbox approve inbox_3q9
deckhand inbox approve inbox_3q9 inbox_7bc
deckhand inbox approve inbox_3q9 --arguments '{"command":"rm -r old/2019"}'
deckhand inbox approve inbox_3q9 --arguments @arguments.json
# and be asked no more about commands that begin so, for a week
deckhand inbox approve inbox_3q9 --always commands --lasts 168h`,
		Args: env.Args("ID..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			approve := &deckhandv1.AnswerInboxItemRequest_Approve{}
			if cmd.Flags().Changed("arguments") {
				var err error
				if approve.ArgumentsJson, err = env.ReadArguments(e, cmd, arguments); err != nil {
					return err
				}
			}
			if always == "" && (everyAgent || lasts != 0) {
				return env.Usage(cmd, "--every-agent and --lasts go with --always")
			}
			if always != "" {
				approve.Always = &deckhandv1.AlwaysAllow{Scope: always, EveryAgent: everyAgent}
				if lasts != 0 {
					approve.Always.Lasts = durationpb.New(lasts)
				}
			}
			if len(args) > 1 && (approve.GetArgumentsJson() != "" || shown != "" || always != "") {
				return env.Usage(cmd, "--arguments, --shown and --always are for one item, and %d are named", len(args))
			}
			for _, id := range args {
				if err := send(cmd.Context(), e, &deckhandv1.AnswerInboxItemRequest{
					ItemId: id, Reason: reason, ShownDigest: shown, Answer: &deckhandv1.AnswerInboxItemRequest_Approve_{Approve: approve},
				}); err != nil {
					return err
				}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&arguments, "arguments", "", "a JSON object to call the tool with instead, @FILE to read it from a file, @- from standard input; the agent is told")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	cmd.Flags().StringVar(&shown, "shown", "", "shown_digest of an earlier inbox show -o json: refuse if anything has changed since; what is approved is printed either way")
	cmd.Flags().StringVar(&always, "always", "", "from now on allow calls like it: exact (these arguments), commands (that begin so), shape (that look alike, as inbox show offers it) or tool (any call); for administrators")
	cmd.Flags().BoolVar(&everyAgent, "every-agent", false, "with --always: of every agent, and not only of this one")
	cmd.Flags().DurationVar(&lasts, "lasts", 0, "with --always: how long, at most 2160h; 720h otherwise")
	return cmd
}
