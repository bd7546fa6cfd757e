package cli

import (
	"context"
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

// resumeWorkspaces are the words for what becomes of the workspace.
var resumeWorkspaces = []string{"restore", "overwrite", "keep"}

func (a *app) taskResumeFromCommand() *cobra.Command {
	var o override
	var workspace string
	request := &deckhandv1.ResumeTaskFromRequest{}
	cmd := &cobra.Command{
		Use: "resume-from TASK", Short: "Start a new task that goes on from an older point of another",
		Long: `Makes a new task that has the other's turns and tool calls up to a checkpoint as
its own past. Before it begins, its workspace is made as it was at the
checkpoint. That is refused where it would lose what other tasks or people have
changed since, unless --workspace is overwrite, and where the node does not keep
that state any more. With --workspace keep the files stay as they are.`,
		Example: `deckhand task checkpoints task_3q9
deckhand task resume-from task_3q9 --iteration 4 --preview
deckhand task resume-from task_3q9 --iteration 4 --message "try it without sudo"`,
		Args: takes("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if request.GetIteration() < 0 {
				return usage(cmd, "--iteration is %d, give the iteration of a checkpoint", request.GetIteration())
			}
			if !slices.Contains(resumeWorkspaces, workspace) {
				return usage(cmd, "--workspace is %q, give one of: %s", workspace, strings.Join(resumeWorkspaces, ", "))
			}
			request.Workspace = deckhandv1.ResumeWorkspace(deckhandv1.ResumeWorkspace_value["RESUME_WORKSPACE_"+strings.ToUpper(workspace)])
			var err error
			if request.Override, err = o.message(cmd); err != nil {
				return err
			}
			if request.GetPreview() {
				request.TaskId = args[0]
				return a.previewResume(cmd.Context(), request)
			}
			return a.steer(cmd, args, func(ctx context.Context, client *sdk.Client, id string) (*deckhandv1.Task, error) {
				request.TaskId = id
				res, err := client.Tasks.ResumeTaskFrom(ctx, connect.NewRequest(request))
				if err != nil {
					return nil, err
				}
				return res.Msg.GetTask(), nil
			})
		},
	}
	cmd.Flags().Int32Var(&request.Iteration, "iteration", 0, "the checkpoint's; the newest by default")
	cmd.Flags().Lookup("iteration").DefValue = ""
	cmd.Flags().StringVar(&request.Message, "message", "", "what the agent is told first")
	cmd.Flags().StringVar(&workspace, "workspace", "restore", "restore the checkpoint's files, overwrite what others changed since, or keep the files as they are")
	cmd.Flags().BoolVar(&request.Preview, "preview", false, "show what would be given back in the workspace, and do nothing")
	o.register(cmd)
	return cmd
}

// previewResume shows what resuming would do to the workspace.
func (a *app) previewResume(ctx context.Context, request *deckhandv1.ResumeTaskFromRequest) error {
	client, err := a.connect()
	if err != nil {
		return err
	}
	res, err := client.Tasks.ResumeTaskFrom(ctx, connect.NewRequest(request))
	if err != nil {
		return err
	}
	if !a.format.ForPeople() {
		return output.One(a.printer(), output.Noun[*deckhandv1.ResumeTaskFromResponse]{
			Name: func(*deckhandv1.ResumeTaskFromResponse) string { return request.GetTaskId() },
		}, res.Msg)
	}
	w := res.Msg.GetWorkspace()
	if w == nil {
		a.notef("the workspace stays as it is")
		return nil
	}
	a.showChanges(w.GetChanges(), w.GetFiles())
	for _, c := range w.GetConflicts() {
		a.notef("cannot be given back: %s", termsafe.Line(c.GetMessage()))
	}
	if len(w.GetOthers()) > 0 {
		a.notef("others changed some of this, and would lose it: %s", strings.Join(w.GetOthers(), ", "))
	}
	a.notef("%d files would be given back", w.GetFiles())
	return nil
}

// showChanges lists paths that change, a line each.
func (a *app) showChanges(changes []*deckhandv1.FileChange, files int32) {
	for _, c := range changes {
		fmt.Fprintf(a.out, "%s %s\n", sign(c.GetKind()), termsafe.Line(c.GetPath()))
	}
	if more := int(files) - len(changes); more > 0 {
		fmt.Fprintf(a.out, "and %d more\n", more)
	}
}
