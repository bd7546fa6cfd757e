package api

import (
	"context"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/inbox"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// attachmentPiece is how much of an attachment is returned at once, in bytes.
const attachmentPiece = 1 << 20

// attachments returns what is attached to a question.
func (h *Inbox) attachments(ctx context.Context, item db.InboxItem) (out []*deckhandv1.InboxAttachment, err error) {
	if inbox.Kind(item.Kind) != inbox.Question {
		return nil, nil
	}
	rows, err := h.Inbox.Attachments.List(ctx, item.OrgID, item.ID)
	for _, a := range rows {
		out = append(out, &deckhandv1.InboxAttachment{Number: a.Number, Path: a.Path, SizeBytes: a.SizeBytes, Sha256: a.Sha256, Problem: a.Problem})
	}
	return out, err
}

// ReadInboxAttachment returns a piece of a file that goes with a question.
func (h *Inbox) ReadInboxAttachment(ctx context.Context, req *deckhandv1.ReadInboxAttachmentRequest) (*deckhandv1.ReadInboxAttachmentResponse, error) {
	who, m := auth.From(ctx), req
	id, err := h.Inbox.Find(ctx, viewer(ctx), m.GetItemId())
	if err != nil {
		return nil, err
	}
	row, err := h.Inbox.Get(ctx, who.OrgID, id)
	if err != nil {
		return nil, err
	}
	t, err := h.Tasks.Get(ctx, who.OrgID, row.InboxItem.TaskID)
	if err != nil {
		return nil, err
	}
	if err := mayAccess(ctx, h.Agents, t.Task, toRead); err != nil {
		return nil, err
	}
	a, data, err := h.Inbox.Attachments.Read(ctx, who.OrgID, id, m.GetNumber(), m.GetOffset() == 0, actor(who))
	if err != nil {
		return nil, err
	}
	size := int64(len(data))
	if m.GetOffset() > size {
		return nil, fault.New(fault.Invalid, "offset %d is behind the end of the attachment, which has %d bytes", m.GetOffset(), size).WithObject(id).
			WithFix("read from 0, or from next_offset of the piece before")
	}
	piece := data[m.GetOffset():min(size, m.GetOffset()+attachmentPiece)]
	return &deckhandv1.ReadInboxAttachmentResponse{
		Data: piece, NextOffset: m.GetOffset() + int64(len(piece)), SizeBytes: size, Sha256: a.Sha256,
	}, nil
}

// ReplyToTask answers the open question of a task.
func (h *Inbox) ReplyToTask(ctx context.Context, req *deckhandv1.ReplyToTaskRequest) (*deckhandv1.ReplyToTaskResponse, error) {
	id, err := h.Tasks.Find(ctx, viewer(ctx), req.GetTaskId())
	if err != nil {
		return nil, err
	}
	questions, err := inbox.OpenQuestions(ctx, h.Inbox, auth.From(ctx).OrgID, id)
	if err != nil {
		return nil, err
	}
	switch len(questions) {
	case 0:
		return nil, fault.New(fault.Precondition, "task %s has asked nothing that is open", id).WithObject(id).
			WithFix("see what it waits for: deckhand task show %s; to tell its agent something: deckhand task message %s TEXT", id, id)
	case 1:
	default:
		return nil, fault.New(fault.Precondition, "task %s has %d open questions", id, len(questions)).WithObject(id).
			WithFix("answer each by its id: deckhand inbox list --task %s", id)
	}
	res, err := h.AnswerInboxItem(ctx, &deckhandv1.AnswerInboxItemRequest{
		ItemId: questions[0], Answer: &deckhandv1.AnswerInboxItemRequest_Reply_{Reply: &deckhandv1.AnswerInboxItemRequest_Reply{Text: req.GetText()}},
	})
	if err != nil {
		return nil, err
	}
	return &deckhandv1.ReplyToTaskResponse{Item: res.GetItem()}, nil
}
