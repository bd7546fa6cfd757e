package exec

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/node/jail"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// Workspaces records what commands change in the workspaces of their jails.
type Workspaces interface {
	// Begin is called before a command is started. If keep is set, it records
	// the current workspace; an error refuses the command.
	Begin(ctx context.Context, jailID, execID string, keep bool) error
	// Resume is called for a command that an earlier daemon started.
	Resume(ctx context.Context, jailID, execID string) error
	// Detach is called when a command becomes a job, under which id the changes that it
	// makes from then on are recorded. If keep is set, it returns the changes until then.
	Detach(ctx context.Context, jailID, execID, jobID string, keep bool) *nodev1.WorkspaceChange
	// ResumeJob and EndJob are Resume and End for jobs.
	ResumeJob(ctx context.Context, jailID, jobID string) error
	EndJob(ctx context.Context, jailID, jobID string, keep bool) *nodev1.WorkspaceChange
	// End is called after the last process of a command has exited and before
	// its result is published. If keep is set, it returns the changes.
	End(ctx context.Context, jailID, execID string, keep bool) *nodev1.WorkspaceChange
}

// recorded returns the ids under which what a command changes is recorded: its jail's
// workspace, or the folders of the machine that it names.
func recorded(spec *nodev1.ExecSpec) []string {
	if spec.GetJailId() != jail.HostID {
		return []string{spec.GetJailId()}
	}
	out := make([]string, len(spec.GetHostPaths()))
	for i, dir := range spec.GetHostPaths() {
		out[i] = nodelink.HostFolder + dir
	}
	return out
}

// together returns what was changed in several folders of the machine as one change, with
// absolute paths.
func together(spec *nodev1.ExecSpec, changes []*nodev1.WorkspaceChange) *nodev1.WorkspaceChange {
	if spec.GetJailId() != jail.HostID {
		return changes[0]
	}
	var out *nodev1.WorkspaceChange
	for i, c := range changes {
		if c == nil {
			continue
		}
		if out == nil {
			out = &nodev1.WorkspaceChange{Id: c.GetId()}
		}
		dir := spec.GetHostPaths()[i]
		absolute := func(name []byte) []byte { return append([]byte(dir+"/"), name...) }
		out.Files += c.GetFiles()
		out.Unkept += c.GetUnkept()
		if out.Error == "" && c.GetError() != "" {
			out.Error = dir + ": " + c.GetError()
		}
		for _, f := range c.GetChanges() {
			if len(out.GetChanges()) < maxHostChanges {
				f = proto.CloneOf(f)
				f.Path = absolute(f.GetPath())
				out.Changes = append(out.Changes, f)
			}
		}
		for _, name := range c.GetUnkeptPaths() {
			if len(out.GetUnkeptPaths()) < maxHostUnkept {
				out.UnkeptPaths = append(out.UnkeptPaths, absolute(name))
			}
		}
		for _, other := range c.GetSharedWith() {
			if !slices.Contains(out.GetSharedWith(), other) {
				out.SharedWith = append(out.SharedWith, other)
			}
		}
	}
	return out
}

const (
	maxHostChanges = 100
	maxHostUnkept  = 20
)

// recordBefore records the workspace before the command is started. If that
// fails, the command is not run, because its changes could not be undone:
// recordBefore returns an end that says why.
func (w *watch) recordBefore(ctx context.Context) (refusal *nodev1.Exec, err error) {
	spec := w.rec.GetSpec()
	if w.s.spaces == nil {
		return nil, nil
	}
	ids := recorded(spec)
	for i, id := range ids {
		if err = w.s.spaces.Begin(ctx, id, spec.GetExecId(), spec.GetSnapshot()); err != nil {
			for _, begun := range ids[:i] {
				w.s.spaces.End(ctx, begun, spec.GetExecId(), false)
			}
			break
		}
	}
	if err == nil && jobFromStart(spec) && spec.GetJailId() != jail.HostID {
		// Before it is started, so that all that it changes is the job's.
		w.s.spaces.Detach(ctx, spec.GetJailId(), spec.GetExecId(), nodelink.JobID(spec.GetExecId()), false)
	}
	if err == nil || ctx.Err() != nil {
		return nil, err
	}
	why := "the workspace could not be recorded before the command, so that its changes could not be undone"
	if e := fault.As(err); e != nil {
		why = e.Error()
	} else {
		w.s.log.Error("record a workspace before a command", "exec_id", spec.GetExecId(), "error", err)
	}
	return w.end(nodev1.EndReason_END_REASON_START_FAILED, func(e *nodev1.Exec) { e.StartError = why }), nil
}

// resume reports the execs that an earlier daemon started to Workspaces, all of
// them before any new one, because each of them may have made the changes since
// the last snapshot.
func (s *Service) resume(ctx context.Context, records []*nodev1.ExecRecord) {
	if s.spaces == nil {
		return
	}
	for _, rec := range records {
		spec := rec.GetSpec()
		var err error
		if rec.GetJobSince() != nil || jobFromStart(spec) {
			err = s.spaces.ResumeJob(ctx, spec.GetJailId(), nodelink.JobID(spec.GetExecId()))
		} else {
			for _, id := range recorded(spec) {
				err = errors.Join(err, s.spaces.Resume(ctx, id, spec.GetExecId()))
			}
		}
		if err != nil && !fault.Is(err, fault.NotFound) {
			s.log.Error("resume recording a command's workspace", "exec_id", spec.GetExecId(), "error", err)
		}
	}
}

// recordAfter adds what the command changed to its end.
func (w *watch) recordAfter(ctx context.Context, final *nodev1.Exec) {
	if w.s.spaces == nil {
		return
	}
	spec := w.rec.GetSpec()
	if final.GetJobSince() != nil || jobFromStart(spec) {
		final.JobWorkspace = w.s.spaces.EndJob(ctx, spec.GetJailId(), nodelink.JobID(spec.GetExecId()), spec.GetSnapshot() && ran(final))
		return
	}
	ids := recorded(spec)
	if len(ids) == 0 {
		return
	}
	changes := make([]*nodev1.WorkspaceChange, len(ids))
	for i, id := range ids {
		changes[i] = w.s.spaces.End(ctx, id, spec.GetExecId(), spec.GetSnapshot() && ran(final))
	}
	final.Workspace = together(spec, changes)
}

// ran reports whether a command may have changed anything.
func ran(final *nodev1.Exec) bool {
	switch final.GetEndReason() {
	case nodev1.EndReason_END_REASON_NOT_STARTED, nodev1.EndReason_END_REASON_START_FAILED:
		return false
	}
	return true
}
