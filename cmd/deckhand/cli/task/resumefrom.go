package task

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/change"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/override"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// resumeWorkspaces are the words for what becomes of the workspace.
var resumeWorkspaces = []string{"restore", "overwrite", "keep"}

// resumeFromOptions are the flags of task resume-from.
type resumeFromOptions struct {
	with      override.Retry
	workspace string
	request   *deckhandv1.ResumeTaskFromRequest
}

func resumeFromCommand(e *env.Env) *cobra.Command {
	o := resumeFromOptions{request: &deckhandv1.ResumeTaskFromRequest{}}
	cmd := &cobra.Command{
		Use: "resume-from TASK", Short: "Start a new task from a checkpoint of another one",
		Long: `Makes a new task that has the other's turns and tool calls up to a checkpoint as
its own past. Before it begins, its workspace is made as it was at the
checkpoint. That is refused where it would lose what other tasks or people have
changed since, unless --workspace is overwrite, and where the node does not keep
that state any more. With --workspace keep the files stay as they are.`,
		Example: `deckhand task checkpoints task_3q9
deckhand task resume-from task_3q9 --iteration 4 --preview
deckhand task resume-from task_3q9 --iteration 4 --message "try it without sudo"
deckhand task resume-from task_3q9 --name "tests pass" --message "now the docs"`,
		Args: env.Args("TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.request.GetIteration() < 0 {
				return env.Usage(cmd, "--iteration is %d, give the iteration of a checkpoint", o.request.GetIteration())
			}
			if !slices.Contains(resumeWorkspaces, o.workspace) {
				return env.Usage(cmd, "--workspace is %q, give one of: %s", o.workspace, strings.Join(resumeWorkspaces, ", "))
			}
			o.request.Workspace = deckhandv1.ResumeWorkspace(deckhandv1.ResumeWorkspace_value["RESUME_WORKSPACE_"+strings.ToUpper(o.workspace)])
			var err error
			if o.request.Override, err = o.with.Message(cmd); err != nil {
				return err
			}
			if o.request.GetPreview() {
				o.request.TaskId = args[0]
				return previewResume(cmd.Context(), e, o.request)
			}
			return changeEach(e, cmd, args, func(ctx context.Context, client *sdk.Client, id string) (*deckhandv1.Task, error) {
				o.request.TaskId = id
				res, err := client.Tasks.ResumeTaskFrom(ctx, o.request)
				if err != nil {
					return nil, err
				}
				return res.GetTask(), nil
			})
		},
	}
	cmd.Flags().Int32Var(&o.request.Iteration, "iteration", 0, "the checkpoint's; the newest by default")
	cmd.Flags().Lookup("iteration").DefValue = ""
	cmd.Flags().StringVar(&o.request.Name, "name", "", "the name that the agent gave the checkpoint")
	cmd.Flags().StringVar(&o.request.CheckpointId, "checkpoint", "", "the checkpoint's id; of phase select_tool, the new task makes the calls of the turn that was chosen")
	cmd.MarkFlagsMutuallyExclusive("iteration", "name", "checkpoint")
	cmd.Flags().StringVar(&o.request.Message, "message", "", "message that the agent gets first")
	cmd.Flags().StringVar(&o.workspace, "workspace", "restore", "restore the checkpoint's files, overwrite what others changed since, or keep the files as they are")
	cmd.Flags().BoolVar(&o.request.Preview, "preview", false, "show what would be restored in the workspace, and do nothing")
	o.with.Register(cmd)
	return cmd
}

// previewResume shows what resuming would do to the workspace.
func previewResume(ctx context.Context, e *env.Env, request *deckhandv1.ResumeTaskFromRequest) error {
	client, err := e.Client()
	if err != nil {
		return err
	}
	res, err := client.Tasks.ResumeTaskFrom(ctx, request)
	if err != nil {
		return err
	}
	if !e.Format.ForPeople() {
		return output.One(e.Printer(), output.Noun[*deckhandv1.ResumeTaskFromResponse]{
			Name: func(*deckhandv1.ResumeTaskFromResponse) string { return request.GetTaskId() },
		}, res)
	}
	w := res.GetWorkspace()
	if w == nil {
		e.Notef("the workspace stays as it is")
		return nil
	}
	change.Show(e, w.GetChanges(), w.GetFiles())
	for _, c := range w.GetConflicts() {
		e.Notef("cannot be restored: %s", termsafe.Line(c.GetMessage()))
	}
	if len(w.GetOthers()) > 0 {
		e.Notef("others changed some of this, and would lose it: %s", strings.Join(w.GetOthers(), ", "))
	}
	e.Notef("%d files would be restored", w.GetFiles())
	return nil
}
