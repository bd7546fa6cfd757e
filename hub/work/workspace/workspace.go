// Package workspace records which files the steps of tasks changed, and undoes those
// changes. Workspaces is its service. The node finds and keeps the changes (its
// node/snapshot); the hub stores the fact with the step, and every undo with who
// requested it and the digests of the files before and after. The same holds for people's
// commands and terminals, which have no task.
//
// An undo is stored before the node is asked, under an id that the node executes once. A
// hub that dies in between leaves it pending; the next request about the task completes
// it first.
package workspace

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	fleetnode "github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/redact"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// DefaultWindow is how long after its end a task's changes can be undone: for
// as long as nodes keep snapshots.
const DefaultWindow = 7 * 24 * time.Hour

// Config is what Workspaces works with.
type Config struct {
	Store    *store.Store
	Recorder *event.Recorder
	Redact   *redact.Redactor
	// Node returns the live link to a node.
	Node func(nodeID string) (machine.Link, error)
	// Irreversible are the names of the tools whose effects cannot be undone completely.
	Irreversible []string
	// Window is how long after the end of a task its changes can be undone;
	// 0 for DefaultWindow, negative for ever. An organisation may have its own.
	Window time.Duration
	// Now is the clock; nil for time.Now.
	Now func() time.Time
}

// Workspaces is what the hub knows of workspaces' changes.
type Workspaces struct{ cfg Config }

// New creates Workspaces.
func New(cfg Config) *Workspaces {
	if cfg.Window == 0 {
		cfg.Window = DefaultWindow
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Workspaces{cfg}
}

// Recorded is one changed path as it is stored, with its kind of change.
type Recorded struct {
	Path   string `json:"path"`
	Quoted bool   `json:"quoted,omitempty"`
	Kind   int32  `json:"kind"`
	Before *State `json:"before,omitempty"`
	After  *State `json:"after,omitempty"`
}

// State is what was at a path, as it is stored.
type State struct {
	Type   string `json:"type"`
	Mode   uint32 `json:"mode"`
	Size   int64  `json:"size"`
	Digest string `json:"digest,omitempty"`
	Unkept string `json:"unkept,omitempty"`
}

func stateOf(s *nodev1.FileState) *State {
	if s == nil {
		return nil
	}
	return &State{Type: s.GetType(), Mode: s.GetMode(), Size: s.GetSize(), Digest: s.GetDigest(), Unkept: s.GetUnkept()}
}

// Describe returns a change of a node's as it is stored and shown.
func Describe(c *nodev1.FileChange, mask *redact.Redactor) Recorded {
	path, quoted := printable(c.GetPath())
	return Recorded{
		Path: mask.String(path), Quoted: quoted, Kind: int32(c.GetKind()), Before: stateOf(c.GetBefore()), After: stateOf(c.GetAfter()),
	}
}

// printable returns a path as it can be shown, and whether it had to be quoted.
func printable(name []byte) (string, bool) {
	text := string(name)
	if utf8.ValidString(text) && strings.IndexFunc(text, unicode.IsControl) < 0 {
		return text, false
	}
	return strconv.Quote(text), true
}

// Said returns what the event of a step's end contains about a change: how many files,
// and what was not kept.
func Said(change *nodev1.WorkspaceChange) map[string]any {
	said := map[string]any{"files": change.GetFiles(), "state": change.GetAfter()}
	if change.GetError() != "" {
		said["error"] = change.GetError()
	}
	if len(change.GetSharedWith()) > 0 {
		said["shared_with"] = change.GetSharedWith()
	}
	if n := change.GetUnkept(); n > 0 {
		said["not_restorable"] = n
	}
	return said
}

// SaidWithPaths is Said with the first of the paths.
func SaidWithPaths(change *nodev1.WorkspaceChange, mask *redact.Redactor) map[string]any {
	said := Said(change)
	var shown []any
	for _, c := range change.GetChanges()[:min(len(change.GetChanges()), shownPaths)] {
		shown = append(shown, Describe(c, mask).Path)
	}
	if shown != nil {
		said["paths"] = shown
	}
	return said
}

// Record stores what a step changed in its workspace, in its agent's workspace on another
// node, or in folders of the machine that it ran on, in the transaction that ends it. It returns what the step's event
// contains about it; nil for nothing.
func Record(ctx context.Context, tx *event.Tx, step db.Step, nodeID *string, change *nodev1.WorkspaceChange) (map[string]any, error) {
	if nodeID == nil {
		return nil, nil
	}
	return record(ctx, tx, db.RecordStepChangesParams{StepID: step.ID, OrgID: step.OrgID, TaskID: step.TaskID, NodeID: *nodeID, JailID: step.JailID}, change)
}

// RecordJob is Record for what a job changed, in the transaction that stores its end.
func RecordJob(ctx context.Context, tx *event.Tx, j db.Job, change *nodev1.WorkspaceChange) (map[string]any, error) {
	return record(ctx, tx, db.RecordStepChangesParams{StepID: j.StepID, JobID: j.ID, OrgID: j.OrgID, TaskID: j.TaskID, NodeID: j.NodeID, JailID: j.JailID}, change)
}

func record(ctx context.Context, tx *event.Tx, row db.RecordStepChangesParams, change *nodev1.WorkspaceChange) (map[string]any, error) {
	if change == nil {
		return nil, nil
	}
	mask := tx.Redact(row.OrgID)
	said := SaidWithPaths(change, mask)
	if change.GetFiles() == 0 {
		return said, nil
	}
	recorded := make([]Recorded, 0, len(change.GetChanges()))
	for _, c := range change.GetChanges() {
		recorded = append(recorded, Describe(c, mask))
	}
	var err error
	if row.Changes, err = json.Marshal(recorded); err != nil {
		return nil, fmt.Errorf("encode the changes of step %s: %w", row.StepID, err)
	}
	if row.SharedWith = change.GetSharedWith(); row.SharedWith == nil {
		row.SharedWith = []string{}
	}
	row.ChangeID, row.StateBefore, row.StateAfter = change.GetId(), change.GetBefore(), change.GetAfter()
	row.Files, row.Unkept = change.GetFiles(), change.GetUnkept()
	if err := tx.RecordStepChanges(ctx, row); err != nil {
		return nil, fmt.Errorf("store the changes of step %s: %w", row.StepID, err)
	}
	return said, nil
}

// shownPaths is how many paths an event has.
const shownPaths = 20

// Changes returns all steps of a task that changed something, in order, and how
// long that can be undone. What is pending is settled first.
func (w *Workspaces) Changes(ctx context.Context, t db.Task) ([]db.ListStepChangesRow, Span, error) {
	return w.ChangesAfter(ctx, t, 0, math.MaxInt32)
}

// ChangesAfter is Changes of the first steps, at most limit, after a number.
func (w *Workspaces) ChangesAfter(ctx context.Context, t db.Task, after, limit int32) ([]db.ListStepChangesRow, Span, error) {
	if err := w.settle(ctx, t); err != nil && !fault.Is(err, fault.Unavailable) {
		return nil, Span{}, err
	}
	rows, err := w.cfg.Store.ListStepChanges(ctx, db.ListStepChangesParams{OrgID: t.OrgID, TaskID: t.ID, AfterNumber: after, MaxRows: limit})
	if err != nil {
		return nil, Span{}, fmt.Errorf("list the changes of %s: %w", t.ID, err)
	}
	span, err := w.span(ctx, t.OrgID, t.FinishedAt)
	return rows, span, err
}

// Span is how long a task's changes can be undone.
type Span struct {
	// Until is when it ends; zero while the task has not ended, or for ever.
	Until time.Time
	// Left is how much of the record is left; meaningless if Until is zero.
	Left time.Duration
}

// Open reports whether the span has not ended.
func (s Span) Open() bool { return s.Until.IsZero() || s.Left > 0 }

// UndoSpan returns until when a task's changes can be undone; with no end if it has not
// ended, or if they can be for ever.
func (w *Workspaces) UndoSpan(ctx context.Context, t db.Task) (Span, error) {
	return w.span(ctx, t.OrgID, t.FinishedAt)
}

// span returns the span that begins at an end; nil for none yet.
func (w *Workspaces) span(ctx context.Context, orgID string, end *time.Time) (Span, error) {
	if end == nil {
		return Span{}, nil
	}
	org, err := w.cfg.Store.OrganisationByID(ctx, orgID)
	if err != nil {
		return Span{}, fmt.Errorf("load organisation %s: %w", orgID, err)
	}
	window := w.cfg.Window
	if own := org.UndoWindowSeconds; own != nil {
		window = time.Duration(*own) * time.Second
	}
	if window < 0 {
		return Span{}, nil
	}
	until := end.Add(window)
	return Span{Until: until, Left: max(0, until.Sub(w.cfg.Now()))}, nil
}

// Request selects what is to be undone of a task.
type Request struct {
	Task db.Task
	// StepIDs are whole ids of steps and jobs; none for the last ones, or all.
	StepIDs []string
	// Last is how many of the last steps that changed something; 0 for all.
	Last       int
	OnConflict nodev1.OnConflict
	Preview    bool
	// ExpectState is that of a preview; 0 for any.
	ExpectState int64
	// Paths are those to restore, with what is below them; none for all.
	Paths []string
	By    event.Actor
}

// UndoResult is the result of an undo.
type UndoResult struct {
	ID      string
	StepIDs []string
	Node    *nodev1.UndoChangesResponse
	Span    Span
	// Irreversible are those of the steps, and of the task's steps after the first of
	// them, whose effects cannot be undone completely.
	Irreversible []db.StepsThatUsedRow
}

var conflictWords = map[nodev1.OnConflict]string{
	nodev1.OnConflict_ON_CONFLICT_UNSPECIFIED: "refuse", nodev1.OnConflict_ON_CONFLICT_REFUSE: "refuse",
	nodev1.OnConflict_ON_CONFLICT_SKIP: "skip", nodev1.OnConflict_ON_CONFLICT_OVERWRITE: "overwrite",
}

// Undo undoes what steps of a task changed, or describes what that would do.
func (w *Workspaces) Undo(ctx context.Context, req Request) (UndoResult, error) {
	t := req.Task
	if err := w.settle(ctx, t); err != nil {
		return UndoResult{}, err
	}
	rows, span, err := w.Changes(ctx, t)
	if err != nil {
		return UndoResult{}, err
	}
	steps, err := choose(t, rows, req)
	if err != nil {
		return UndoResult{}, err
	}
	if !span.Open() && !req.Preview {
		return UndoResult{}, fault.New(fault.Precondition, "the changes of %s could be undone until %s", t.ID, span.Until.UTC().Format(time.RFC3339)).
			WithFix("look at them with `deckhand task diff %s` and have an agent change the files back", t.ID).WithObject(t.ID)
	}
	out := UndoResult{Span: span}
	first := int32(math.MaxInt32) // the number of the first of the steps
	for _, row := range rows {
		if slices.ContainsFunc(steps, func(s db.StepChange) bool { return s.ChangeID == row.StepChange.ChangeID }) {
			first = min(first, row.Number)
		}
	}
	var changes []string
	for _, s := range steps {
		out.StepIDs, changes = append(out.StepIDs, MadeBy(s)), append(changes, s.ChangeID)
	}
	if out.Irreversible, err = w.irreversible(ctx, t, out.StepIDs, first, len(req.StepIDs) > 0); err != nil {
		return out, err
	}
	if len(req.Paths) > 0 {
		row, err := w.cfg.Store.NodeByID(ctx, steps[0].NodeID)
		if err != nil {
			return out, fmt.Errorf("load node %s: %w", steps[0].NodeID, err)
		}
		if err := fleetnode.Require(row, nodelink.States, "undo single files"); err != nil {
			return out, err
		}
	}
	node, err := w.cfg.Node(steps[0].NodeID)
	if err != nil {
		return out, err
	}
	if req.Preview {
		out.Node, err = node.Snapshots().UndoChanges(ctx, &nodev1.UndoChangesRequest{
			JailId: steps[0].JailID, Range: &nodev1.ChangeRange{By: changes}, OnConflict: req.OnConflict, Preview: true, Paths: bytePaths(req.Paths),
		})
		return out, fault.FromGRPC(err)
	}
	var row db.Undo
	err = w.cfg.Store.Tx(ctx, func(q *db.Queries) (err error) {
		row, err = q.CreateUndo(ctx, db.CreateUndoParams{
			ID: ident.New("undo"), OrgID: t.OrgID, TaskID: &t.ID, NodeID: steps[0].NodeID, JailID: steps[0].JailID, StepIds: out.StepIDs, ChangeIds: changes,
			OnConflict: conflictWords[req.OnConflict], ExpectState: req.ExpectState, AskedBy: req.By.ID, Address: req.By.Address,
			UserAgent: req.By.UserAgent, Paths: append([]string{}, req.Paths...),
		})
		return err
	})
	if err != nil {
		return out, fmt.Errorf("store an undo of %s: %w", t.ID, err)
	}
	// The caller may disconnect: a started undo is completed.
	out.Node, err = w.carryOut(context.WithoutCancel(ctx), node, row)
	if err == nil && out.Node.GetApplied() {
		out.ID = row.ID
	}
	return out, err
}

// irreversible returns the steps whose effects an undo does not restore completely: those
// of the named steps, or of all from the first one on, also if they changed no files.
func (w *Workspaces) irreversible(ctx context.Context, t db.Task, stepIDs []string, first int32, named bool) (out []db.StepsThatUsedRow, err error) {
	used, err := w.cfg.Store.StepsThatUsed(ctx, db.StepsThatUsedParams{OrgID: t.OrgID, TaskID: t.ID, Tools: w.cfg.Irreversible})
	if err != nil {
		return nil, fmt.Errorf("find what of %s cannot be undone: %w", t.ID, err)
	}
	for _, s := range used {
		if slices.Contains(stepIDs, s.ID) || !named && s.Number >= first {
			out = append(out, s)
		}
	}
	return out, nil
}

// MadeBy returns the id of the step or job that made a change.
func MadeBy(c db.StepChange) string { return cmp.Or(c.JobID, c.StepID) }

// OnMachine reports whether changes are of folders of a machine, outside of jails.
func OnMachine(c db.StepChange) bool { return c.JailID == nodelink.HostJail }

// choose returns the changes that are to be undone.
func choose(t db.Task, rows []db.ListStepChangesRow, req Request) ([]db.StepChange, error) {
	var out []db.StepChange
	machines := 0
	for _, row := range rows {
		if OnMachine(row.StepChange) {
			machines++
			continue // undone step by step: see UndoOnMachine
		}
		named := slices.Contains(req.StepIDs, MadeBy(row.StepChange))
		// What jobs did is undone with everything, or when they are named.
		unnamed := len(req.StepIDs) == 0 && row.StepChange.UndoneAt == nil && (req.Last == 0 || row.StepChange.JobID == "")
		if named || unnamed {
			out = append(out, row.StepChange)
		}
	}
	if req.Last > 0 && len(req.StepIDs) == 0 && len(out) > req.Last {
		out = out[len(out)-req.Last:]
	}
	if len(out) == 0 && machines > 0 {
		return nil, fault.New(fault.NotFound, "%s changed files of machines only, or its other changes were undone", t.ID).
			WithFix("an administrator undoes what a step changed on a machine, one step at a time: deckhand task undo %s --step STEP", t.ID).WithObject(t.ID)
	}
	if len(out) == 0 {
		return nil, fault.New(fault.NotFound, "%s has no such step that changed files and was not undone yet", t.ID).
			WithFix("see which changed what: deckhand task diff %s", t.ID).WithObject(t.ID)
	}
	for _, c := range out {
		if c.NodeID != out[0].NodeID || c.JailID != out[0].JailID {
			return nil, fault.New(fault.Precondition, "%s changed files in the workspaces %s and %s", t.ID, out[0].JailID, c.JailID).
				WithFix("name steps of one workspace at a time").WithObject(t.ID)
		}
	}
	return out, nil
}

// settle brings pending undos of a task to their end: the node does each once.
func (w *Workspaces) settle(ctx context.Context, t db.Task) error {
	rows, err := w.cfg.Store.PendingUndos(ctx, db.PendingUndosParams{OrgID: t.OrgID, TaskID: &t.ID})
	if err != nil {
		return fmt.Errorf("find the undos of %s: %w", t.ID, err)
	}
	return w.carryOn(ctx, rows)
}

// carryOn completes undos that were started and not finished.
func (w *Workspaces) carryOn(ctx context.Context, rows []db.Undo) error {
	for _, row := range rows {
		if w.cfg.Now().Sub(row.CreatedAt) < settleAfter {
			continue // another call is working on it
		}
		node, err := w.cfg.Node(row.NodeID)
		if err != nil {
			return err
		}
		if _, err := w.carryOut(ctx, node, row); err != nil && fault.Is(err, fault.Unavailable) {
			return err
		}
	}
	return nil
}

// settleAfter is how old a pending undo is before others look after it.
const settleAfter = time.Minute

// carryOut executes a stored undo and stores its result.
func (w *Workspaces) carryOut(ctx context.Context, node machine.Link, row db.Undo) (*nodev1.UndoChangesResponse, error) {
	how := nodev1.OnConflict_ON_CONFLICT_REFUSE
	for value, word := range conflictWords {
		if word == row.OnConflict {
			how = value
		}
	}
	res, err := node.Snapshots().UndoChanges(ctx, &nodev1.UndoChangesRequest{
		JailId: row.JailID, OperationId: row.ID, Range: &nodev1.ChangeRange{By: row.ChangeIds}, OnConflict: how, ExpectSnapshot: row.ExpectState,
		Paths: bytePaths(row.Paths),
	})
	if err != nil {
		err = fault.FromGRPC(err)
		if fault.Is(err, fault.Unavailable) || fault.Is(err, fault.Canceled) || fault.Is(err, fault.Deadline) || fault.Is(err, fault.Internal) {
			return nil, err // it may have happened: it stays pending
		}
		return nil, firstOf(err, w.finish(store.WithRefusal(ctx), row, nil))
	}
	return res, w.finish(ctx, row, res)
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// finish stores the end of an undo with its audit entry and its event, once.
func (w *Workspaces) finish(ctx context.Context, row db.Undo, res *nodev1.UndoChangesResponse) error {
	state := "refused"
	if res.GetApplied() {
		state = "done"
	}
	return w.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		if row.TaskID != nil {
			if _, err := tx.LockTask(ctx, db.LockTaskParams{OrgID: row.OrgID, ID: *row.TaskID}); err != nil {
				return fmt.Errorf("lock task %s: %w", *row.TaskID, err)
			}
		}
		_, err := tx.FinishUndo(ctx, db.FinishUndoParams{
			OrgID: row.OrgID, ID: row.ID, State: state, Files: res.GetFiles(),
			OriginalDigest: res.GetOriginalDigest(), RestoredDigest: res.GetRestoredDigest(),
		})
		if store.IsNotFound(err) {
			return nil // another call stored it
		}
		if err != nil {
			return fmt.Errorf("store the end of undo %s: %w", row.ID, err)
		}
		switch {
		case state != "done":
			return nil
		case strings.HasPrefix(row.JailID, nodelink.HostFolder):
			return machineUndone(ctx, tx, row, res)
		case row.ExecID != nil:
			return execUndone(ctx, tx, row, res)
		case row.ToState != nil:
			return w.restored(ctx, tx, row, res)
		}
		return stepsUndone(ctx, tx, row, res)
	})
}

func bytePaths(paths []string) (out [][]byte) {
	for _, p := range paths {
		out = append(out, []byte(p))
	}
	return out
}

// stepsUndone stores that steps of a task were undone, unless it was only some of their
// files.
func stepsUndone(ctx context.Context, tx *event.Tx, row db.Undo, res *nodev1.UndoChangesResponse) error {
	if len(row.Paths) > 0 {
		// They can still be undone.
	} else if err := tx.MarkUndone(ctx, db.MarkUndoneParams{OrgID: row.OrgID, UndoID: &row.ID, NodeID: row.NodeID, JailID: row.JailID, ChangeIds: row.ChangeIds}); err != nil {
		return fmt.Errorf("mark the steps of undo %s: %w", row.ID, err)
	}
	if err := audit.Append(tx, undone(row, res, "task", *row.TaskID)); err != nil {
		return err
	}
	return tx.Append(row.OrgID, *row.TaskID, askedBy(row), event.Draft{Type: eventkind.WorkspaceUndone, Payload: map[string]any{
		"undo_id": row.ID, "step_ids": row.StepIds, "files": res.GetFiles(), "original_digest": res.GetOriginalDigest(),
		"restored_digest": res.GetRestoredDigest(), "conflicts": len(res.GetConflicts()), "paths": row.Paths,
	}})
}

// undone is the audit entry of an undo.
func undone(row db.Undo, res *nodev1.UndoChangesResponse, kind, id string) audit.Entry {
	return audit.Entry{
		OrgID: row.OrgID, By: askedBy(row), Action: "workspace.undone", ObjectKind: kind, ObjectID: id,
		Before: map[string]any{"digest": res.GetOriginalDigest()},
		After: map[string]any{
			"digest": res.GetRestoredDigest(), "undo_id": row.ID, "step_ids": row.StepIds, "files": res.GetFiles(),
			"on_conflict": row.OnConflict, "conflicts": len(res.GetConflicts()), "paths": row.Paths,
		},
	}
}

func askedBy(row db.Undo) event.Actor {
	if row.AskedBy == event.Hub.ID {
		return event.Hub
	}
	return event.Actor{Kind: event.User, ID: row.AskedBy, Address: row.Address, UserAgent: row.UserAgent}
}
