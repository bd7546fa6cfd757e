package tool

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	journalTimeout = time.Minute
	// maxJournal bounds what the model sees of a journal, in bytes.
	maxJournal = 20 << 10
)

func journalTools() []*Tool {
	const (
		safe = deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE
		hub  = deckhandv1.ToolPlace_TOOL_PLACE_HUB
	)
	return []*Tool{
		{
			Name: toolname.ServiceStatus,
			Description: "Return the state of a systemd unit of a machine: whether it is active, since when, its last result and its processes. The operator of the node decides which units you see. " +
				`Example: {"unit": "nginx.service"}.`,
			Kind: KindFleet, Returns: Foreign, Expected: time.Second, Retryable: true,
			Category: safe, Place: hub, Idempotent: true, ReadOnly: true, Timeout: journalTimeout, machines: true,
			schema: `{"type":"object","additionalProperties":false,"required":["unit"],"properties":{
				"unit":{"type":"string","minLength":1,"maxLength":256,"description":"The name of the unit, such as nginx.service"},
				"node":{"type":"string","minLength":1,"maxLength":128,"description":"The name of the node; that of your workspace by default"}}}`,
			run: runServiceStatus,
		},
		{
			Name: toolname.JournalRead,
			Description: "Read the journal of a systemd unit of a machine: the newest entries in a period, or those whose message matches a regular expression. Each has a cursor to cite it by. " +
				"The operator of the node decides which units and fields you see. For files of logs use log_digest. " +
				`Example: {"unit": "nginx.service", "since": "2026-03-01T08:00:00Z", "grep": "(?i)error|timeout", "lines": 50}.`,
			Kind: KindFleet, Returns: Foreign, Expected: 2 * time.Second, Retryable: true,
			Category: safe, Place: hub, Idempotent: true, ReadOnly: true, Timeout: journalTimeout, machines: true,
			schema: `{"type":"object","additionalProperties":false,"required":["unit"],"properties":{
				"unit":{"type":"string","minLength":1,"maxLength":256,"description":"The name of the unit, such as nginx.service"},
				"node":{"type":"string","minLength":1,"maxLength":128,"description":"The name of the node; that of your workspace by default"},
				"since":{"type":"string","maxLength":40,"description":"From this time on, in RFC 3339, or as a duration before now such as 2h"},
				"until":{"type":"string","maxLength":40,"description":"Until this time, in the same form"},
				"grep":{"type":"string","minLength":1,"maxLength":1000,"description":"Regular expression (RE2) of the message"},
				"lines":{"type":"integer","minimum":1,"maximum":1000,"description":"At most this many entries, the newest; 100 by default"},
				"before":{"type":"string","maxLength":512,"description":"Cursor of an entry: only those before it"}}}`,
			run: runJournalRead,
		},
	}
}

// shownProperties are those of a unit that come first, in this order.
var shownProperties = []string{"Id", "Description", "LoadState", "ActiveState", "SubState", "Result", "StateChangeTimestamp", "ActiveEnterTimestamp", "MainPID", "ExecMainStatus", "NRestarts", "MemoryCurrent", "TasksCurrent"}

func runServiceStatus(ctx context.Context, c Call) (Result, error) {
	link, node, err := c.Machines.Link(ctx, text(c.Arguments, "node"))
	if err != nil {
		return machineFailure(err)
	}
	res, err := link.Node().GetUnit(ctx, &nodev1.GetUnitRequest{Unit: text(c.Arguments, "unit")})
	if err != nil {
		return machineFailure(oldNode(fault.FromGRPC(err), node))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s on %s\n", text(c.Arguments, "unit"), node)
	for _, key := range shownProperties {
		if value := res.GetProperties()[key]; value != "" {
			fmt.Fprintf(&b, "%s: %s\n", key, value)
		}
	}
	return Result{Observation: b.String(), Outcome: map[string]any{
		"node": node, "unit": text(c.Arguments, "unit"), "active_state": res.GetProperties()["ActiveState"], "sub_state": res.GetProperties()["SubState"],
	}}, nil
}

// oldNode explains that a node does not know a call yet.
func oldNode(err error, node string) error {
	if e := fault.As(err); e != nil && strings.Contains(e.Error(), "Unimplemented") {
		return fault.New(fault.Precondition, "node %s runs too old a version of deckhand-node for this", node).WithFix("have its operator update it")
	}
	return err
}

// momentOf reads a time in RFC 3339, or a duration before now.
func momentOf(arguments map[string]any, key string) (*timestamppb.Timestamp, error) {
	said := text(arguments, key)
	if said == "" {
		return nil, nil
	}
	if ago, err := time.ParseDuration(said); err == nil {
		return timestamppb.New(time.Now().Add(-ago.Abs())), nil
	}
	at, err := time.Parse(time.RFC3339, said)
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s is %q, which is no time", key, said).WithCode(fault.InvalidParameters).
			WithFix("write it as 2026-03-01T08:00:00Z, or as a duration before now such as 2h")
	}
	return timestamppb.New(at), nil
}

func runJournalRead(ctx context.Context, c Call) (Result, error) {
	since, err := momentOf(c.Arguments, "since")
	if err != nil {
		return machineFailure(err)
	}
	until, err := momentOf(c.Arguments, "until")
	if err != nil {
		return machineFailure(err)
	}
	link, node, err := c.Machines.Link(ctx, text(c.Arguments, "node"))
	if err != nil {
		return machineFailure(err)
	}
	unit := text(c.Arguments, "unit")
	res, err := link.Node().ReadJournal(ctx, &nodev1.ReadJournalRequest{
		Unit: unit, Since: since, Until: until, Grep: text(c.Arguments, "grep"), Lines: int32(number(c.Arguments, "lines")), Before: text(c.Arguments, "before"), //nolint:gosec // the schema bounds it
	})
	if err != nil {
		return machineFailure(oldNode(fault.FromGRPC(err), node))
	}
	// The newest that fit.
	var lines []string
	size, first := 0, ""
	for _, e := range slices.Backward(res.GetEntries()) {
		line := entryLine(e)
		if size += len(line); size > maxJournal && len(lines) > 0 {
			break
		}
		lines, first = append(lines, line), e.GetCursor()
	}
	slices.Reverse(lines)
	header := fmt.Sprintf("journal of %s on %s: %d entries", unit, node, len(lines))
	if len(lines) == 0 {
		header, first = fmt.Sprintf("no entry of %s on %s matches", unit, node), res.GetNextCursor()
	}
	if res.GetMore() || len(lines) < len(res.GetEntries()) {
		header += fmt.Sprintf("; to look at older ones: before %q", first)
	}
	return Result{
		Observation: header + "\n" + strings.Join(lines, ""),
		Outcome:     map[string]any{"node": node, "unit": unit, "entries": len(lines), "first_cursor": first},
	}, nil
}

// entryLine shows an entry with its citation.
func entryLine(e *nodev1.JournalEntry) string {
	message := strings.ReplaceAll(strings.ToValidUTF8(e.GetMessage(), "\uFFFD"), "\n", "\n    ")
	if e.GetCut() {
		message += " [cut]"
	}
	var more []string
	for key, value := range e.GetFields() {
		more = append(more, key+"="+value)
	}
	slices.Sort(more)
	if len(more) > 0 {
		message += " {" + strings.Join(more, " ") + "}"
	}
	return fmt.Sprintf("%s %s [%s]\n", e.GetTime().AsTime().Format(time.RFC3339Nano), message, e.GetCursor())
}
