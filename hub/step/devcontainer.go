package step

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/setup"
	"github.com/deckhand-sh/deckhand/internal/devcontainer"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// devcontainerOf returns what the devcontainer.json of a task's workspace said when the
// task's image was resolved; the zero value for a persona that does not ask for it.
func devcontainerOf(t db.Task, p *persona.Persona) (devcontainer.Config, error) {
	var c devcontainer.Config
	if len(t.Devcontainer) == 0 || p.Jail.Image != persona.DevcontainerImage {
		return c, nil
	}
	if err := json.Unmarshal(t.Devcontainer, &c); err != nil {
		return c, fmt.Errorf("read the devcontainer of %s: %w", t.ID, err)
	}
	return c, nil
}

// readDevcontainer reads the devcontainer.json of a task's workspace. For that the workspace
// must be there: it is that of a jail without an image, in which nothing runs.
func (s *Steps) readDevcontainer(ctx context.Context, t db.Task, p *persona.Persona, node machine.Link) (devcontainer.Config, error) {
	jail, err := plainJail(t, p)
	if err != nil {
		return devcontainer.Config{}, err
	}
	if p.Workspace.Git != nil {
		if jail.Egress, err = s.egressOf(ctx, t, p, p.Mode == persona.Review); err != nil {
			return devcontainer.Config{}, err
		}
		if err := s.knowsEgress(ctx, t, jail.Egress); err != nil {
			return devcontainer.Config{}, err
		}
	}
	if _, err := node.Jails().EnsureJail(ctx, &nodev1.EnsureJailRequest{Spec: jail}); err != nil {
		return devcontainer.Config{}, fmt.Errorf("make the workspace of %s: %w", t.ID, fault.FromGRPC(err))
	}
	if err := s.checkOut(ctx, t, p, node, jail); err != nil {
		return devcontainer.Config{}, err
	}
	if err := s.fillWorkspace(ctx, t, node); err != nil {
		return devcontainer.Config{}, err
	}
	for _, path := range devcontainer.Paths {
		res, err := node.Files().ReadFile(ctx, &nodev1.ReadFileRequest{JailId: t.JailID, Path: path})
		err = fault.FromGRPC(err)
		if fault.Is(err, fault.NotFound) {
			continue
		}
		if err != nil {
			return devcontainer.Config{}, fmt.Errorf("read %s of the workspace: %w", path, err)
		}
		c, err := devcontainer.Parse(res.GetContent())
		if err != nil {
			return c, fault.As(err).WithObject(path)
		}
		if c.Root && !p.Jail.RootUser {
			return c, fault.New(fault.Denied, "%s asks for the user root, and the persona does not", path).WithCode(fault.PermissionDenied).WithObject(path).
				WithFix("write jail.user: root in the persona, or another remoteUser")
		}
		return c, nil
	}
	return devcontainer.Config{}, fault.New(fault.Precondition, "the workspace has no %s, and the persona's jail.image is %q", devcontainer.Paths[0], persona.DevcontainerImage).
		WithCode(fault.ImageUnavailable).WithFix("put the repository into the workspace first (deckhand agent files put), or name an image in jail.image")
}

// fillWorkspace puts into the workspace of a task that has not started what it begins with.
func (s *Steps) fillWorkspace(ctx context.Context, t db.Task, node machine.Link) error {
	if t.StartedAt != nil {
		return nil // it has them, and may have changed them
	}
	if t.ResumedAt > 0 {
		if err := s.cfg.Restore(ctx, t, node); err != nil {
			return err
		}
	}
	if t.InputCount > 0 {
		if err := s.putInputs(ctx, t, node); err != nil {
			return err
		}
	}
	return s.cfg.Artifacts.Deliver(ctx, t)
}

// createWorkspace runs the commands that a devcontainer.json has for a new workspace.
func (s *Steps) createWorkspace(ctx context.Context, t db.Task, dev devcontainer.Config, call tool.Call) error {
	if len(dev.PostCreate) == 0 {
		return nil
	}
	row, err := s.cfg.Store.NodeByID(ctx, *t.NodeID)
	if err != nil {
		return fmt.Errorf("load node %s: %w", *t.NodeID, err)
	}
	return s.cfg.Setups.Run(ctx, setup.Workspace{
		What: "postCreateCommand of devcontainer.json", Fix: "change postCreateCommand, or the persona's egress",
		OrgID: t.OrgID, AgentID: t.AgentID, Node: row, Link: call.Node, Jail: call.Jail, Commands: dev.PostCreate,
		Permit: func(ctx context.Context, one devcontainer.Command) error { return s.permitCreation(ctx, t, one) },
	})
}

// permitCreation refuses a command of postCreateCommand that the agent may not run without
// asking anybody. The agent itself may have written it.
func (s *Steps) permitCreation(ctx context.Context, t db.Task, one devcontainer.Command) error {
	arguments, err := json.Marshal(map[string]string{"command": one.String()})
	if err != nil {
		return fmt.Errorf("encode a command of postCreateCommand: %w", err)
	}
	_, _, judged := s.judge(ctx, s.cfg.Store.Queries, free(), t, Proposal{Tool: toolname.ShellExec, ArgumentsJSON: string(arguments)})
	why := judged.ask
	switch {
	case judged.denied != nil:
		why = judged.denied.Message
	case judged.deferred:
		why = "the task is in review mode"
	case judged.unmade != nil:
		return judged.unmade
	case why == "":
		return nil
	}
	return fault.New(fault.Denied, "postCreateCommand of devcontainer.json may not run by itself: %s: %s", why, one).WithCode(fault.PermissionDenied).
		WithFix("have the policy or the persona allow it, or leave it out and have the agent run it, which asks")
}
