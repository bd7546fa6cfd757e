package cli

import (
	"fmt"
	"slices"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// readArtifacts reads TASK:PATH for each, those of one task together; shared are
// given for reading only.
func readArtifacts(cmd *cobra.Command, flag string, specs []string, shared bool) (out []*deckhandv1.TaskArtifacts, err error) {
	for _, spec := range specs {
		task, path, ok := strings.Cut(spec, ":")
		if !ok || task == "" || path == "" {
			return nil, usage(cmd, "--%s is %q, give TASK:PATH", flag, spec)
		}
		at := slices.IndexFunc(out, func(a *deckhandv1.TaskArtifacts) bool { return a.GetFromTaskId() == task })
		if at < 0 {
			at = len(out)
			out = append(out, &deckhandv1.TaskArtifacts{FromTaskId: task, Shared: shared})
		}
		out[at].Paths = append(out[at].Paths, path)
	}
	return out, nil
}

func workspaceRef(owner, ref, node string) *deckhandv1.WorkspaceRef {
	out := &deckhandv1.WorkspaceRef{NodeId: node, Workspace: &deckhandv1.WorkspaceRef_AgentId{AgentId: ref}}
	if owner == "task" {
		out.Workspace = &deckhandv1.WorkspaceRef_TaskId{TaskId: ref}
	}
	return out
}

func (a *app) filesSendCommand(owner, example string) *cobra.Command {
	req := &deckhandv1.SendFilesRequest{}
	var toAgent, toTask, fromNode, toNode string
	cmd := &cobra.Command{
		Use: "send " + strings.ToUpper(owner) + " PATH...", Short: "Copy files into another workspace, also on another node",
		Long: `Copies files, folders and links into the workspace of another agent or task, with
their paths kept, or into the jail that the same agent has on another node. A
path may be a pattern, in which * is any text within a name and ** any folders.
What is there already is not sent again. Where something else is there nothing
is copied, unless it is what was copied there last, or with --overwrite.`,
		Example: fmt.Sprintf(`deckhand %[1]s files send %[2]s report.md 'src/**/*.go' --to-agent reviewer --into from-%[2]s
deckhand %[1]s files send %[2]s config --to-node web-2`, owner, example),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage(cmd, "%s and PATH are missing", strings.ToUpper(owner))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			req.Paths = args[1:]
			req.From, req.To = workspaceRef(owner, args[0], fromNode), workspaceRef(owner, args[0], toNode)
			switch {
			case toAgent != "" && toTask != "":
				return usage(cmd, "give --to-agent or --to-task, not both")
			case toAgent != "":
				req.To = workspaceRef("agent", toAgent, toNode)
			case toTask != "":
				req.To = workspaceRef("task", toTask, toNode)
			case toNode == "" && fromNode == "" && req.GetFolder() == "":
				return usage(cmd, "say where to: --to-agent, --to-task, --to-node or --into")
			}
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Files.SendFiles(cmd.Context(), connect.NewRequest(req))
			if err != nil {
				return err
			}
			a.notef("%d files, %d bytes copied; %d were there already", res.Msg.GetFiles(), res.Msg.GetBytes(), res.Msg.GetUnchanged())
			for _, name := range res.Msg.GetSkipped() {
				a.notef("not copied: %s", termsafe.Line(name))
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&toAgent, "to-agent", "", "the agent whose workspace they go into")
	flags.StringVar(&toTask, "to-task", "", "the task whose workspace they go into")
	flags.StringVar(&toNode, "to-node", "", "the node, where it is not the one that holds the workspace")
	flags.StringVar(&fromNode, "from-node", "", "the node that they are on, where it is not the one that holds the workspace")
	flags.StringVar(&req.Folder, "into", "", "a folder of the target")
	flags.BoolVar(&req.Overwrite, "overwrite", false, "replace files that have another content")
	return cmd
}

func (a *app) taskArtifactsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "artifacts TASK", Short: "List the files that a task was given by others, and gave to them",
		Example: "deckhand task artifacts task_3q9",
		Args:    takes("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			transfers, err := sdk.All(cmd.Context(), client.Workspaces.ListArtifacts, func(token string) *deckhandv1.ListArtifactsRequest {
				return &deckhandv1.ListArtifactsRequest{TaskId: args[0], PageToken: token}
			}, (*deckhandv1.ListArtifactsResponse).GetTransfers)
			if err != nil {
				return err
			}
			if len(transfers) == 0 {
				a.notef("it was given no files by others, and gave them none")
			}
			return output.List(a.printer(), a.artifactNoun(), transfers)
		},
	}
}

func (a *app) artifactNoun() output.Noun[*deckhandv1.ArtifactTransfer] {
	type transfer = *deckhandv1.ArtifactTransfer
	return output.Noun[transfer]{
		Name: transfer.GetId,
		Columns: []output.Column[transfer]{
			{Header: "from", Value: transfer.GetFromTaskId},
			{Header: "to", Value: transfer.GetToTaskId},
			{Header: "state", Value: transfer.GetState},
			{Header: "how", Value: func(x transfer) string {
				if x.GetShared() {
					return "shared"
				}
				return "copied"
			}},
			{Header: "folder", Value: transfer.GetFolder, Max: 60},
			{Header: "files", Value: func(x transfer) string { return fmt.Sprint(x.GetFiles()) }},
			{Header: "size", Value: func(x transfer) string { return size(x.GetBytes()) }},
			{Header: "missing", Value: func(x transfer) string { return strings.Join(x.GetMissing(), " ") }, Max: 60},
			{Header: "age", Value: func(x transfer) string { return a.age(x.GetCreatedAt()) }},
			{Header: "id", Value: transfer.GetId, Wide: true},
			{Header: "by", Value: transfer.GetCreatedBy, Wide: true},
			{Header: "paths", Value: func(x transfer) string { return strings.Join(x.GetPaths(), " ") }, Wide: true},
		},
	}
}
