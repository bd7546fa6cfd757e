package file

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// sendOptions are the flags of file send.
type sendOptions struct {
	req      *deckhandv1.SendFilesRequest
	toAgent  string
	toTask   string
	fromNode string
	toNode   string
}

func sendCommand(e *env.Env, owner, example string) *cobra.Command {
	o := sendOptions{req: &deckhandv1.SendFilesRequest{}}
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
				return env.Usage(cmd, "%s and PATH are missing", strings.ToUpper(owner))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.req.Paths = args[1:]
			o.req.From, o.req.To = workspaceRef(owner, args[0], o.fromNode), workspaceRef(owner, args[0], o.toNode)
			switch {
			case o.toAgent != "" && o.toTask != "":
				return env.Usage(cmd, "give --to-agent or --to-task, not both")
			case o.toAgent != "":
				o.req.To = workspaceRef("agent", o.toAgent, o.toNode)
			case o.toTask != "":
				o.req.To = workspaceRef("task", o.toTask, o.toNode)
			case o.toNode == "" && o.fromNode == "" && o.req.GetFolder() == "":
				return env.Usage(cmd, "say where to: --to-agent, --to-task, --to-node or --into")
			}
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Files.SendFiles(cmd.Context(), o.req)
			if err != nil {
				return err
			}
			e.Notef("%d files, %d bytes copied; %d were there already", res.GetFiles(), res.GetBytes(), res.GetUnchanged())
			for _, name := range res.GetSkipped() {
				e.Notef("not copied: %s", termsafe.Line(name))
			}
			return nil
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.toAgent, "to-agent", "", "the agent whose workspace they go into")
	flags.StringVar(&o.toTask, "to-task", "", "the task whose workspace they go into")
	flags.StringVar(&o.toNode, "to-node", "", "the node, where it is not the one that holds the workspace")
	flags.StringVar(&o.fromNode, "from-node", "", "the node that they are on, where it is not the one that holds the workspace")
	flags.StringVar(&o.req.Folder, "into", "", "a folder of the target")
	flags.BoolVar(&o.req.Overwrite, "overwrite", false, "replace files that have another content")
	return cmd
}
