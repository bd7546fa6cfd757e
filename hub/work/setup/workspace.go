package setup

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/nodeexec"
	"github.com/deckhand-sh/deckhand/internal/devcontainer"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Workspace is a workspace in which commands are to run once before its agent begins.
type Workspace struct {
	// What names the commands in errors and records, such as "postCreateCommand of
	// devcontainer.json", and Fix says what to do when one fails.
	What, Fix      string
	OrgID, AgentID string
	Node           db.Node
	Link           machine.Link
	// Jail is the jail that it is the workspace of, which runs.
	Jail     *nodev1.JailSpec
	Commands []devcontainer.Command
	// Permit returns an error if the agent may not run a command by itself; nil for
	// commands that are not the agent's.
	Permit func(ctx context.Context, one devcontainer.Command) error
}

// Run runs the commands of a workspace, unless they have run in it. A command that another
// attempt has started is waited for and not started again. After one has failed, the next
// call runs all of them again.
func (s *Setups) Run(ctx context.Context, w Workspace) error {
	if len(w.Commands) == 0 {
		return nil
	}
	encoded, err := json.Marshal(w.Commands)
	if err != nil {
		return fmt.Errorf("encode the commands of the workspace: %w", err)
	}
	digest, jailID := fmt.Sprintf("sha256:%x", sha256.Sum256(encoded)), w.Jail.GetJailId()
	started, err := s.cfg.Store.WorkspaceCommands(ctx, db.WorkspaceCommandsParams{OrgID: w.OrgID, JailID: jailID, Digest: digest})
	if err != nil {
		return fmt.Errorf("load the commands of the workspace: %w", err)
	}
	if started, err = s.thoseThatRan(ctx, w.OrgID, jailID, digest, started); err != nil {
		return err
	}
	for i, one := range w.Commands {
		what := fmt.Sprintf("command %d of %d", i+1, len(w.Commands))
		if i == len(started) {
			if w.Permit != nil {
				if err := w.Permit(ctx, one); err != nil {
					return err
				}
			}
			argv := one.Argv
			if one.Line != "" {
				argv = []string{"/bin/sh", "-c", one.Line}
			}
			row, err := s.cfg.Execs.Submit(ctx, nodeexec.Request{
				OrgID: w.OrgID, Node: w.Node, AgentID: w.AgentID, Jail: w.Jail, Reason: w.What + ", " + what, Timeout: lineTimeout,
				Argv: argv, Shell: one.Line != "",
				Stored: func(q *db.Queries, execID string) error {
					return q.StartWorkspaceCommand(ctx, db.StartWorkspaceCommandParams{
						OrgID: w.OrgID, JailID: jailID, Digest: digest, Position: int32(i + 1), ExecID: execID, //nolint:gosec // at most 50
					})
				},
			})
			if err != nil {
				return fmt.Errorf("start %s of %s: %w", what, w.What, err)
			}
			started = append(started, row.NodeExec.ID)
		}
		err := s.succeeded(ctx, w.OrgID, w.Link, started[i], what, one.String())
		if ctx.Err() != nil {
			clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepTimeout)
			defer cancel()
			s.kill(clean, w.OrgID, started[i], node.User{})
			return ctx.Err()
		}
		if text := explain(err); text != "" {
			if err := s.cfg.Store.ForgetWorkspaceCommands(ctx, db.ForgetWorkspaceCommandsParams{OrgID: w.OrgID, JailID: jailID, Digest: digest, ExecID: started[i]}); err != nil {
				return fmt.Errorf("forget the commands of the workspace: %w", err)
			}
			return fault.New(fault.Precondition, "%s failed: %s", w.What, text).WithCode(fault.SetupFailed).WithObject(started[i]).
				WithFix("see its whole output with: deckhand node logs %s; then %s", started[i], w.Fix)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// thoseThatRan returns the commands of a workspace that were started, without a last one
// that its node refused or never got: that one ran nowhere, and is started again.
func (s *Setups) thoseThatRan(ctx context.Context, orgID, jailID, digest string, started []string) ([]string, error) {
	if len(started) == 0 {
		return nil, nil
	}
	last := started[len(started)-1]
	row, err := s.cfg.Execs.Get(ctx, orgID, last)
	if err != nil {
		return nil, err
	}
	if row.NodeExec.State != "ended" || row.NodeExec.EndReason != nodeexec.Refused && row.NodeExec.EndReason != nodeexec.NotStarted {
		return started, nil
	}
	if err := s.cfg.Store.ForgetWorkspaceCommand(ctx, db.ForgetWorkspaceCommandParams{OrgID: orgID, JailID: jailID, Digest: digest, ExecID: last}); err != nil {
		return nil, fmt.Errorf("forget a command of the workspace that did not run: %w", err)
	}
	return started[:len(started)-1], nil
}
