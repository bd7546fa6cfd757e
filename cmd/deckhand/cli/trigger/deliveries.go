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

// deliveriesOptions are the flags of trigger deliveries.
type deliveriesOptions struct {
	request *deckhandv1.ListDeliveriesRequest
	states  []string
}

func deliveriesCommand(e *env.Env) *cobra.Command {
	o := deliveriesOptions{request: &deckhandv1.ListDeliveriesRequest{}}
	cmd := &cobra.Command{
		Use: "deliveries [TRIGGER]", Short: "List deliveries and their results", Example: `deckhand trigger deliveries reviews
deckhand trigger deliveries --state failed -o wide`,
		Args: env.Args("[TRIGGER]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.request.TriggerId = args[0]
			}
			for _, state := range o.states {
				value, ok := deckhandv1.DeliveryState_value["DELIVERY_STATE_"+strings.ToUpper(state)]
				if !ok || value == 0 {
					return env.Usage(cmd, "--state is %q, use accepted, started, filtered, failed or duplicate", state)
				}
				o.request.States = append(o.request.States, deckhandv1.DeliveryState(value))
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			return env.ListPage(cmd, e, deliveryNoun(e), client.Triggers.ListDeliveries, o.request, (*deckhandv1.ListDeliveriesResponse).GetDeliveries)
		},
	}
	cmd.Flags().StringSliceVar(&o.states, "state", nil, "only those that are accepted, started, filtered, failed or duplicate")
	cmd.Flags().Int32Var(&o.request.PageSize, "limit", 50, "at most this many")
	cmd.Flags().StringVar(&o.request.PageToken, "page-token", "", "continue from this page token")
	return cmd
}

func deliveryNoun(e *env.Env) output.Noun[*deckhandv1.Delivery] {
	return output.Noun[*deckhandv1.Delivery]{
		Name: (*deckhandv1.Delivery).GetId,
		Columns: []output.Column[*deckhandv1.Delivery]{
			{Header: "id", Value: (*deckhandv1.Delivery).GetId},
			{Header: "trigger", Value: (*deckhandv1.Delivery).GetTriggerName},
			{Header: "source", Value: (*deckhandv1.Delivery).GetSource},
			{Header: "event", Value: func(x *deckhandv1.Delivery) string {
				if x.GetSlot() != nil {
					return output.Moment(x.GetSlot())
				}
				return x.GetEvent()
			}},
			{Header: "state", Value: func(x *deckhandv1.Delivery) string { return output.EnumName(x.GetState()) }},
			{Header: "age", Value: func(x *deckhandv1.Delivery) string { return e.Age(x.GetReceivedAt()) }},
			{Header: "task", Value: (*deckhandv1.Delivery).GetTaskId},
			{Header: "reason", Value: (*deckhandv1.Delivery).GetReason, Max: 60},
			{Header: "key", Value: (*deckhandv1.Delivery).GetKey, Wide: true},
			{Header: "size", Value: func(x *deckhandv1.Delivery) string { return fmt.Sprint(x.GetSize()) }, Wide: true},
			{Header: "from", Value: func(x *deckhandv1.Delivery) string { return cmp.Or(x.GetSentBy(), x.GetAddress()) }, Wide: true},
			{Header: "received", Value: func(x *deckhandv1.Delivery) string { return output.Moment(x.GetReceivedAt()) }, Wide: true},
			{Header: "duplicate of", Value: (*deckhandv1.Delivery).GetDuplicateOf, Alone: true},
			{Header: "replay of", Value: (*deckhandv1.Delivery).GetReplayOf, Alone: true},
			{Header: "handled", Value: func(x *deckhandv1.Delivery) string { return output.Moment(x.GetHandledAt()) }, Alone: true},
			{Header: "headers", Value: func(x *deckhandv1.Delivery) string {
				var lines []string
				for _, name := range slices.Sorted(maps.Keys(x.GetHeaders())) {
					lines = append(lines, name+": "+x.GetHeaders()[name])
				}
				return strings.Join(lines, "\n")
			}, Block: true},
			{Header: "body", Value: func(x *deckhandv1.Delivery) string { return strings.ToValidUTF8(string(x.GetBody()), "�") }, Block: true},
			{Header: "prompt", Value: (*deckhandv1.Delivery).GetPrompt, Block: true},
		},
	}
}
