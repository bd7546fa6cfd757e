package knowledge

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/record/audit"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/ident"
)

// Source is a place that documents come from.
type Source struct {
	Kind string
	// Agent and Node may be names or the beginnings of ids.
	Agent, Node         string
	Path, URL, Revision string
	// Credential is the name of the one with which a repository is read; empty for none.
	Credential string
}

const (
	// maxSources bounds the sources of a collection.
	maxSources = 50
	// sourceRole is who adds sources that a node connects to.
	sourceRole = "advanced"
)

// Sources returns a collection's sources in the order in which they were added.
func (k *Knowledge) Sources(ctx context.Context, orgID, id string) ([]db.KnowledgeSourcesRow, error) {
	rows, err := k.cfg.Store.KnowledgeSources(ctx, db.KnowledgeSourcesParams{OrgID: orgID, CollectionID: id})
	if err != nil {
		return nil, fmt.Errorf("list the sources of collection %s: %w", id, err)
	}
	return rows, nil
}

// Add adds a source to a collection, and returns its id. role is the caller's.
func (k *Knowledge) Add(ctx context.Context, v visibility.Viewer, ref string, s Source, role string, by event.Actor) (collectionID, id string, err error) {
	row, err := k.change(ctx, v, ref)
	if err != nil {
		return "", "", err
	}
	p := db.AddKnowledgeSourceParams{
		ID: ident.New("src"), OrgID: v.OrgID, CollectionID: row.KnowledgeCollection.ID, Kind: s.Kind, Path: s.Path, Url: s.URL, Revision: s.Revision, Credential: s.Credential, CreatedBy: by.ID,
	}
	if err := check(ctx, k, v, s, role, &p); err != nil {
		return "", "", err
	}
	id, err = k.ensureSource(ctx, p, by)
	return p.CollectionID, id, err
}

// ensureSource adds a source, unless the collection has it, and returns its id.
func (k *Knowledge) ensureSource(ctx context.Context, p db.AddKnowledgeSourceParams, by event.Actor) (id string, err error) {
	err = k.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		id = p.ID
		// Who adds the same at the same time waits, and finds it then.
		if err := tx.LockKnowledgeCollection(ctx, db.LockKnowledgeCollectionParams{OrgID: p.OrgID, ID: p.CollectionID}); err != nil {
			return fmt.Errorf("lock collection %s: %w", p.CollectionID, err)
		}
		have, err := tx.KnowledgeSources(ctx, db.KnowledgeSourcesParams{OrgID: p.OrgID, CollectionID: p.CollectionID})
		if err != nil {
			return fmt.Errorf("list the sources of collection %s: %w", p.CollectionID, err)
		}
		for _, one := range have {
			o := one.KnowledgeSource
			if o.Kind == p.Kind && o.AgentID == p.AgentID && o.NodeID == p.NodeID && o.JailID == p.JailID && o.Path == p.Path && o.Url == p.Url && o.Revision == p.Revision && o.Credential == p.Credential {
				id = o.ID
				return nil
			}
		}
		if len(have) >= maxSources {
			return fault.New(fault.Exhausted, "the collection has %d sources, which is the most", maxSources).WithObject(p.CollectionID).
				WithFix("create another collection; a search looks into all of them")
		}
		if _, err := tx.AddKnowledgeSource(ctx, p); err != nil {
			return fmt.Errorf("add a source to collection %s: %w", p.CollectionID, err)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: p.OrgID, By: by, Action: "collection.source_added", ObjectKind: Kind, ObjectID: p.CollectionID,
			After: map[string]any{"source_id": p.ID, "kind": p.Kind, "agent_id": p.AgentID, "node_id": p.NodeID, "path": p.Path, "url": p.Url, "credential": p.Credential},
		})
	})
	return id, err
}

// check completes and checks what a source names.
func check(ctx context.Context, k *Knowledge, v visibility.Viewer, s Source, role string, p *db.AddKnowledgeSourceParams) error {
	wrong := func(field, format string, args ...any) *fault.Error {
		return fault.New(fault.Invalid, "source."+field+": "+format, args...).WithCode(fault.InvalidParameters)
	}
	if !utf8.ValidString(s.Path) || strings.ContainsFunc(s.Path+s.Revision, unicode.IsControl) {
		return wrong("path", "it has characters that are no text").WithFix("name a folder without them")
	}
	unused := map[string]string{"agent_id": s.Agent, "node_id": s.Node, "url": s.URL, "revision": s.Revision, "credential": s.Credential}
	for _, field := range map[string][]string{Workspace: {"agent_id"}, Node: {"node_id"}, Git: {"url", "revision", "credential"}, Web: {"url"}}[s.Kind] {
		delete(unused, field)
	}
	for field, value := range unused {
		if value != "" {
			return wrong(field, "a source of the kind %s has none", s.Kind).WithFix("leave it out")
		}
	}
	switch s.Kind {
	case Upload:
		if p.Path != "" {
			return wrong("path", "uploads have no folder").WithFix("upload the files with their paths")
		}
	case Workspace:
		rows, err := k.cfg.Store.FindAgents(ctx, db.FindAgentsParams{OrgID: v.OrgID, Ref: s.Agent, Prefix: store.Prefix("agent", s.Agent), SeesAll: v.All, Viewer: v.Name})
		if p.AgentID, err = store.One("agent", s.Agent, rows, err); err != nil {
			return err
		}
		if err := mayRead(ctx, k.cfg.Store.Queries, v, p.AgentID); err != nil {
			return err
		}
		var ok bool
		if p.Path, ok = workspaceFolder(p.Path); !ok {
			return wrong("path", "%q is not in the workspace", s.Path).WithFix("name a folder in it, such as docs")
		}
	case Node:
		if role != auth.Admin {
			return fault.New(fault.Denied, "folders of machines are for administrators, and you have the role %s", role).
				WithCode(fault.PermissionDenied).WithFix("upload the files, or ask an administrator")
		}
		id, err := k.cfg.Nodes.Find(ctx, v.OrgID, s.Node)
		if err != nil {
			return err
		}
		p.NodeID = id
		if !path.IsAbs(p.Path) || path.Clean(p.Path) != p.Path || p.Path == "/" {
			return wrong("path", "%q is no absolute path of a folder", s.Path).WithFix("name one such as /srv/handbook; the node must show it (show_paths)")
		}
	case Git, Web:
		if !auth.AtLeast(role, sourceRole) {
			return fault.New(fault.Denied, "sources that a node connects to need the role %s, and you have %s", sourceRole, role).
				WithCode(fault.PermissionDenied).WithFix("upload the files, or ask somebody who has it")
		}
		u, err := url.Parse(s.URL)
		if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.Fragment != "" || strings.ContainsFunc(s.URL, unicode.IsSpace) {
			return wrong("url", "%.200q is no https address without a user and a fragment", s.URL).WithFix("give one such as https://git.example.com/team/docs.git")
		}
		if key := secretIn(u); key != "" || k.cfg.Redact.Org(v.OrgID).String(s.URL) != s.URL {
			return wrong("url", "it has a secret (%s), which everybody who sees the collection would see", cmp.Or(key, "one that the hub knows")).
				WithFix("leave it out; an administrator adds a repository with a credential, and pages that need one are not read")
		}
		if err := mayName(u, role); err != nil {
			return err
		}
		if s.Kind == Git && u.RawQuery != "" {
			return wrong("url", "the address of a repository has no query").WithFix("leave out what begins with ?")
		}
		if s.Credential != "" {
			// Everybody who may search the collection can read what the credential opens.
			if role != auth.Admin {
				return fault.New(fault.Denied, "sources with a credential are for administrators, and you have the role %s", role).
					WithCode(fault.PermissionDenied).WithFix("ask an administrator to add it")
			}
			if _, err := k.cfg.Credential(ctx, v.OrgID, s.Credential, s.URL); err != nil {
				return err
			}
		}
		if strings.HasPrefix(s.Revision, "-") {
			return wrong("revision", "%q begins with a dash", s.Revision).WithFix("name a branch or a tag")
		}
		if p.Path = path.Clean("/" + p.Path)[1:]; s.Kind == Web && p.Path != "" {
			return wrong("path", "a web page has none").WithFix("leave it out")
		}
	default:
		return wrong("kind", "%q is no kind of source", s.Kind).WithFix("use upload, workspace, node, git or web")
	}
	return nil
}

// secretIn returns the name of a value in an address's query that is a credential; empty for
// none.
func secretIn(u *url.URL) string {
	for part := range strings.FieldsFuncSeq(u.RawQuery, func(r rune) bool { return r == '&' || r == ';' }) {
		raw, _, _ := strings.Cut(part, "=")
		key, err := url.QueryUnescape(raw)
		if err != nil {
			key = raw
		}
		for _, word := range secretKeys {
			if strings.Contains(strings.ToLower(key), word) {
				return key
			}
		}
	}
	return ""
}

// secretKeys are in the names of values that are credentials.
var secretKeys = []string{"token", "secret", "passw", "pwd", "apikey", "api_key", "api-key", "access_key", "accesskey", "signature", "credential", "auth", "session", "jwt"}

// mayRead refuses somebody who may not read the workspace of an agent.
func mayRead(ctx context.Context, q *db.Queries, v visibility.Viewer, agentID string) error {
	yes, err := visibility.Owns(ctx, q, v, agentID)
	if err == nil && !yes {
		err = fault.New(fault.Denied, "the workspace of agent %s is its owners', and holds what all its tasks have left", agentID).
			WithCode(fault.PermissionDenied).WithObject(agentID).WithFix("ask one of them to add it")
	}
	return err
}

// Remove removes a source from a collection, with its documents.
func (k *Knowledge) Remove(ctx context.Context, v visibility.Viewer, ref, sourceID string, by event.Actor) error {
	row, err := k.change(ctx, v, ref)
	if err != nil {
		return err
	}
	c := row.KnowledgeCollection
	return k.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		if err := tx.LockKnowledgeCollection(ctx, db.LockKnowledgeCollectionParams{OrgID: v.OrgID, ID: c.ID}); err != nil {
			return fmt.Errorf("lock collection %s: %w", c.ID, err)
		}
		docs, err := tx.KnowledgeDigests(ctx, db.KnowledgeDigestsParams{OrgID: v.OrgID, SourceID: sourceID})
		if err != nil {
			return fmt.Errorf("list the documents of source %s: %w", sourceID, err)
		}
		ids := make([]string, len(docs))
		for i, d := range docs {
			ids[i] = d.ID
		}
		if err := forget(ctx, tx.Queries, v.OrgID, c.ID, ids); err != nil {
			return err
		}
		n, err := tx.DeleteKnowledgeSource(ctx, db.DeleteKnowledgeSourceParams{OrgID: v.OrgID, CollectionID: c.ID, ID: sourceID})
		if err != nil {
			return fmt.Errorf("delete source %s: %w", sourceID, err)
		}
		if n == 0 {
			return fault.New(fault.NotFound, "collection %s has no source %q", c.Name, sourceID).WithObject(sourceID).
				WithFix("list them with: deckhand knowledge show %s", c.Name)
		}
		return audit.Append(tx, audit.Entry{
			OrgID: v.OrgID, By: by, Action: "collection.source_removed", ObjectKind: Kind, ObjectID: c.ID,
			Before: map[string]any{"source_id": sourceID, "documents": len(docs)},
		})
	})
}

// forget deletes documents of a collection, whose row is locked, with their words.
func forget(ctx context.Context, q *db.Queries, orgID, collectionID string, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	if err := q.UncountKnowledgeWords(ctx, db.UncountKnowledgeWordsParams{CollectionID: collectionID, DocumentIds: ids}); err != nil {
		return fmt.Errorf("take the words of documents away: %w", err)
	}
	if _, err := q.DeleteKnowledgeDocuments(ctx, db.DeleteKnowledgeDocumentsParams{OrgID: orgID, CollectionID: collectionID, Ids: ids}); err != nil {
		return fmt.Errorf("delete documents: %w", err)
	}
	if err := q.ForgetKnowledgeWords(ctx, collectionID); err != nil {
		return fmt.Errorf("delete words that no document has: %w", err)
	}
	if err := q.TouchKnowledgeVectors(ctx, db.TouchKnowledgeVectorsParams{OrgID: orgID, Ids: []string{collectionID}}); err != nil {
		return fmt.Errorf("have hubs forget vectors: %w", err)
	}
	return nil
}
