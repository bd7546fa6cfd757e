package audit

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"io"
	"time"

	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/auditlog"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

const (
	exportHeads   = 500
	exportEntries = 2000
)

// Export writes an organisation's entries after a position, as far as they are sealed, in
// the format of internal/auditlog. after is 0 or the position of a head; otherwise the
// nearest head below it is used.
func Export(ctx context.Context, s *store.Store, key ed25519.PrivateKey, orgID string, after int64, to io.Writer) error {
	public, ok := key.Public().(ed25519.PublicKey)
	if !ok {
		return fault.New(fault.Internal, "the audit's key is not an ed25519 key")
	}
	var from db.AuditHead
	var err error
	if after > 0 {
		if from, err = s.AuditHeadAt(ctx, db.AuditHeadAtParams{OrgID: orgID, Position: after}); err != nil && !store.IsNotFound(err) {
			return fmt.Errorf("find where to begin: %w", err)
		}
	}
	until, err := s.LastAuditHead(ctx, orgID)
	if err != nil && !store.IsNotFound(err) {
		return fmt.Errorf("find where to end: %w", err)
	}
	x := &export{store: s, org: orgID, out: bufio.NewWriterSize(to, 1<<16), number: from.Number, position: from.Position}
	copy(x.hash[:], from.Hash)
	x.line(auditlog.NewHeader(orgID, public, from.Position, x.hash).Line())
	for x.number < until.Number {
		if err := x.heads(ctx, until.Number); err != nil {
			return err
		}
	}
	x.line(auditlog.End{
		Organisation: orgID, Number: x.number, Entries: x.entries, Position: x.position, Hash: hex.EncodeToString(x.hash[:]), Time: time.Now(),
	}.Sign(key).Line())
	if err := x.out.Flush(); err != nil {
		return fmt.Errorf("write the export: %w", err)
	}
	return nil
}

// export is how far one is.
type export struct {
	store                     *store.Store
	org                       string
	out                       *bufio.Writer
	number, position, entries int64
	hash                      auditlog.Hash
}

// line writes a line; an error is kept by the writer, and Flush returns it.
func (x *export) line(line []byte) {
	_, _ = x.out.Write(line)
	_ = x.out.WriteByte('\n')
}

// heads writes some heads, each behind its entries.
func (x *export) heads(ctx context.Context, until int64) error {
	heads, err := x.store.AuditHeadsAfter(ctx, db.AuditHeadsAfterParams{OrgID: x.org, Number: x.number, Until: until, MaxRows: exportHeads})
	if err != nil {
		return fmt.Errorf("read heads: %w", err)
	}
	if len(heads) == 0 {
		return fault.New(fault.Internal, "head %d of the audit's chain is missing", x.number+1).WithFix("restore the database: somebody has deleted it")
	}
	for _, head := range heads {
		for at := x.position; at < head.Position; {
			rows, err := x.store.ChainedEntries(ctx, db.ChainedEntriesParams{OrgID: x.org, AfterPosition: at, Until: head.Position, MaxRows: exportEntries})
			if err != nil {
				return fmt.Errorf("read entries: %w", err)
			}
			if len(rows) == 0 {
				break // Verify reports the missing ones
			}
			for _, row := range rows {
				line, err := entry(row.Position, row.AuditEntry).Line()
				if err != nil {
					return err
				}
				x.line(line)
				x.hash = auditlog.Next(x.hash, line)
				x.entries++
				at = row.Position
			}
		}
		x.line(auditlog.Head{
			Organisation: x.org, Number: head.Number, Position: head.Position, Hash: hex.EncodeToString(head.Hash), Time: head.Time, Signature: head.Signature,
		}.Line())
		x.number, x.position = head.Number, head.Position
	}
	return nil
}
