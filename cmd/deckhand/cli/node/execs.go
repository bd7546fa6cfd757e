package node

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// execsOptions are the flags of node execs.
type execsOptions struct {
	request *deckhandv1.ListNodeExecsRequest
	limit   int
}

func execsCommand(e *env.Env) *cobra.Command {
	o := execsOptions{request: &deckhandv1.ListNodeExecsRequest{}}
	cmd := &cobra.Command{
		Use: "execs [NODE]", Short: "List commands and terminals that people started", Example: "deckhand node execs web-1 --live",
		Args: env.Args("[NODE]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			if o.limit < 0 {
				return env.Usage(cmd, "--limit is %d, give 0 for all or a positive number", o.limit)
			}
			o.request.NodeId = env.Optional(args, 0)
			execs, _, err := env.Newest(cmd.Context(), o.limit, "", client.NodeExecs.ListNodeExecs, o.request, func(size int32, token string) {
				o.request.PageSize, o.request.PageToken = size, token
			}, (*deckhandv1.ListNodeExecsResponse).GetExecs)
			if err != nil {
				return err
			}
			if len(execs) == 0 {
				e.Notef("no commands; run one: deckhand node exec NODE --agent AGENT -- COMMAND")
			}
			return output.List(e.Printer(), execNoun(e), execs)
		},
	}
	cmd.Flags().BoolVar(&o.request.LiveOnly, "live", false, "only running ones")
	cmd.Flags().IntVar(&o.limit, "limit", 50, "maximum number, newest first (0 = all)")
	return cmd
}

func execNoun(e *env.Env) output.Noun[*deckhandv1.NodeExec] {
	return output.Noun[*deckhandv1.NodeExec]{
		Name: (*deckhandv1.NodeExec).GetId,
		Columns: []output.Column[*deckhandv1.NodeExec]{
			{Header: "id", Value: (*deckhandv1.NodeExec).GetId},
			{Header: "node", Value: (*deckhandv1.NodeExec).GetNodeName},
			{Header: "where", Value: execPlace, Style: func(x *deckhandv1.NodeExec) lipgloss.Style {
				if x.GetTarget() == deckhandv1.NodeExecTarget_NODE_EXEC_TARGET_HOST {
					return output.FailStyle
				}
				return output.ToolStyle
			}},
			{Header: "by", Value: (*deckhandv1.NodeExec).GetCreatedBy},
			{Header: "age", Value: func(x *deckhandv1.NodeExec) string { return e.Age(x.GetCreatedAt()) }},
			{Header: "end", Value: execEnd},
			{Header: "log", Value: func(x *deckhandv1.NodeExec) string { return output.Size(x.GetLogBytes()) }},
			{Header: "files", Value: func(x *deckhandv1.NodeExec) string {
				if x.GetUndoneAt() != nil {
					return fmt.Sprintf("%d, undone", x.GetFiles())
				}
				return fmt.Sprint(x.GetFiles())
			}},
			{Header: "command", Value: func(x *deckhandv1.NodeExec) string {
				if x.GetTerminal() {
					return "(a terminal)"
				}
				return strings.Join(x.GetArgv(), " ")
			}, Max: 60},
			{Header: "dir", Value: (*deckhandv1.NodeExec).GetDir, Wide: true},
			{Header: "error", Value: (*deckhandv1.NodeExec).GetError, Wide: true},
			{Header: "jail", Value: (*deckhandv1.NodeExec).GetJailId, Wide: true},
		},
	}
}

func execPlace(x *deckhandv1.NodeExec) string {
	if x.GetTarget() == deckhandv1.NodeExecTarget_NODE_EXEC_TARGET_HOST {
		return "HOST"
	}
	return "jail"
}

func execEnd(x *deckhandv1.NodeExec) string {
	switch {
	case x.GetState() != deckhandv1.NodeExecState_NODE_EXEC_STATE_ENDED:
		return strings.ToLower(strings.TrimPrefix(x.GetState().String(), "NODE_EXEC_STATE_"))
	case x.GetEndReason() == "exited":
		return fmt.Sprintf("exited %d", x.GetExitCode())
	}
	return x.GetEndReason()
}
