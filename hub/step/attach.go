package step

import (
	"context"
	"fmt"

	"github.com/deckhand-sh/deckhand/hub/inbox"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// attached is what a question has attached, as it was when the node was asked for it.
type attached struct {
	files []tool.File
	// refused is why the files cannot be attached; nil if they can.
	refused *fault.Error
	// problem is why they could not be read; empty if they were.
	problem string
}

// attacher reads what questions have attached.
type attacher struct{ *Steps }

// attachments returns the files of a question. Within a transaction it returns an
// event.Outside if the node must be asked first.
func (s attacher) attachments(ctx context.Context, l *looks, t db.Task, q tool.Question, raw []byte) (attached, error) {
	if len(q.Attachments) == 0 {
		return attached{}, nil
	}
	of := inspectedCall{t.JailID, "attachments", digest(raw)}
	look := func(ctx context.Context) {
		if l.attached == nil {
			l.attached = map[inspectedCall]attached{}
		}
		l.attached[of] = s.attachNow(ctx, t, q)
	}
	if _, ok := l.attached[of]; !ok && l.ask {
		look(ctx)
	} else if !ok {
		if err := l.later(look); err != nil {
			return attached{}, err
		}
	}
	if a, ok := l.attached[of]; ok {
		return a, nil
	}
	return attached{problem: "the node was not asked for it"}, nil
}

// attachNow reads the files from the node.
func (s attacher) attachNow(ctx context.Context, t db.Task, q tool.Question) attached {
	ctx, cancel := context.WithTimeout(ctx, inspectionTimeout)
	defer cancel()
	files, err := s.readAttachments(ctx, t, q.Attachments)
	if err == nil {
		return attached{files: files}
	}
	e := fault.As(err)
	if e == nil {
		e = fault.As(fault.FromGRPC(err))
	}
	switch {
	case e == nil || e.Kind == fault.Internal:
		s.cfg.Log.Info("the attachments of a question cannot be read", "task_id", t.ID, "error", err)
		return attached{problem: "the node did not respond"}
	case e.Kind == fault.Unavailable, e.Kind == fault.Deadline, e.Kind == fault.Canceled:
		return attached{problem: e.Message}
	}
	return attached{refused: e}
}

func (s attacher) readAttachments(ctx context.Context, t db.Task, paths []string) ([]tool.File, error) {
	call := tool.Call{ExecID: ident.New("step"), Live: func(ctx context.Context) bool { return ctx.Err() == nil }}
	if t.NodeID != nil {
		p, err := s.persona(ctx, t)
		if err != nil {
			return nil, err
		}
		if call.Node, err = s.cfg.Node(*t.NodeID); err != nil {
			return nil, err
		}
		if call.Jail, err = s.jailOf(ctx, t, p); err != nil {
			return nil, err
		}
	}
	files, err := tool.ReadAttachments(ctx, call, paths)
	if err != nil {
		return nil, err
	}
	// A person gets them as they are, so that no secret may be in them.
	mask := s.cfg.Redact.Org(t.OrgID)
	for _, f := range files {
		if mask.String(f.Path) != f.Path || hasSecret(mask, f.Data) {
			return nil, secretRefused("attachment " + mask.String(f.Path))
		}
	}
	return files, nil
}

// maxAttached bounds the attachments of all questions of a task that are stored at once, in bytes.
const maxAttached = 100 << 20

// refuseAttachments returns why a question cannot be asked with what it has attached, or nil.
func (s attacher) refuseAttachments(ctx context.Context, q *db.Queries, l *looks, t db.Task, question tool.Question, raw []byte) (*fault.Error, error) {
	a, err := s.attachments(ctx, l, t, question, raw)
	if err != nil || a.refused != nil {
		return a.refused, err
	}
	if a.problem != "" {
		return fault.New(fault.Unavailable, "the attachments cannot be read: %s", a.problem).WithCode(fault.NodeUnavailable).
			WithFix("ask again, or ask without attachments"), nil
	}
	var size int64
	for _, f := range a.files {
		size += int64(len(f.Data))
	}
	if size == 0 {
		return nil, nil //nolint:nilnil // nothing is refused
	}
	kept, err := q.KeptAttachmentBytes(ctx, db.KeptAttachmentBytesParams{OrgID: t.OrgID, TaskID: t.ID})
	if err != nil {
		return nil, fmt.Errorf("add up the attachments of task %s: %w", t.ID, err)
	}
	if kept+size > maxAttached {
		return fault.New(fault.Exhausted, "the attachments have %d bytes, and the questions of the task have %d bytes attached already: together they may have %d", size, kept, maxAttached).
			WithCode(fault.BudgetLimit).WithFix("attach less, for example a part of a file, or name the path in the question"), nil
	}
	return nil, nil //nolint:nilnil // nothing is refused
}

// attach adds the files of a question to its item.
func (s attacher) attach(ctx context.Context, l *looks, t db.Task, q tool.Question, raw []byte, ask *inbox.NewItem) error {
	a, err := s.attachments(ctx, l, t, q, raw)
	if err != nil {
		return err
	}
	ask.Seal = s.cfg.Vault.Seal
	if a.problem == "" && a.refused != nil {
		a.problem = a.refused.Message
	}
	mask := s.cfg.Redact.Org(t.OrgID)
	for i, path := range q.Attachments {
		one := inbox.NewAttachment{Path: mask.String(path)}
		if i < len(a.files) {
			one.Data, one.SHA256 = a.files[i].Data, a.files[i].Sum()
		} else {
			one.Problem = mask.String(fmt.Sprintf("it could not be read: %s", a.problem))
		}
		ask.Attachments = append(ask.Attachments, one)
	}
	return nil
}
