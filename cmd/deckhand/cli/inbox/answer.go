package inbox

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func answerCommand(e *env.Env) *cobra.Command {
	var reason, choice string
	var yes, no bool
	cmd := &cobra.Command{
		Use: "answer ID [TEXT]", Short: "Answer an agent's question",
		Example: `deckhand inbox answer inbox_3q9 "the one in Frankfurt"
# the second of the options that inbox show numbers, or its text
deckhand inbox answer inbox_3q9 --choice 2
deckhand inbox answer inbox_3q9 --yes`,
		Args: env.Args("ID", "[TEXT]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var replies []string
			if len(args) > 1 {
				replies = append(replies, args[1])
			}
			if choice != "" {
				replies = append(replies, choice)
			}
			if yes {
				replies = append(replies, "yes")
			}
			if no {
				replies = append(replies, "no")
			}
			if len(replies) != 1 || strings.TrimSpace(replies[0]) == "" {
				return env.Usage(cmd, "give one of TEXT, --choice, --yes and --no")
			}
			reply := replies[0]
			if choice != "" {
				var err error
				if reply, err = choose(e, cmd, args[0], choice); err != nil {
					return err
				}
			}
			return send(cmd.Context(), e, &deckhandv1.AnswerInboxItemRequest{
				ItemId: args[0], Reason: reason,
				Answer: &deckhandv1.AnswerInboxItemRequest_Reply_{Reply: &deckhandv1.AnswerInboxItemRequest_Reply{Text: reply}},
			})
		},
	}
	cmd.Flags().StringVar(&choice, "choice", "", "one of the options: its number in inbox show, or its text")
	cmd.Flags().BoolVar(&yes, "yes", false, "the answer is yes")
	cmd.Flags().BoolVar(&no, "no", false, "the answer is no")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return cmd
}

// choose returns the choice of a question that has a text or, if none has it, that
// number.
func choose(e *env.Env, cmd *cobra.Command, id, choice string) (string, error) {
	client, err := e.Client()
	if err != nil {
		return "", err
	}
	item, err := getItem(cmd.Context(), client, id)
	if err != nil {
		return "", err
	}
	choices := item.GetQuestion().GetChoices()
	if slices.Contains(choices, choice) {
		return choice, nil
	}
	if n, err := strconv.Atoi(choice); err == nil && n >= 1 && n <= len(choices) {
		return choices[n-1], nil
	}
	if len(choices) == 0 {
		return "", env.Usage(cmd, "%s is no question with options, give TEXT, --yes or --no", item.GetId())
	}
	return "", env.Usage(cmd, "--choice %q is not one of the %d options: %s", choice, len(choices), strings.Join(choices, ", "))
}
