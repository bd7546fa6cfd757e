package inbox

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func acceptCommand(e *env.Env) *cobra.Command {
	accepted := &deckhandv1.AnswerInboxItemRequest_Accept{}
	request := &deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Accept_{Accept: accepted}}
	cmd := plainAnswer(e, "accept ID", "Accept the work of a run in review mode: its deferred calls run, and the task has succeeded",
		`deckhand inbox accept inbox_9xk`, "why, for the record", request)
	cmd.Flags().StringVar(&request.ShownDigest, "shown", "", "shown_digest of an earlier inbox show -o json: refuse if the work or its workspace has changed since")
	cmd.Flags().StringArrayVar(&accepted.WithoutPaths, "without-file", nil, "leave out this file or folder: restore it to what it was before the task (repeatable)")
	cmd.Flags().StringArrayVar(&accepted.WithoutStepIds, "without-call", nil, "leave out the deferred call of this `STEP`: it is never made (repeatable)")
	return cmd
}
