package inbox

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/internal/bytesize"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

func raiseCommand(e *env.Env) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "raise ID [LIMIT]", Short: "Raise the limit of a run, or a budget, and have the work go on",
		Long: `Without LIMIT it is raised to what inbox show offers. LIMIT is the new limit, not
what is added: a number, dollars of a budget or a cost, a duration
of active_time, or a size of files.`,
		Example: `deckhand inbox raise inbox_3q9
deckhand inbox raise inbox_3q9 200
# the budget is 20 dollars then
deckhand inbox raise inbox_7bc 20`,
		Args: env.Args("ID", "[LIMIT]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			item, err := getItem(cmd.Context(), client, args[0])
			if err != nil {
				return err
			}
			limit := max(item.GetStop().GetLimitOffer(), item.GetStop().GetOfferMicros())
			if text := env.Optional(args, 1); text != "" {
				if limit, err = limitIn(item, text); err != nil {
					return env.Usage(cmd, "%s", err.Error())
				}
			}
			if limit <= 0 {
				return env.Usage(cmd, "LIMIT is missing: no higher one is offered")
			}
			return send(cmd.Context(), e, raiseRequest(item, limit, reason))
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return cmd
}

// raiseRequest is the answer that raises to a limit, in the hub's unit.
func raiseRequest(item *deckhandv1.InboxItem, limit int64, reason string) *deckhandv1.AnswerInboxItemRequest {
	return &deckhandv1.AnswerInboxItemRequest{
		ItemId: item.GetId(), Reason: reason, ShownDigest: item.GetShownDigest(),
		Answer: &deckhandv1.AnswerInboxItemRequest_Raise_{Raise: &deckhandv1.AnswerInboxItemRequest_Raise{Limit: limit}},
	}
}

// inDollars reports whether an item's limit is in micro-dollars.
func inDollars(item *deckhandv1.InboxItem) bool {
	return item.GetKind() == deckhandv1.InboxKind_INBOX_KIND_BUDGET || item.GetStop().GetLimitName() == "cost_usd"
}

// limitIn reads a limit as people write it, in the unit of an item's limit.
func limitIn(item *deckhandv1.InboxItem, text string) (int64, error) {
	if item.GetStop().GetLimitName() == "active_time" {
		d, err := time.ParseDuration(text)
		return int64(d / time.Second), err
	}
	if item.GetStop().GetLimitName() == "file_size" {
		size, ok := bytesize.Parse(text)
		if !ok {
			return 0, fmt.Errorf("%q is no size with its unit, such as 500MiB", text)
		}
		return size, nil
	}
	v, err := strconv.ParseFloat(strings.TrimPrefix(text, "$"), 64)
	if err != nil {
		return 0, err
	}
	if inDollars(item) {
		v *= 1e6
	}
	return int64(math.Round(v)), nil
}

// limitText writes a limit in the unit of an item's limit.
func limitText(item *deckhandv1.InboxItem, limit int64) string {
	switch {
	case inDollars(item):
		return "$" + strconv.FormatFloat(float64(limit)/1e6, 'f', 2, 64)
	case item.GetStop().GetLimitName() == "active_time":
		return (time.Duration(limit) * time.Second).String()
	case item.GetStop().GetLimitName() == "file_size":
		return bytesize.Format(limit)
	}
	return strconv.FormatInt(limit, 10)
}

func allowCommand(e *env.Env) *cobra.Command {
	request := &deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Allow_{Allow: &deckhandv1.AnswerInboxItemRequest_Allow{}}}
	cmd := plainAnswer(e, "allow ID", "Allow a refused host for its agent: a version of its persona that allows it is applied",
		`deckhand inbox allow inbox_3q9 --reason "it is our package mirror"`, "why, for the record", request)
	cmd.Flags().StringVar(&request.ShownDigest, "shown", "", "shown_digest of an earlier inbox show -o json: refuse if the persona has changed since; the change is printed either way")
	return cmd
}

func resumeCommand(e *env.Env) *cobra.Command {
	return plainAnswer(e, "resume ID", "Resume a suspended agent, or have the tasks try again that wait for a budget or a provider",
		`deckhand inbox resume inbox_3q9`, "why, for the record",
		&deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Resume_{Resume: &deckhandv1.AnswerInboxItemRequest_Resume{}}})
}

func dismissCommand(e *env.Env) *cobra.Command {
	return plainAnswer(e, "dismiss ID", "Close an item about work that stopped; nothing goes on",
		`deckhand inbox dismiss inbox_3q9 --reason "it needs no network"`, "why, for the record",
		&deckhandv1.AnswerInboxItemRequest{Answer: &deckhandv1.AnswerInboxItemRequest_Dismiss_{Dismiss: &deckhandv1.AnswerInboxItemRequest_Dismiss{}}})
}
