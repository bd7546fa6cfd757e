package inbox

import (
	"fmt"
	"io"
	"strings"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func showCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show what is asked, with all that is needed to decide", Example: "deckhand inbox show inbox_3q9",
		Args: env.Args("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			item, err := wholeItem(cmd.Context(), client, args[0])
			if err != nil {
				return err
			}
			if err := showItem(e, item); err != nil {
				return err
			}
			if e.Format.ForPeople() && item.GetState() == deckhandv1.InboxState_INBOX_STATE_OPEN {
				if item.GetReview().GetFiles() > 0 {
					e.Notef("see what changed: deckhand task diff %s", termsafe.Line(item.GetTaskId()))
				}
				if o := item.GetOffer(); o != nil {
					e.Notef("%d calls like it were approved in 30 days, and none was rejected; to be asked no more: deckhand inbox approve %s --always shape",
						o.GetApprovals(), termsafe.Line(item.GetId()))
				}
				e.Notef("answer it: %s", Commands(output.EnumName(item.GetKind()), item.GetId()))
			}
			return nil
		},
	}
}

// showItem prints an item. For people, what is dangerous stands first; on a terminal it is
// shown in $PAGER.
func showItem(e *env.Env, item *deckhandv1.InboxItem) error {
	if !e.Format.ForPeople() {
		return output.One(e.Printer(), noun(e), item)
	}
	if tty, ok := e.In.(term.File); ok && term.IsTerminal(tty.Fd()) && output.IsTerminal(e.Out) {
		if err := runOn(e, tty, pager(), "", strings.NewReader(sheetOf(e, item))); err == nil {
			return nil
		}
	}
	if _, err := io.WriteString(e.Out, dangersFirst(item)); err != nil {
		return fmt.Errorf("write what is dangerous: %w", err)
	}
	return output.One(e.Printer(), noun(e), item)
}
