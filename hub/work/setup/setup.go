// Package setup prepares container images on nodes: it runs the commands of a persona's
// jail.setup once for an image on a node, and has the node keep the result, from which the
// jails of the persona start. Setups is its service.
//
// The commands run one after another, as root, in a jail of their own with a writable root,
// the setup's egress rules and no credentials. Each is recorded and followed like a person's
// command on the node (package nodeexec). The first that fails ends the setup, and nothing
// of it is kept.
//
// At most one setup of an image runs on a node at a time; everyone else who needs it waits
// for it and sees its progress. It ends when its caller's context does: then one of those
// who wait starts another, in a jail of its own. If the hub dies, the setup counts as
// abandoned after silentFor: Sweep ends it on its node, and the next caller starts another.
package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/identity/organisation"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/hold"
	"github.com/deckhand-sh/deckhand/hub/work/nodeexec"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/persona"
	"github.com/deckhand-sh/deckhand/internal/redact"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// lineTimeout bounds one command of a setup.
	lineTimeout = 30 * time.Minute
	// finishTimeout bounds the copying of what a setup changed.
	finishTimeout = 15 * time.Minute
	// lookEvery is how often a running setup is noted as such and looks whether it is still
	// wanted, and how often those who wait look for its progress. After silentFor without
	// a note it counts as abandoned.
	lookEvery = time.Second
	silentFor = 45 * time.Second
	// waitStep is how long one question for the end of a command waits.
	waitStep = 5 * time.Second
	// tailBytes is how much of a failed command's output its error shows.
	tailBytes = 1 << 10
)

// Config holds the dependencies of Setups.
type Config struct {
	Store  *store.Store
	Execs  *nodeexec.Execs
	Redact *redact.Redactor
	// Node returns the live link to a node, or an error of kind Unavailable.
	Node func(nodeID string) (machine.Link, error)
	Log  hclog.Logger
}

// Setups prepares images.
type Setups struct{ cfg Config }

// New creates Setups.
func New(cfg Config) *Setups { return &Setups{cfg} }

// Want is an image that is to be prepared.
type Want struct {
	OrgID string
	// AgentID is the agent whose persona has the setup.
	AgentID string
	Node    db.Node
	Link    machine.Link
	// Image is its pinned reference; the node has it.
	Image string
	Jail  persona.Jail
	// WorkspaceBytes bounds what the setup may write.
	WorkspaceBytes int64
	By             node.User
	// Check, if set, returns an error with the code LeaseEnded once the setup is not needed
	// any more: its task was killed, for example.
	Check func(ctx context.Context) error
}

// Progress says how far a setup is.
type Progress struct {
	// Line is the number of the command that runs, from 1, of Lines; Command is the command
	// and ExecID the id under which its output is kept.
	Line, Lines     int
	Command, ExecID string
}

// abandoned and cancelled are the errors of setups that say nothing about the image.
const (
	abandoned = "the hub that ran it ended"
	cancelled = "whoever started it ended"
)

// Ensure returns when a node has an image prepared, which it had not when the caller asked.
// tell is called with the progress.
func (s *Setups) Ensure(ctx context.Context, w Want, tell func(Progress)) error {
	holds, err := hold.Of(ctx, s.cfg.Store.Queries, w.OrgID)
	if err != nil {
		return err
	}
	held := holds.Task(hold.Task{AgentID: w.AgentID})
	if held == nil {
		held = holds.Node(w.Node.ID)
	}
	if held != nil {
		return hold.Refuse(held)
	}
	if err := s.withinCeiling(ctx, w); err != nil {
		return err
	}
	for {
		row, err := s.cfg.Store.BeginImageSetup(ctx, db.BeginImageSetupParams{
			ID: ident.New("iset"), OrgID: w.OrgID, NodeID: w.Node.ID, AgentID: w.AgentID, Image: w.Image, Setup: w.Jail.SetupDigest(),
			JailID: ident.New("setup"), Lines: int32(len(w.Jail.Setup)), StartedBy: w.By.Actor().ID, //nolint:gosec // at most 50
		})
		if err == nil {
			return s.run(ctx, row, w, tell)
		}
		if !store.IsNotFound(err) {
			return fmt.Errorf("begin the setup of %s: %w", w.Image, err)
		}
		again, err := s.wait(ctx, w, tell)
		if err != nil || !again {
			return err
		}
	}
}

// withinCeiling refuses a setup whose jail would be larger than its organisation allows.
func (s *Setups) withinCeiling(ctx context.Context, w Want) error {
	org, err := s.cfg.Store.OrganisationByID(ctx, w.OrgID)
	if err != nil {
		return fmt.Errorf("load organisation %s: %w", w.OrgID, err)
	}
	return organisation.Ceiling(org).Allows(organisation.Jail{
		CPUMillis: w.Jail.CPUMillis, MemoryBytes: w.Jail.MemoryBytes, PIDs: w.Jail.PIDs, WorkspaceBytes: w.WorkspaceBytes,
	})
}

// isPrepared reports whether the node has the prepared image.
func (s *Setups) isPrepared(ctx context.Context, w Want) (bool, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, err := w.Link.Images().PullImage(ctx, &nodev1.PullImageRequest{Reference: w.Image, Setup: w.Jail.SetupDigest()})
	for err == nil {
		var res *nodev1.PullImageResponse
		if res, err = in.Recv(); err == nil && res.GetImage() != nil {
			return res.GetImage().GetSetup() != "", nil
		}
	}
	return false, fmt.Errorf("look whether node %s has image %s prepared: %w", w.Node.Name, w.Image, fault.FromGRPC(err))
}

// wait waits for the setup that is running, and reports whether it is to be tried again.
func (s *Setups) wait(ctx context.Context, w Want, tell func(Progress)) (again bool, err error) {
	row, err := s.cfg.Store.RunningImageSetup(ctx, db.RunningImageSetupParams{OrgID: w.OrgID, NodeID: w.Node.ID, Image: w.Image, Setup: w.Jail.SetupDigest()})
	if store.IsNotFound(err) {
		return true, nil // it has ended; the next one looks whether the image is there
	}
	if err != nil {
		return false, fmt.Errorf("load the setup of %s: %w", w.Image, err)
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for row.State == running {
		if row.Line > 0 {
			tell(progressOf(row, w))
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-tick.C:
		}
		n, err := s.cfg.Store.AbandonImageSetup(ctx, db.AbandonImageSetupParams{OrgID: w.OrgID, ID: row.ID, Error: abandoned, Silent: silentFor})
		if err == nil && n > 0 {
			s.discard(ctx, row, w.Link)
		}
		if err == nil {
			row, err = s.cfg.Store.GetImageSetup(ctx, db.GetImageSetupParams{OrgID: w.OrgID, ID: row.ID})
		}
		if err != nil {
			return false, fmt.Errorf("load the setup of %s: %w", w.Image, err)
		}
	}
	switch {
	case row.State == ready:
		return false, nil
	case row.Error == abandoned || row.Error == cancelled:
		return true, nil
	}
	return false, failed(row)
}

// The states of a setup.
const (
	running = "running"
	ready   = "ready"
	failure = "failed"
)

// failed returns the error of a setup that failed.
func failed(row db.ImageSetup) error {
	e := fault.New(fault.Precondition, "the setup of image %s failed: %s", row.Image, row.Error).WithCode(fault.SetupFailed)
	if row.ExecID != nil {
		return e.WithObject(*row.ExecID).WithFix("see its whole output with: deckhand node logs %s; then change jail.setup or jail.setup_egress", *row.ExecID)
	}
	return e.WithFix("change jail.setup or jail.setup_egress")
}

func progressOf(row db.ImageSetup, w Want) Progress {
	out := Progress{Line: int(row.Line), Lines: int(row.Lines), Command: w.Jail.Setup[row.Line-1]}
	if row.ExecID != nil {
		out.ExecID = *row.ExecID
	}
	return out
}

// run runs a setup that this caller has begun.
func (s *Setups) run(ctx context.Context, begun db.ImageSetup, w Want, tell func(Progress)) error {
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	at := &atomic.Pointer[db.ImageSetup]{}
	at.Store(&begun)
	go s.keepSeen(work, cancel, at, w.Check)
	err := s.prepare(work, w, at, tell)
	if cause := context.Cause(work); err != nil && cause != nil {
		err = cause
	}
	row := *at.Load()
	clean, end := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer end()
	if err != nil {
		return s.fail(clean, row, w, err, work.Err() != nil)
	}
	n, err := s.cfg.Store.EndImageSetup(clean, db.EndImageSetupParams{OrgID: row.OrgID, ID: row.ID, State: ready})
	if err == nil {
		err = s.cfg.Store.ClearImageSetup(clean, db.ClearImageSetupParams{OrgID: row.OrgID, ID: row.ID})
	}
	if err != nil || n == 0 {
		s.cfg.Log.Warn("cannot record that an image is prepared", "setup_id", row.ID, "error", err)
	}
	return nil
}

// prepare runs the commands of a setup and keeps the result, unless another setup has ended
// between the caller's question and the beginning.
func (s *Setups) prepare(ctx context.Context, w Want, at *atomic.Pointer[db.ImageSetup], tell func(Progress)) error {
	have, err := s.isPrepared(ctx, w)
	if err != nil || have {
		return err
	}
	if err := s.lines(ctx, w, at, tell); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	row := at.Load()
	if _, err := w.Link.Jails().FinishSetup(ctx, &nodev1.FinishSetupRequest{JailId: row.JailID, Setup: row.Setup, Commit: true}); err != nil {
		return fmt.Errorf("keep what the setup of %s changed: %w", w.Image, fault.FromGRPC(err))
	}
	return nil
}

// fail records that a setup has failed, deletes what it has on its node, and returns its
// error. kill says that its command may still run.
func (s *Setups) fail(ctx context.Context, row db.ImageSetup, w Want, err error, kill bool) error {
	// First, so that the command ends at once.
	if kill && row.ExecID != nil {
		s.kill(ctx, row.OrgID, *row.ExecID, w.By)
	}
	row.Error = explain(err)
	if _, derr := s.cfg.Store.EndImageSetup(ctx, db.EndImageSetupParams{OrgID: row.OrgID, ID: row.ID, State: failure, Error: cmp.Or(row.Error, cancelled)}); derr != nil {
		return errors.Join(err, fmt.Errorf("record the end of setup %s: %w", row.ID, derr))
	}
	s.discard(ctx, row, w.Link)
	if row.Error != "" {
		return failed(row)
	}
	return err
}

// kill kills a command whose caller is gone.
func (s *Setups) kill(ctx context.Context, orgID, execID string, by node.User) {
	if _, err := s.cfg.Execs.Kill(ctx, orgID, execID, by, cancelled); err != nil {
		s.cfg.Log.Warn("cannot kill a command of a setup", "exec_id", execID, "error", err)
	}
}

// lineError is a command of a setup that failed.
type lineError struct{ text string }

// Error implements error.
func (e *lineError) Error() string { return e.text }

// explain returns what went wrong with a setup itself; empty if it was something else.
func explain(err error) string {
	if line, ok := errors.AsType[*lineError](err); ok {
		return line.text
	}
	return ""
}

// discard deletes what a setup that has failed has on its node, where a command may still
// run. If the node cannot be reached now, Sweep does it.
func (s *Setups) discard(ctx context.Context, row db.ImageSetup, link machine.Link) {
	_, err := link.Jails().FinishSetup(ctx, &nodev1.FinishSetupRequest{JailId: row.JailID, Setup: row.Setup})
	if err = fault.FromGRPC(err); err == nil || fault.Is(err, fault.NotFound) {
		err = s.cfg.Store.ClearImageSetup(ctx, db.ClearImageSetupParams{OrgID: row.OrgID, ID: row.ID})
	}
	if err != nil {
		s.cfg.Log.Warn("cannot delete what a setup left on its node; will try again", "setup_id", row.ID, "jail_id", row.JailID, "node_id", row.NodeID, "error", err)
	}
}

// keepSeen notes that a setup goes on, and ends it when somebody else has ended it or nobody
// needs it any more.
func (s *Setups) keepSeen(ctx context.Context, cancel context.CancelCauseFunc, at *atomic.Pointer[db.ImageSetup], check func(context.Context) error) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if mine, err := s.note(ctx, *at.Load()); err == nil && !mine {
			cancel(fault.New(fault.Unavailable, "the setup of the image was ended: by the kill switch, or because this hub was not seen for some time").WithCode(fault.ImageUnavailable))
		}
		if check == nil {
			continue
		}
		if err := check(ctx); err != nil && fault.As(err) != nil && fault.As(err).Code == fault.LeaseEnded {
			cancel(err)
		}
	}
}

// note records the command that a setup is at; mine is false if the setup has ended.
func (s *Setups) note(ctx context.Context, row db.ImageSetup) (mine bool, err error) {
	n, err := s.cfg.Store.MoveImageSetup(ctx, db.MoveImageSetupParams{OrgID: row.OrgID, ID: row.ID, Line: row.Line, ExecID: row.ExecID})
	if err != nil {
		return false, fmt.Errorf("record the progress of setup %s: %w", row.ID, err)
	}
	return n > 0, nil
}

// lines runs the commands of a setup.
func (s *Setups) lines(ctx context.Context, w Want, at *atomic.Pointer[db.ImageSetup], tell func(Progress)) error {
	row := *at.Load()
	spec := &nodev1.JailSpec{
		JailId: row.JailID, Rootfs: nodelink.RootImage, Image: w.Image, WritableRoot: true, RootUser: true,
		CpuMillis: w.Jail.CPUMillis, MemoryBytes: w.Jail.MemoryBytes, Pids: w.Jail.PIDs, TmpBytes: w.Jail.TmpBytes,
		WorkspaceBytes: w.WorkspaceBytes, Egress: machine.EgressOf(w.Jail.SetupEgress),
	}
	for i, line := range w.Jail.Setup {
		what := fmt.Sprintf("command %d of %d", i+1, len(w.Jail.Setup))
		started, err := s.cfg.Execs.Submit(ctx, nodeexec.Request{
			OrgID: w.OrgID, Node: w.Node, AgentID: w.AgentID, Jail: spec, Fresh: true, By: w.By, Reason: "setup of " + w.Image + ", " + what,
			Argv: []string{"/bin/sh", "-ec", line}, Shell: true, Env: []string{"DEBIAN_FRONTEND=noninteractive"}, Dir: "/", Timeout: lineTimeout,
		})
		if err != nil {
			return fmt.Errorf("start %s of the setup of %s: %w", what, w.Image, err)
		}
		row.Line, row.ExecID = int32(i+1), &started.NodeExec.ID //nolint:gosec // at most 50
		here := row
		at.Store(&here)
		if _, err := s.note(ctx, row); err != nil {
			return err
		}
		tell(progressOf(row, w))
		if err := s.succeeded(ctx, w.OrgID, w.Link, started.NodeExec.ID, what, line); err != nil {
			return err
		}
	}
	return nil
}

// succeeded waits for a command, and returns a lineError unless it ended with exit status 0,
// or an Unavailable error if it ran nowhere.
func (s *Setups) succeeded(ctx context.Context, orgID string, link machine.Link, execID, what, command string) error {
	for {
		now, err := s.cfg.Execs.Wait(ctx, orgID, execID, waitStep)
		if err != nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
		switch row := now.NodeExec; {
		case row.State != "ended":
		case row.EndReason == "exited" && row.ExitCode == 0:
			return nil
		case row.EndReason == nodeexec.Refused, row.EndReason == nodeexec.NotStarted:
			return fault.New(fault.Unavailable, "%s did not run: %s", what, cmp.Or(row.Error, "the node did not start it")).WithCode(fault.ImageUnavailable).WithObject(row.ID)
		default:
			return &lineError{fmt.Sprintf("%s, %s: %s%s", what, ending(row), oneLine(s.cfg.Redact.Org(orgID).String(command)), s.tail(ctx, orgID, link, row))}
		}
	}
}

// ending says how a command ended.
func ending(row db.NodeExec) string {
	switch {
	case row.EndReason == "exited":
		return fmt.Sprintf("exit status %d", row.ExitCode)
	case row.Error != "":
		return row.Error
	case row.KilledBy != "":
		return "killed by " + row.KilledBy
	case row.Signal != 0:
		return fmt.Sprintf("signal %d", row.Signal)
	}
	return strings.ReplaceAll(row.EndReason, "_", " ")
}

const maxLine = 200

func oneLine(text string) string {
	first, _, more := strings.Cut(strings.TrimSpace(text), "\n")
	if len(first) > maxLine {
		first, more = strings.ToValidUTF8(first[:maxLine], ""), true
	}
	if more {
		return first + " …"
	}
	return first
}

// tail returns the end of a command's output, on lines of its own; empty if it has none or
// cannot be read.
func (s *Setups) tail(ctx context.Context, orgID string, link machine.Link, row db.NodeExec) string {
	in, err := link.Exec().ReadLog(ctx, &nodev1.ReadLogRequest{ExecId: row.ID, Offset: max(0, row.LogBytes-tailBytes)})
	var out strings.Builder
	for err == nil && out.Len() < 2*tailBytes {
		var piece *nodev1.ReadLogResponse
		if piece, err = in.Recv(); err == nil {
			out.Write(piece.GetData())
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		s.cfg.Log.Warn("cannot read the output of a setup's command", "exec_id", row.ID, "error", err)
	}
	text := strings.TrimSpace(strings.ToValidUTF8(out.String(), "\uFFFD"))
	if text == "" {
		return ""
	}
	return "\n" + s.cfg.Redact.Org(orgID).String(text)
}
