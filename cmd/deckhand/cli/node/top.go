package node

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// topOptions are the flags of node top.
type topOptions struct {
	once bool
}

func topCommand(e *env.Env) *cobra.Command {
	var o topOptions
	cmd := &cobra.Command{
		Use: "top NODE", Short: "Show the resource usage of a node and its jails, live",
		Long: `Shows CPU, memory, processes and disk of a machine and of each jail that runs
there. On a terminal the table is renewed every second until Ctrl-C; elsewhere,
and with any -o but table, it is shown once.`,
		Example: `deckhand node top web-1
deckhand node top web-1 -o json`,
		Args: env.Args("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			live := !o.once && e.Format == output.Table && output.IsTerminal(e.Out)
			client, err := e.Client()
			if err != nil {
				return err
			}
			stream, err := client.Telemetry.WatchNodeTelemetry(cmd.Context(), &deckhandv1.WatchNodeTelemetryRequest{
				NodeId: args[0], Follow: live,
			})
			if err != nil {
				return fault.FromConnect(err)
			}
			defer func() { _ = stream.Close() }()
			for stream.Receive() {
				if err := showUsage(e, stream.Msg(), live); err != nil {
					return err
				}
			}
			return fault.FromConnect(stream.Err())
		},
	}
	cmd.Flags().BoolVar(&o.once, "once", false, "show it once, also on a terminal")
	return cmd
}

// clearScreen moves to the top left and clears what is there (ECMA-48 CUP, ED).
const clearScreen = "\x1b[H\x1b[2J"

func showUsage(e *env.Env, sample *deckhandv1.WatchNodeTelemetryResponse, live bool) error {
	for _, x := range sample.GetEvents() {
		where := x.GetJailId()
		if where == "" {
			where = "the machine"
		}
		e.Notef("%s", output.FailStyle.Render(termsafe.Line(strings.TrimSpace(fmt.Sprintf("%s: %s %s", where, x.GetKind(), x.GetResource())))))
	}
	if e.Format == output.JSON || e.Format == output.JSONL || e.Format == output.YAML {
		return output.One(e.Printer(), output.Noun[*deckhandv1.WatchNodeTelemetryResponse]{}, sample)
	}
	if live {
		if _, err := io.WriteString(e.Out, clearScreen); err != nil {
			return err
		}
	}
	rows := slices.DeleteFunc(append([]*deckhandv1.NodeUsage{sample.GetHost()}, sample.GetJails()...),
		func(u *deckhandv1.NodeUsage) bool { return u == nil })
	return output.List(e.Printer(), usageNoun, rows)
}

var usageNoun = output.Noun[*deckhandv1.NodeUsage]{
	Name: usageName,
	Columns: []output.Column[*deckhandv1.NodeUsage]{
		{Header: "where", Value: usageName},
		{Header: "agent", Value: (*deckhandv1.NodeUsage).GetAgentName},
		{Header: "cpu", Value: func(x *deckhandv1.NodeUsage) string {
			if x.CpuMillis == nil {
				return ""
			}
			return fmt.Sprintf("%.1f%%", float64(x.GetCpuMillis())/10) //nolint:mnd // thousandths to percent
		}},
		{Header: "memory", Value: func(x *deckhandv1.NodeUsage) string { return share(x.MemoryBytes, x.MemoryLimitBytes, output.Size) }},
		{Header: "pids", Value: func(x *deckhandv1.NodeUsage) string { return share(x.Pids, x.PidsLimit, number) }},
		{Header: "disk", Value: func(x *deckhandv1.NodeUsage) string { return share(x.DiskBytes, x.DiskLimitBytes, output.Size) }},
		{Header: "oom", Value: func(x *deckhandv1.NodeUsage) string { return number(x.GetOomKills()) }, Wide: true},
	},
}

func usageName(x *deckhandv1.NodeUsage) string {
	if x.GetJailId() == "" {
		return "(machine)"
	}
	return x.GetJailId()
}

func number(n int64) string { return fmt.Sprint(n) }

// share returns a figure and its limit; "" when there is none.
func share(used, limit *int64, show func(int64) string) string {
	switch {
	case used == nil:
		return ""
	case limit == nil || *limit <= 0:
		return show(*used)
	}
	return show(*used) + " of " + show(*limit)
}
