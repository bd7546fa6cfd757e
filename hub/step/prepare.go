package step

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/identity/organisation"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/hub/work/lease"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/hub/work/workspace"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// AttemptStart is the data that an attempt begins with.
type AttemptStart struct {
	NodeID string
	JailID string
	// Platform is what the jail's commands run on.
	Platform string
	Project  tool.Project
	// Tools are those of the agent's MCP servers, and Problems describes servers that
	// cannot be used.
	Tools    []*deckhandv1.Tool
	Problems []string
}

// Prepare brings the jail's image to the node, creates the jail, copies the task's inputs into its workspace, and moves the
// task from starting to running. It is idempotent.
func (s *Steps) Prepare(ctx context.Context, orgID string, le lease.Lease, check func(context.Context, lease.Lease) (db.Task, error)) (AttemptStart, error) {
	t, err := check(ctx, le)
	if err != nil {
		return AttemptStart{}, err
	}
	if t.OrgID != orgID {
		return AttemptStart{}, lease.Stale(le)
	}
	call := tool.Call{}
	if call.Node, err = s.node(ctx, db.Step{ID: t.ID, NodeID: t.NodeID}); err != nil {
		return AttemptStart{}, err
	}
	p, err := s.persona(ctx, t)
	if err != nil {
		return AttemptStart{}, err
	}
	if err := s.withinCeiling(ctx, t, p); err != nil {
		return AttemptStart{}, err
	}
	dev, err := devcontainerOf(t, p)
	unread := p.Jail.Image == persona.DevcontainerImage && dev.Image == ""
	if err == nil && unread {
		dev, err = s.readDevcontainer(ctx, t, p, call.Node)
	}
	if err != nil {
		return AttemptStart{}, err
	}
	if t, err = s.pullImage(ctx, orgID, le, t, p, dev, call.Node, func(ctx context.Context) error { _, err := check(ctx, le); return err }); err != nil {
		return AttemptStart{}, err
	}
	if call.Jail, err = s.jailOf(ctx, t, p); err != nil {
		return AttemptStart{}, err
	}
	if err := s.knowsEgress(ctx, t, call.Jail.GetEgress()); err != nil {
		return AttemptStart{}, err
	}
	if len(p.Credentials) > 0 {
		name, err := s.cfg.Agents.NameOf(ctx, s.cfg.Store.Queries, orgID, t.AgentID)
		if err != nil {
			return AttemptStart{}, err
		}
		if _, err := s.cfg.Bindings(ctx, orgID, name, p.Credentials); err != nil {
			return AttemptStart{}, fmt.Errorf("bind the credentials of agent %s: %w", name, err)
		}
	}
	if t.Attempt > 1 {
		if err := s.reaskIfChanged(ctx, orgID, le, t, call.Node); err != nil {
			return AttemptStart{}, err
		}
	}
	// The jail may still be frozen, because the node could not be reached to thaw it.
	if t.Attempt > 1 {
		if err := Thaw(ctx, call.Node, t.JailID, t.ID); err != nil {
			return AttemptStart{}, err
		}
	}
	made, err := call.Node.Jails().EnsureJail(ctx, &nodev1.EnsureJailRequest{Spec: call.Jail})
	if err != nil {
		return AttemptStart{}, fmt.Errorf("make jail %s on node %s: %w", t.JailID, *t.NodeID, pruned(call.Jail, fault.FromGRPC(err)))
	}
	if !unread { // else the workspace was filled to read it
		if err := s.checkOut(ctx, t, p, call.Node, call.Jail); err != nil {
			return AttemptStart{}, err
		}
		if err := s.fillWorkspace(ctx, t, call.Node); err != nil {
			return AttemptStart{}, err
		}
	}
	if err := s.createWorkspace(ctx, t, dev, call); err != nil {
		return AttemptStart{}, err
	}
	project, err := tool.ReadProject(ctx, call)
	if err != nil {
		return AttemptStart{}, fmt.Errorf("read the workspace's instructions: %w", fault.FromGRPC(err))
	}
	project.Scratchpad, project.Instructions = s.cfg.Redact.Org(orgID).String(project.Scratchpad), s.cfg.Redact.Org(orgID).String(project.Instructions)
	if project.Skills, err = s.withNodeSkills(ctx, t, p, project.Skills); err != nil {
		return AttemptStart{}, err
	}
	tools, problems, err := s.servers(ctx, t, p, call)
	if err != nil {
		return AttemptStart{}, fmt.Errorf("ask the agent's MCP servers: %w", err)
	}
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		t, err := lease.LockTask(ctx, tx, orgID, le)
		if err != nil || task.State(t.State) == task.Running {
			return err
		}
		if len(problems) > 0 {
			if err := tx.Append(t.OrgID, t.ID, event.Hub, event.Draft{Type: eventkind.MCPProblems, Payload: map[string]any{"problems": problems}}); err != nil {
				return err
			}
		}
		_, err = task.Move(ctx, tx, t, task.Running, "", event.Actor{Kind: "worker", ID: *t.WorkerID})
		return err
	})
	return AttemptStart{NodeID: *t.NodeID, JailID: t.JailID, Platform: made.GetJail().GetPlatform(), Project: project, Tools: tools, Problems: problems}, err
}

// withinCeiling refuses a task whose jail may use more than its organisation gives to one.
func (s *Steps) withinCeiling(ctx context.Context, t db.Task, p *persona.Persona) error {
	jail, err := plainJail(t, p)
	if err != nil {
		return err
	}
	org, err := s.cfg.Store.OrganisationByID(ctx, t.OrgID)
	if err != nil {
		return fmt.Errorf("load organisation %s: %w", t.OrgID, err)
	}
	return organisation.Ceiling(org).Allows(organisation.Jail{
		CPUMillis: jail.GetCpuMillis(), MemoryBytes: jail.GetMemoryBytes(), PIDs: jail.GetPids(), WorkspaceBytes: jail.GetWorkspaceBytes(),
	})
}

// withNodeSkills adds the skills of the task's node to those of the workspace, for an agent
// that can read them: they lie outside of the workspace.
func (s *Steps) withNodeSkills(ctx context.Context, t db.Task, p *persona.Persona, skills []tool.Skill) ([]tool.Skill, error) {
	if !tool.Allowed(p, toolname.ShellExec) {
		return skills, nil
	}
	column, err := s.cfg.Store.NodeSkills(ctx, db.NodeSkillsParams{OrgID: t.OrgID, ID: *t.NodeID})
	if err != nil {
		return nil, fmt.Errorf("read the skills of node %s: %w", *t.NodeID, err)
	}
	for _, skill := range node.Skills(column) {
		if skill.Problem == "" {
			skills = append(skills, tool.Skill{Name: skill.Name, Description: skill.Description, Path: skill.Path})
		}
	}
	return skills, nil
}

// Holder returns the name under which a jail is frozen while a task waits for a person.
func Holder(taskID string) string { return "task:" + taskID }

// Thaw thaws a jail that was frozen while a task waited. It does nothing for a jail that
// does not exist or is not frozen.
func Thaw(ctx context.Context, node machine.Link, jailID, taskID string) error {
	_, err := node.Jails().ThawJail(ctx, &nodev1.ThawJailRequest{JailId: jailID, Holder: Holder(taskID)})
	if err = fault.FromGRPC(err); err != nil && !fault.Is(err, fault.NotFound) {
		return fmt.Errorf("thaw jail %s: %w", jailID, err)
	}
	return nil
}

func (s *Steps) putInputs(ctx context.Context, t db.Task, node machine.Link) error {
	inputs, err := s.cfg.Store.TaskInputs(ctx, db.TaskInputsParams{OrgID: t.OrgID, TaskID: t.ID})
	if err != nil {
		return fmt.Errorf("load inputs of %s: %w", t.ID, err)
	}
	for _, in := range inputs {
		if _, err := node.Files().WriteFile(ctx, &nodev1.WriteFileRequest{
			JailId: t.JailID, Path: in.Path, Content: in.Content, OperationId: workspace.InputsOf(t.ID),
		}); err != nil {
			return fmt.Errorf("put input %s into the workspace: %w", in.Path, fault.FromGRPC(err))
		}
	}
	return nil
}
