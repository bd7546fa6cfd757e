package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/redact"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	lookEvery = time.Second
	// sharedFor is how long watchers share a look. It is shorter than lookEvery, so that one
	// watcher alone finds a new one each time. maxShared bounds how many looks are shared.
	sharedFor = 900 * time.Millisecond
	maxShared = 1000
	// progressTimeout bounds one look at all commands, so that a node that does not respond
	// keeps the progress of others back for no longer.
	progressTimeout = 5 * time.Second
	// maxProgress is how many commands of a watch are looked at.
	maxProgress = 20
	// progressTail is how much of the end of an output is read for its last line, in bytes,
	// and progressLine how much of the line is shown, in characters.
	progressTail = 8 << 10
	progressLine = 200
)

// Progress looks at the commands that run for watched tasks. It asks their nodes only while
// somebody watches, and stores nothing. Watchers share what was found out less than a second
// ago, so that a node is not asked more often because more people watch.
type Progress struct {
	store  *store.Store
	node   func(nodeID string) (machine.Link, error)
	redact *redact.Redactor
	// commands has the running commands of tasks, execs what runs on a node by its exec id,
	// and lines the last line of the output of an exec.
	commands *glances[[]db.RunningCommandsRow]
	execs    *glances[map[string]*nodev1.Exec]
	lines    *glances[string]
}

// NewProgress returns a Progress of the commands on nodes that node returns.
func NewProgress(s *store.Store, node func(nodeID string) (machine.Link, error), r *redact.Redactor) *Progress {
	return &Progress{
		store: s, node: node, redact: r,
		commands: newGlances[[]db.RunningCommandsRow](maxShared, sharedFor, progressTimeout),
		execs:    newGlances[map[string]*nodev1.Exec](maxShared, sharedFor, progressTimeout),
		lines:    newGlances[string](maxShared, sharedFor, progressTimeout),
	}
}

// Follow sends how far the running commands of tasks are, once a second and if anything has
// changed, until ctx ends.
func (p *Progress) Follow(ctx context.Context, orgID string, taskIDs []string, to chan<- any) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	sent := map[string]*deckhandv1.StepProgress{}
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := p.look(ctx, orgID, taskIDs)
		next := map[string]*deckhandv1.StepProgress{}
		for _, one := range now {
			next[one.GetStepId()] = one
			if before := sent[one.GetStepId()]; before != nil && before.GetLogBytes() == one.GetLogBytes() &&
				before.GetCpuTime().AsDuration() == one.GetCpuTime().AsDuration() && before.GetMemoryBytes() == one.GetMemoryBytes() {
				continue
			}
			select {
			case to <- one:
			case <-ctx.Done():
				return
			}
		}
		sent = next
	}
}

// look asks the nodes once. What cannot be found out is left out.
func (p *Progress) look(ctx context.Context, orgID string, taskIDs []string) (out []*deckhandv1.StepProgress) {
	ctx, cancel := context.WithTimeout(ctx, progressTimeout)
	defer cancel()
	of := orgID + " " + strings.Join(slices.Sorted(slices.Values(taskIDs)), " ")
	rows := p.commands.of(ctx, of, func(ctx context.Context) []db.RunningCommandsRow {
		rows, err := p.store.RunningCommands(ctx, db.RunningCommandsParams{OrgID: orgID, TaskIds: taskIDs, MaxRows: maxProgress})
		if err != nil {
			return nil // the next look may succeed
		}
		return rows
	})
	for _, row := range rows {
		link, err := p.node(row.NodeID)
		if err != nil {
			continue
		}
		e := p.execs.of(ctx, row.NodeID, func(ctx context.Context) map[string]*nodev1.Exec {
			res, err := link.Exec().ListExecs(ctx, &nodev1.ListExecsRequest{LiveOnly: true, Usage: true})
			if err != nil {
				return nil
			}
			execs := map[string]*nodev1.Exec{}
			for _, e := range res.GetExecs() {
				execs[e.GetExecId()] = e
			}
			return execs
		})[row.ExecID]
		if e.GetState() != nodev1.ExecState_EXEC_STATE_RUNNING {
			continue
		}
		out = append(out, &deckhandv1.StepProgress{
			TaskId: row.TaskID, StepId: row.ID, Number: row.Number, LogBytes: e.GetLogBytes(), StartedAt: timestamppb.New(row.StartedAt),
			CpuTime: e.GetUsage().GetCpuTime(), MemoryBytes: e.GetUsage().GetMemoryBytes(), LastLine: p.lines.of(ctx, orgID+" "+row.NodeID+" "+row.ExecID, func(ctx context.Context) string { return p.lastLine(ctx, orgID, link, e) }),
		})
	}
	return out
}

// lastLine returns the last complete line of a command's output, with secrets masked, or "". What
// may be the beginning of a secret is left out.
func (p *Progress) lastLine(ctx context.Context, orgID string, link machine.Link, e *nodev1.Exec) string {
	from := max(0, e.GetLogBytes()-progressTail)
	if e.GetLogBytes() == 0 {
		return ""
	}
	in, err := link.Exec().ReadLog(ctx, &nodev1.ReadLogRequest{ExecId: e.GetExecId(), Offset: from, Limit: e.GetLogBytes() - from})
	if err != nil {
		return ""
	}
	var tail []byte
	for {
		piece, err := in.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return ""
		}
		tail = append(tail, piece.GetData()...)
	}
	settled := p.redact.Org(orgID).Mask(tail)
	tail = tail[:settled]
	if from > 0 {
		// The first line may begin within a secret.
		tail = tail[bytes.IndexAny(tail, "\r\n")+1:]
	}
	return lastLineOf(tail)
}

// lastLineOf returns the last line of an output that is whole and not empty.
func lastLineOf(output []byte) string {
	end := bytes.LastIndexAny(output, "\r\n")
	if end < 0 {
		return ""
	}
	lines := strings.FieldsFunc(strings.ToValidUTF8(string(output[:end]), "\uFFFD"), func(r rune) bool { return r == '\r' || r == '\n' })
	for i := len(lines) - 1; i >= 0; i-- {
		if line := strings.TrimSpace(lines[i]); line != "" {
			return textcut.Runes(line, progressLine, "…")
		}
	}
	return ""
}
