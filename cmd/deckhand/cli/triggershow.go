package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// How triggers and deliveries are shown.

func (a *app) triggerNoun() output.Noun[*deckhandv1.Trigger] {
	return output.Noun[*deckhandv1.Trigger]{
		Name: (*deckhandv1.Trigger).GetName,
		Columns: []output.Column[*deckhandv1.Trigger]{
			{Header: "name", Value: (*deckhandv1.Trigger).GetName},
			{Header: "agent", Value: (*deckhandv1.Trigger).GetAgentName},
			{Header: "kind", Value: func(x *deckhandv1.Trigger) string { return enumName(x.GetKind()) }},
			{Header: "waits for", Value: waitsFor, Max: 50},
			{Header: "state", Value: func(x *deckhandv1.Trigger) string {
				if x.GetHeld() != "" {
					return "held"
				}
				return enumName(x.GetState())
			}},
			{Header: "next", Value: func(x *deckhandv1.Trigger) string {
				if len(x.GetNextRuns()) == 0 {
					return "-"
				}
				return moment(x.GetNextRuns()[0])
			}},
			{Header: "runs", Value: func(x *deckhandv1.Trigger) string { return fmt.Sprint(x.GetRuns()) }},
			{Header: "id", Value: (*deckhandv1.Trigger).GetId, Wide: true},
			{Header: "last task", Value: (*deckhandv1.Trigger).GetLastTaskId, Wide: true},
			{Header: "by", Value: (*deckhandv1.Trigger).GetCreatedBy, Wide: true},
			{Header: "reason", Value: func(x *deckhandv1.Trigger) string { return cmp.Or(x.GetHeld(), x.GetReason()) }, Wide: true},
			{Header: "since", Value: func(x *deckhandv1.Trigger) string { return moment(x.GetStateSince()) }, Alone: true},
			{Header: "secret", Value: func(x *deckhandv1.Trigger) string {
				if x.GetSecretEndsIn() == "" {
					return ""
				}
				text := "…" + x.GetSecretEndsIn()
				if x.GetOldSecretUntil() != nil {
					text += ", and the one before until " + moment(x.GetOldSecretUntil())
				}
				return text
			}, Alone: true},
			{Header: "created", Value: func(x *deckhandv1.Trigger) string { return moment(x.GetCreatedAt()) }, Alone: true},
			{Header: "next runs", Value: func(x *deckhandv1.Trigger) string {
				var runs []string
				for _, at := range x.GetNextRuns() {
					runs = append(runs, moment(at))
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

func (a *app) deliveryNoun() output.Noun[*deckhandv1.Delivery] {
	return output.Noun[*deckhandv1.Delivery]{
		Name: (*deckhandv1.Delivery).GetId,
		Columns: []output.Column[*deckhandv1.Delivery]{
			{Header: "id", Value: (*deckhandv1.Delivery).GetId},
			{Header: "trigger", Value: (*deckhandv1.Delivery).GetTriggerName},
			{Header: "source", Value: (*deckhandv1.Delivery).GetSource},
			{Header: "event", Value: func(x *deckhandv1.Delivery) string {
				if x.GetSlot() != nil {
					return moment(x.GetSlot())
				}
				return x.GetEvent()
			}},
			{Header: "state", Value: func(x *deckhandv1.Delivery) string { return enumName(x.GetState()) }},
			{Header: "age", Value: func(x *deckhandv1.Delivery) string { return a.age(x.GetReceivedAt()) }},
			{Header: "task", Value: (*deckhandv1.Delivery).GetTaskId},
			{Header: "reason", Value: (*deckhandv1.Delivery).GetReason, Max: 60},
			{Header: "key", Value: (*deckhandv1.Delivery).GetKey, Wide: true},
			{Header: "size", Value: func(x *deckhandv1.Delivery) string { return fmt.Sprint(x.GetSize()) }, Wide: true},
			{Header: "from", Value: func(x *deckhandv1.Delivery) string { return cmp.Or(x.GetSentBy(), x.GetAddress()) }, Wide: true},
			{Header: "received", Value: func(x *deckhandv1.Delivery) string { return moment(x.GetReceivedAt()) }, Wide: true},
			{Header: "duplicate of", Value: (*deckhandv1.Delivery).GetDuplicateOf, Alone: true},
			{Header: "replay of", Value: (*deckhandv1.Delivery).GetReplayOf, Alone: true},
			{Header: "handled", Value: func(x *deckhandv1.Delivery) string { return moment(x.GetHandledAt()) }, Alone: true},
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

func verdictNoun() output.Noun[*deckhandv1.TestTriggerResponse] {
	return output.Noun[*deckhandv1.TestTriggerResponse]{
		Name: func(x *deckhandv1.TestTriggerResponse) string { return enumName(x.GetState()) },
		Columns: []output.Column[*deckhandv1.TestTriggerResponse]{
			{Header: "would be", Value: func(x *deckhandv1.TestTriggerResponse) string { return enumName(x.GetState()) }},
			{Header: "reason", Value: (*deckhandv1.TestTriggerResponse).GetReason},
			{Header: "event", Value: (*deckhandv1.TestTriggerResponse).GetEvent},
			{Header: "key", Value: (*deckhandv1.TestTriggerResponse).GetKey},
			{Header: "single flight", Value: (*deckhandv1.TestTriggerResponse).GetFlight},
			{Header: "mapped", Value: func(x *deckhandv1.TestTriggerResponse) string {
				if len(x.GetMapped().GetFields()) == 0 {
					return ""
				}
				return protojson.MarshalOptions{Multiline: true}.Format(x.GetMapped())
			}, Block: true},
			{Header: "prompt", Value: (*deckhandv1.TestTriggerResponse).GetPrompt, Block: true},
		},
	}
}

// readAtMost reads all of in, or refuses what is over the limit.
func readAtMost(in io.Reader, most int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(in, most+1))
	if err != nil {
		return nil, fmt.Errorf("read the payload: %w", err)
	}
	if int64(len(data)) > most {
		return nil, fmt.Errorf("the payload is over %d bytes", most)
	}
	return data, nil
}
