package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/snapshot/history"
	"github.com/deckhand-sh/deckhand/node/snapshot/nofollow"
	"github.com/deckhand-sh/deckhand/node/snapshot/restore"
	"github.com/deckhand-sh/deckhand/node/snapshot/scan"
	"github.com/deckhand-sh/deckhand/node/snapshot/tree"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// selection is the deltas that a range names.
type selection struct {
	// deltas from the earliest of them to the newest there is.
	deltas []tree.Delta
	wanted func(tree.Delta) bool
	ids    []string
}

// chosen returns the wanted ones.
func (s selection) chosen() []tree.Delta {
	return slices.DeleteFunc(slices.Clone(s.deltas), func(d tree.Delta) bool { return !s.wanted(d) })
}

// choose finds the deltas of a range. A range from a state that is forgotten
// already is refused.
func (sp *space) choose(r *nodev1.ChangeRange) (selection, error) {
	from, to := r.GetFrom(), r.GetTo()
	if to == 0 {
		to = sp.state.seq
	}
	if from > sp.state.seq || to > sp.state.seq || from > to {
		return selection{}, fault.New(fault.NotFound, "the workspace of %s has states up to %d, not %d to %d", sp.jailID, sp.state.seq, from, to).
			WithObject(sp.jailID)
	}
	oldest, err := sp.history.Oldest()
	if err != nil {
		return selection{}, err
	}
	if len(r.GetBy()) == 0 {
		if from < oldest {
			return selection{}, sp.forgotten(from, oldest)
		}
		deltas, err := sp.history.Deltas(from, sp.state.seq)
		return selection{deltas: deltas, wanted: func(d tree.Delta) bool { return d.Seq <= to }}, err
	}
	first := int64(-1)
	by := map[string]bool{}
	for _, id := range r.GetBy() {
		by[id] = true
		seqs, err := sp.history.Of(id)
		if err != nil {
			return selection{}, err
		}
		if len(seqs) > 0 && (first < 0 || seqs[0] < first) {
			first = seqs[0]
		}
	}
	out := selection{ids: r.GetBy(), wanted: func(d tree.Delta) bool {
		return d.Seq > from && d.Seq <= to && slices.ContainsFunc(d.By, func(id string) bool { return by[id] })
	}}
	if first >= 0 {
		out.deltas, err = sp.history.Deltas(max(first-1, from), sp.state.seq)
	}
	return out, err
}

func (sp *space) forgotten(from, oldest int64) error {
	return fault.New(fault.NotFound, "the changes after state %d of the workspace are kept, those after state %d are not any more", oldest, from).
		WithFix("changes are kept for %s, and as long as there is room", sp.s.cfg.KeepFor).WithObject(sp.jailID)
}

// undo takes changes back, or says what that would do.
func (sp *space) undo(ctx context.Context, req *nodev1.UndoChangesRequest) (*nodev1.UndoChangesResponse, error) {
	if id := req.GetOperationId(); id != "" {
		done, err := sp.doneBefore(id)
		if done != nil || err != nil {
			return done, err
		}
	}
	if want := req.GetExpectRecord(); want != "" && want != sp.state.name {
		return nil, fault.New(fault.NotFound, "the workspace of %s was created again: its earlier states are gone", sp.jailID).WithObject(sp.jailID)
	}
	if !sp.state.clean {
		if _, err := sp.look(ctx, false); err != nil {
			return nil, err
		}
	}
	if want := req.GetExpectSnapshot(); want != 0 && want != sp.state.seq {
		return nil, fault.New(fault.Aborted, "the workspace has changed: it is at state %d, and the preview was of %d", sp.state.seq, want).
			WithCode(fault.FileConflict).WithFix("look at a new preview").WithObject(sp.jailID)
	}
	chosen, err := sp.choose(req.GetRange())
	if err != nil {
		return nil, err
	}
	overwrite := req.GetOnConflict() == nodev1.OnConflict_ON_CONFLICT_OVERWRITE
	var only []string
	for _, path := range req.GetPaths() {
		only = append(only, below(path))
	}
	plan := tree.Undo(sp.state.tree, chosen.deltas, chosen.wanted, overwrite, only...)
	out := describePlan(plan)
	out.Snapshot, out.Running, out.By = sp.state.seq, int32(sp.state.running()), undone(chosen)
	out.SharedWith = slices.DeleteFunc(plan.Shared, func(id string) bool { return slices.Contains(chosen.ids, id) })
	refuse := len(plan.Conflicts) > 0 && !overwrite && req.GetOnConflict() != nodev1.OnConflict_ON_CONFLICT_SKIP
	if req.GetPreview() || refuse {
		return out, nil
	}
	out.Applied = true
	if len(plan.Changes) == 0 {
		return out, nil
	}
	d := tree.Delta{Seq: sp.state.seq + 1, Undoes: undone(chosen), Time: sp.s.cfg.Now().UnixNano(), Changes: plan.Changes}
	if len(d.Undoes) == 0 {
		d.Undoes = []string{nobody} // an undo all the same
	}
	if req.GetOperationId() != "" {
		d.By = []string{req.GetOperationId()}
	}
	if err := sp.apply(ctx, d); err != nil {
		return nil, err
	}
	out.Snapshot = sp.state.seq
	return out, nil
}

// nobody is the author of changes that were found when nothing was known to be
// running.
const nobody = "nobody"

// undone returns whose changes are undone, with nobody for those of no known author.
func undone(s selection) []string {
	if len(s.ids) > 0 {
		return s.ids
	}
	var out []string
	for _, d := range s.chosen() {
		if len(d.By) == 0 {
			out = append(out, nobody)
		}
		out = append(out, d.By...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// doneBefore returns an undo that this id has done already; nil for none.
func (sp *space) doneBefore(id string) (*nodev1.UndoChangesResponse, error) {
	seqs, err := sp.history.Of(id)
	if err != nil || len(seqs) == 0 {
		return nil, err
	}
	deltas, err := sp.history.Deltas(seqs[0]-1, seqs[0])
	if err != nil {
		return nil, err
	}
	if len(deltas[0].Undoes) == 0 {
		return nil, fault.New(fault.Exists, "operation %s is in the record with another request", id).WithFix("use a new id for a new request").WithObject(id)
	}
	out := describePlan(tree.Plan{Changes: deltas[0].Changes})
	out.Applied, out.Snapshot, out.By = true, seqs[0], deltas[0].Undoes
	return out, nil
}

// apply does an undo: everything is made ready, then it is written down, then
// it is put in its place, then it is recorded as done. A daemon that dies in
// between leaves what is finished by the next one, or nothing.
func (sp *space) apply(ctx context.Context, d tree.Delta) error {
	w, err := sp.workspace()
	if err != nil {
		return err
	}
	defer w.Close()
	if sp.state.running() > 0 {
		thaw, err := sp.s.cfg.Jails.Freeze(ctx, sp.jailID)
		if err != nil {
			return fault.New(fault.Precondition, "commands run in the jail, and it cannot be made to stand still while files are restored").
				WithFix("end them, then undo").WithObject(sp.jailID).WithCause(err)
		}
		defer func() {
			if err := thaw(); err != nil {
				sp.s.cfg.Log.Error("thaw a jail", "jail_id", sp.jailID, "error", err)
			}
		}()
	}
	job := &restore.Job{Workspace: w, Contents: sp.blobs, Stage: restore.StageName(sp.s.cfg.Now()), Changes: d.Changes, Host: sp.host}
	if sp.host {
		if err := sp.history.SetStage(job.Stage); err != nil {
			return err
		}
	}
	if err := job.Ready(); err != nil {
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			return fault.New(fault.Exhausted, "the workspace has no room for the files to restore: nothing was changed").
				WithFix("delete files, or give the persona a larger workspace").WithObject(sp.jailID).WithCause(err)
		}
		return err
	}
	sp.s.cfg.At("undo: made ready")
	if err := sp.history.Begin(history.Intent{Stage: job.Stage, Delta: d}); err != nil {
		return errors.Join(err, w.RemoveAll(job.Stage))
	}
	sp.s.cfg.At("undo: written down")
	if err := job.Place(); err != nil {
		// It is on record: the next call for the workspace finishes it.
		sp.close()
		return fmt.Errorf("undo in the workspace of %s, to be finished: %w", sp.jailID, err)
	}
	sp.s.cfg.At("undo: put in place")
	began := scan.Coarse()
	for i, c := range d.Changes {
		if c.After == nil {
			continue
		}
		st, err := w.Lstat(c.Path)
		if err != nil {
			sp.close()
			return fmt.Errorf("record the restored files: %w", err)
		}
		now := *c.After
		seen := scan.FromStat(&st, began)
		now.Stat, now.MTime = seen.Stat, seen.MTime
		d.Changes[i].After = &now
	}
	next := history.Next{Delta: &d, Bytes: sp.state.bytes, EndIntent: true}
	if err := sp.history.Commit(next); err != nil {
		sp.close()
		return err
	}
	return sp.adopt(next)
}

func (sp *space) workspace() (*nofollow.Dir, error) {
	dir, err := sp.s.cfg.Jails.Workspace(sp.jailID)
	if err != nil {
		return nil, err
	}
	return nofollow.Open(dir)
}

// recover finishes the undo that an earlier daemon began, and clears what one
// made ready that was never written down.
func (sp *space) recover(ctx context.Context) error {
	if sp.state.recovered {
		return nil
	}
	intent, err := sp.history.Intent()
	if err != nil {
		return err
	}
	w, err := sp.workspace()
	if err != nil {
		return err
	}
	defer w.Close()
	if intent != nil {
		thaw, err := sp.s.cfg.Jails.Freeze(ctx, sp.jailID)
		if err == nil { // one that does not run cannot be frozen, and need not be
			defer func() { _ = thaw() }()
		}
		job := &restore.Job{Workspace: w, Contents: sp.blobs, Stage: intent.Stage, Changes: intent.Delta.Changes, Host: sp.host, Tolerant: true}
		if err := job.Place(); err != nil {
			return fmt.Errorf("finish an undo in the workspace of %s: %w", sp.jailID, err)
		}
		l := &lookup{sp: sp, byInode: map[uint64]*tree.Entry{}}
		if _, err := l.run(ctx, history.Next{EndIntent: true}, &intent.Delta); err != nil {
			return fmt.Errorf("finish an undo in the workspace of %s: %w", sp.jailID, err)
		}
		sp.s.cfg.Log.Info("finished an undo that was interrupted", "jail_id", sp.jailID, "undo", intent.Delta.By)
	}
	left, err := leftovers(sp, w)
	if err != nil {
		return err
	}
	for _, name := range left {
		if err := w.RemoveAll(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove the remains of an undo: %w", err)
		}
	}
	sp.state.recovered = true
	return nil
}

// leftovers returns the names of what an undo of an earlier daemon left in a workspace. In a
// folder of the machine, where everybody may use such a name, it is the one that is on record.
func leftovers(sp *space, w *nofollow.Dir) (left []string, err error) {
	if sp.host {
		stage, err := sp.history.Stage()
		if stage != "" {
			left = append(left, stage)
		}
		return left, err
	}
	uid, _ := sp.s.cfg.Jails.Owner(sp.jailID)
	top, err := w.OpenFile(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	defer top.Close()
	for {
		// A command may have made millions of names.
		names, err := top.Readdirnames(1024)
		for _, name := range names {
			if restore.Leftover(w, name, uint32(uid), sp.s.cfg.Now()) {
				left = append(left, name)
			}
		}
		if errors.Is(err, io.EOF) {
			return left, nil
		}
		if err != nil {
			return nil, fmt.Errorf("look at the workspace of %s: %w", sp.jailID, err)
		}
	}
}

// Collect forgets changes that are old, and contents that nothing refers to.
func (s *Service) Collect(ctx context.Context) {
	ids, err := known(s)
	if err != nil {
		s.cfg.Log.Error("find the workspaces' records", "error", err)
		return
	}
	for _, id := range ids {
		err := s.with(ctx, id, func(sp *space) error { return sp.collect(ctx, false) })
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.Error("collect old changes", "jail_id", id, "error", err)
		}
	}
}

// collect forgets what is older than it need be kept; with hard, as many of
// the oldest changes as make room, the newest few excepted.
func (sp *space) collect(ctx context.Context, hard bool) error {
	oldest := sp.s.cfg.Now().Add(-sp.s.cfg.KeepFor).UnixNano()
	n, err := sp.history.Forget(func(d tree.Delta) bool { return d.Time < oldest })
	if err != nil {
		return err
	}
	if n > 0 || hard {
		if err := sp.sweep(); err != nil {
			return err
		}
	}
	for hard && sp.roomFor(0) != nil {
		if err := ctx.Err(); err != nil {
			return err
		}
		// A quarter of what there is at a time, so that a sweep pays.
		all, err := sp.history.Newest(0, maxDeltas)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			return nil
		}
		upTo := all[len(all)-1].Seq + int64(len(all))/4
		if _, err := sp.history.Forget(func(d tree.Delta) bool { return d.Seq <= upTo }); err != nil {
			return err
		}
		if err := sp.sweep(); err != nil {
			return err
		}
		sp.s.cfg.Log.Warn("forgot old changes of a workspace for want of room", "jail_id", sp.jailID, "up_to", upTo)
	}
	return nil
}

// maxDeltas is how many changes are looked at in memory at most.
const maxDeltas = 100_000

// sweep deletes the contents that neither the present nor a change refers to.
func (sp *space) sweep() error {
	if sp.readers.Load() > 0 {
		return nil // next time
	}
	live := map[string]bool{}
	note := func(e *tree.Entry) {
		if e != nil && e.Kind == tree.File && e.Content != "" {
			live[e.Content] = true
		}
	}
	sp.state.tree.Walk(func(_ string, e *tree.Entry) bool {
		note(e)
		return true
	})
	deltas, err := sp.history.Deltas(0, sp.state.seq)
	if err != nil {
		return err
	}
	for _, d := range deltas {
		for _, c := range d.Changes {
			note(c.Before)
			note(c.After)
		}
	}
	kept, err := sp.blobs.Sweep(func(id string) bool { return live[id] })
	if err != nil {
		return err
	}
	sp.state.bytes = kept
	return sp.history.Commit(history.Next{Bytes: kept})
}
