package knowledge

import (
	"context"
	"fmt"
	"io"

	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/extracted"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
	"github.com/deckhand-sh/deckhand/internal/redact"
)

const (
	// batchPassages and batchFiles are how much is stored in one transaction.
	batchPassages = 1000
	batchFiles    = 200
)

// intake stores what is read from a source. Documents that were there and did not come are
// removed when it finishes.
type intake struct {
	r      *run
	source db.KnowledgeSource
	mask   *redact.Redactor
	// have are the documents that the source has, by path; seen are those that came.
	have map[string]db.KnowledgeDigestsRow
	seen map[string]bool

	files    db.PutKnowledgeDocumentsParams
	passages db.PutKnowledgePassagesParams
	// old are the documents that those in the batch replace, and counted how many of those
	// came with passages.
	old            []string
	added, changed int32
	skipped        int32
	// at is the index of the file that passages belong to; -1 for none.
	at  int
	end *extracted.End
	// partial reports that not all of the source's documents came: those that did not may
	// still be there.
	partial bool
}

func newIntake(ctx context.Context, r *run, s db.KnowledgeSource) (*intake, error) {
	rows, err := r.k.cfg.Store.KnowledgeDigests(ctx, db.KnowledgeDigestsParams{OrgID: s.OrgID, SourceID: s.ID})
	if err != nil {
		return nil, fmt.Errorf("load the digests of source %s: %w", s.ID, err)
	}
	in := &intake{r: r, source: s, mask: r.k.cfg.Redact.Org(s.OrgID), have: map[string]db.KnowledgeDigestsRow{}, seen: map[string]bool{}, at: -1}
	for _, row := range rows {
		in.have[row.Path] = row
	}
	in.reset()
	return in, nil
}

func (in *intake) reset() {
	s := in.source
	in.files = db.PutKnowledgeDocumentsParams{OrgID: s.OrgID, CollectionID: s.CollectionID, SourceID: s.ID}
	in.passages = db.PutKnowledgePassagesParams{OrgID: s.OrgID, CollectionID: s.CollectionID}
	in.old, in.added, in.changed, in.skipped, in.at = nil, 0, 0, 0, -1
}

// digests returns those of the documents that are there. A file that was skipped is looked at
// again: its reader may read it now.
func (in *intake) digests() map[string]string {
	out := map[string]string{}
	for path, row := range in.have {
		if row.Digest != "" && row.Passages > 0 {
			out[path] = row.Digest
		}
	}
	return out
}

// take stores one record, which was checked.
func (in *intake) take(ctx context.Context, r extracted.Record) error {
	switch {
	case in.end != nil:
		return fault.New(fault.Precondition, "the reader in the jail wrote on after its end")
	case r.File != nil:
		return in.file(ctx, r.File)
	case r.Passage != nil:
		return in.passage(r.Passage)
	}
	in.end, in.partial = r.End, in.partial || r.End.Partial
	return nil
}

func (in *intake) file(ctx context.Context, f *extracted.File) error {
	if len(in.files.Ids) >= batchFiles || len(in.passages.Numbers) >= batchPassages {
		if err := in.flush(ctx); err != nil {
			return err
		}
	}
	if in.seen[f.Path] || len(in.seen) >= extracted.MaxFiles {
		return fault.New(fault.Precondition, "the reader in the jail named %q twice, or too many files", f.Path)
	}
	in.seen[f.Path] = true
	in.r.set(func(s *db.KnowledgeSync) { s.Files++ })
	before, there := in.have[f.Path]
	in.at = -1
	if f.Same && there && before.Digest == f.Digest {
		return nil
	}
	if there {
		in.old = append(in.old, before.ID)
	}
	switch {
	case f.Skipped != "":
		in.skipped++
	case there && before.Passages > 0:
		in.changed++
	default:
		in.added++
	}
	p := &in.files
	p.Ids, p.Paths, p.Titles = append(p.Ids, ident.New("doc")), append(p.Paths, f.Path), append(p.Titles, in.mask.String(f.Title))
	p.Formats, p.Digests, p.Sizes = append(p.Formats, f.Format), append(p.Digests, f.Digest), append(p.Sizes, f.Bytes)
	p.Counts, p.Lengths, p.Reasons = append(p.Counts, 0), append(p.Lengths, 0), append(p.Reasons, in.mask.String(f.Skipped))
	in.at = len(p.Ids) - 1
	return nil
}

func (in *intake) passage(e *extracted.Passage) error {
	if in.at < 0 || in.files.Reasons[in.at] != "" || in.files.Counts[in.at] >= extracted.MaxPassages {
		return fault.New(fault.Precondition, "the reader in the jail wrote a passage of no document, or too many")
	}
	in.files.Counts[in.at]++
	body, heading := in.mask.String(e.Text), in.mask.String(e.Heading)
	words, length := vector(in.files.Paths[in.at], in.files.Titles[in.at], heading, body)
	in.files.Lengths[in.at] += int64(length)
	p := &in.passages
	p.DocumentIds, p.Numbers = append(p.DocumentIds, in.files.Ids[in.at]), append(p.Numbers, in.files.Counts[in.at])
	p.Headings, p.Bodies = append(p.Headings, heading), append(p.Bodies, body)
	p.FirstLines, p.LastLines, p.Pages = append(p.FirstLines, int32(e.First)), append(p.LastLines, int32(e.Last)), append(p.Pages, int32(e.Page)) //nolint:gosec // Check bounds them
	p.Words, p.Lengths = append(p.Words, words), append(p.Lengths, int32(length))                                                                 //nolint:gosec // of a passage
	return nil
}

// flush stores the batch in one transaction: documents with the passages of the whole batch.
func (in *intake) flush(ctx context.Context) error {
	if len(in.files.Ids) == 0 {
		return nil
	}
	s := in.source
	gone := 0
	err := in.r.k.cfg.Store.Tx(ctx, func(q *db.Queries) (err error) {
		if err := in.hold(ctx, q); err != nil {
			return err
		}
		if err := forget(ctx, q, s.OrgID, s.CollectionID, in.old); err != nil {
			return err
		}
		if err := q.PutKnowledgeDocuments(ctx, in.files); err != nil {
			return fmt.Errorf("store documents: %w", err)
		}
		if len(in.passages.Numbers) > 0 {
			if err := q.PutKnowledgePassages(ctx, in.passages); err != nil {
				return fmt.Errorf("store passages: %w", err)
			}
			if err := q.CountKnowledgeWords(ctx, db.CountKnowledgeWordsParams{CollectionID: s.CollectionID, DocumentIds: in.files.Ids}); err != nil {
				return err
			}
		}
		// An upload that was deleted after it was copied into the jail must not be found again.
		if s.Kind == Upload {
			gone, err = forgetUploads(ctx, q, s)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("store documents of source %s: %w", s.ID, err)
	}
	if err := in.r.k.cfg.Store.WantKnowledgeEmbeddings(ctx, s.OrgID); err != nil {
		return fmt.Errorf("have passages embedded: %w", err)
	}
	in.r.set(func(s *db.KnowledgeSync) {
		s.Added += in.added
		s.Changed += in.changed
		s.Skipped += in.skipped
		s.Removed += int32(gone)                      //nolint:gosec // bounded by the files of a source
		s.Passages += int32(len(in.passages.Numbers)) //nolint:gosec // of a batch
	})
	in.reset()
	return nil
}

// hold locks the collection for a transaction that changes its documents, and refuses if the
// sync has ended: another one may have begun, and what this one read may be older.
func (in *intake) hold(ctx context.Context, q *db.Queries) error {
	s := in.source
	if err := q.LockKnowledgeCollection(ctx, db.LockKnowledgeCollectionParams{OrgID: s.OrgID, ID: s.CollectionID}); err != nil {
		return err
	}
	id := in.r.now().ID
	if id == "" {
		return nil // Load
	}
	n, err := q.HoldKnowledgeSync(ctx, db.HoldKnowledgeSyncParams{OrgID: s.OrgID, ID: id})
	if err == nil && n == 0 {
		err = errEnded()
	}
	return err
}

func errEnded() *fault.Error {
	return fault.New(fault.Unavailable, "the sync was ended: its collection was deleted, or its hub was not seen for some time")
}

// finish stores the rest, and removes what the source does not have any more, unless it could
// not be read as a whole. It returns what the reader left out.
func (in *intake) finish(ctx context.Context) (note string, err error) {
	if in.end == nil {
		return "", fault.New(fault.Precondition, "the reader in the jail ended early").WithFix("sync again")
	}
	if err := in.flush(ctx); err != nil {
		return "", err
	}
	var gone []string
	for path, row := range in.have {
		if !in.seen[path] && !in.partial {
			gone = append(gone, row.ID)
		}
	}
	if len(gone) > 0 {
		s := in.source
		if err := in.r.k.cfg.Store.Tx(ctx, func(q *db.Queries) error {
			if err := in.hold(ctx, q); err != nil {
				return err
			}
			return forget(ctx, q, s.OrgID, s.CollectionID, gone)
		}); err != nil {
			return "", fmt.Errorf("remove documents of source %s: %w", s.ID, err)
		}
		in.r.set(func(s *db.KnowledgeSync) { s.Removed += int32(len(gone)) }) //nolint:gosec // bounded by the files of a source
	}
	return in.end.Note, nil
}

// Load stores the documents of a source from what deckhand-skill has written about them
// (package extracted), without a jail. It is for documents that were read elsewhere, and for
// measurements; nobody else may write to the source at the same time.
func (k *Knowledge) Load(ctx context.Context, s db.KnowledgeSource, from io.Reader) error {
	in, err := newIntake(ctx, &run{k: k}, s)
	if err != nil {
		return err
	}
	_, err = in.load(ctx, from)
	return err
}
