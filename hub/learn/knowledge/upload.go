package knowledge

import (
	"context"
	"fmt"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/extracted"
	"github.com/deckhand-sh/deckhand/internal/fault"
)

const (
	// maxUploads bounds the files of a collection's uploads.
	maxUploads = 2000
	// maxUploaded and maxUploadedOrg bound the bytes of a collection's uploads and of those of
	// all an organisation's collections: they are in the database.
	maxUploaded    = 1 << 30
	maxUploadedOrg = 10 << 30
)

// Put stores an uploaded file in a collection, and returns the source that uploads are in.
func (k *Knowledge) Put(ctx context.Context, v visibility.Viewer, ref, name string, content []byte, by event.Actor) (collectionID, sourceID string, err error) {
	row, err := k.change(ctx, v, ref)
	if err != nil {
		return "", "", err
	}
	c := row.KnowledgeCollection
	switch {
	case !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) || path.IsAbs(name) || path.Clean(name) != name || name == "." || name == ".." || strings.HasPrefix(name, "../"):
		return "", "", fault.New(fault.Invalid, "path: %.200q is no relative path of a file", name).WithCode(fault.InvalidParameters).WithFix("use one such as docs/leave.md")
	case strings.HasPrefix(path.Base(name), ".") || strings.Contains("/"+name, "/."):
		return "", "", fault.New(fault.Invalid, "path: %.200q is hidden, and hidden files are not read", name).WithCode(fault.InvalidParameters).WithFix("use a name that does not begin with a dot")
	case len(content) > extracted.MaxFile:
		return "", "", fault.New(fault.Invalid, "content: it has %d bytes, at most %d are read", len(content), extracted.MaxFile).WithCode(fault.InvalidParameters).WithFix("split it")
	}
	if content == nil {
		content = []byte{}
	}
	source, err := k.cfg.Store.KnowledgeUploadSource(ctx, db.KnowledgeUploadSourceParams{OrgID: v.OrgID, CollectionID: c.ID})
	if store.IsNotFound(err) {
		_, source.ID, err = k.Add(ctx, v, c.ID, Source{Kind: Upload}, "", by)
	}
	if err != nil {
		return "", "", err
	}
	err = k.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		if err := tx.LockKnowledgeCollection(ctx, db.LockKnowledgeCollectionParams{OrgID: v.OrgID, ID: c.ID}); err != nil {
			return fmt.Errorf("lock collection %s: %w", c.ID, err)
		}
		have, err := tx.KnowledgeUploadsSize(ctx, db.KnowledgeUploadsSizeParams{OrgID: v.OrgID, SourceID: source.ID, Path: name})
		if err != nil {
			return fmt.Errorf("measure the uploads of collection %s: %w", c.ID, err)
		}
		full := func(format string, args ...any) error {
			return fault.New(fault.Exhausted, format, args...).WithObject(c.ID).WithFix("add a folder or a Git repository as a source instead, or remove uploads or collections")
		}
		switch more := int64(len(content)); {
		case have.Files >= maxUploads:
			return full("collection %s has %d uploads, which is the most", c.Name, maxUploads)
		case have.Bytes+more > maxUploaded:
			return full("the uploads of collection %s would have over %d MiB", c.Name, maxUploaded>>20)
		case have.OrgBytes+more > maxUploadedOrg:
			return full("the uploads of the organisation would have over %d GiB", maxUploadedOrg>>30)
		}
		if err := tx.PutKnowledgeUpload(ctx, db.PutKnowledgeUploadParams{OrgID: v.OrgID, SourceID: source.ID, Path: name, Content: content}); err != nil {
			return fmt.Errorf("store an upload of collection %s: %w", c.ID, err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: v.OrgID, By: by, Action: "collection.document_uploaded", ObjectKind: Kind, ObjectID: c.ID, After: map[string]any{"path": name, "bytes": len(content)},
		})
	})
	return c.ID, source.ID, err
}

// RemoveUpload deletes an uploaded file, with what was read of it.
func (k *Knowledge) RemoveUpload(ctx context.Context, v visibility.Viewer, ref, name string, by event.Actor) error {
	row, err := k.change(ctx, v, ref)
	if err != nil {
		return err
	}
	c := row.KnowledgeCollection
	missing := fault.New(fault.NotFound, "collection %s has no upload %q", c.Name, name).WithObject(c.ID).
		WithFix("list its documents with: deckhand knowledge documents %s; those of other sources are removed with their source", c.Name)
	source, err := k.cfg.Store.KnowledgeUploadSource(ctx, db.KnowledgeUploadSourceParams{OrgID: v.OrgID, CollectionID: c.ID})
	if store.IsNotFound(err) {
		return missing
	}
	if err != nil {
		return fmt.Errorf("find the uploads of collection %s: %w", c.ID, err)
	}
	return k.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		if err := tx.LockKnowledgeCollection(ctx, db.LockKnowledgeCollectionParams{OrgID: v.OrgID, ID: c.ID}); err != nil {
			return fmt.Errorf("lock collection %s: %w", c.ID, err)
		}
		n, err := tx.DeleteKnowledgeUpload(ctx, db.DeleteKnowledgeUploadParams{OrgID: v.OrgID, SourceID: source.ID, Path: name})
		if err != nil {
			return fmt.Errorf("delete an upload of collection %s: %w", c.ID, err)
		}
		if n == 0 {
			return missing
		}
		if _, err := forgetUploads(ctx, tx.Queries, source); err != nil {
			return err
		}
		return audit.Append(tx, audit.Entry{
			OrgID: v.OrgID, By: by, Action: "collection.document_removed", ObjectKind: Kind, ObjectID: c.ID, Before: map[string]any{"path": name},
		})
	})
}

// forgetUploads deletes what was read of uploads that are deleted, and returns how many those
// are. The collection is locked.
func forgetUploads(ctx context.Context, q *db.Queries, s db.KnowledgeSource) (int, error) {
	ids, err := q.KnowledgeDocumentsWithoutUpload(ctx, db.KnowledgeDocumentsWithoutUploadParams{OrgID: s.OrgID, SourceID: s.ID})
	if err != nil {
		return 0, fmt.Errorf("look for documents of uploads that are deleted: %w", err)
	}
	return len(ids), forget(ctx, q, s.OrgID, s.CollectionID, ids)
}
