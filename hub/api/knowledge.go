package api

import (
	"cmp"
	"context"
	"strconv"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/learn/knowledge"
	"github.com/deckhand-sh/deckhand/hub/learn/scope"
	"github.com/deckhand-sh/deckhand/hub/model/inference"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Knowledge serves KnowledgeService.
type Knowledge struct {
	Knowledge *knowledge.Knowledge
}

// searchLimit is how many passages a search returns if its caller does not say.
const searchLimit = 10

func collectionMessage(row db.GetKnowledgeCollectionRow) *deckhandv1.Collection {
	c := row.KnowledgeCollection
	return &deckhandv1.Collection{
		Id: c.ID, Name: c.Name, Description: c.Description, Scope: scope.Scope{Kind: scope.Kind(c.ScopeKind), ID: c.ScopeID}.Proto(),
		CreatedBy: c.CreatedBy, CreatedAt: timestamppb.New(c.CreatedAt), Documents: row.Documents, Passages: row.Passages, Bytes: row.Bytes,
		Skipped: row.Skipped, Writable: row.Writable,
	}
}

func knowledgeSyncMessage(s *db.KnowledgeSync) *deckhandv1.KnowledgeSync {
	if s == nil {
		return nil
	}
	return &deckhandv1.KnowledgeSync{
		Id: s.ID, State: deckhandv1.KnowledgeSyncState(enumValue(deckhandv1.KnowledgeSyncState_value, "KNOWLEDGE_SYNC_STATE_", s.State)),
		Phase: s.Phase, StartedBy: s.StartedBy, StartedAt: timestamppb.New(s.StartedAt), EndedAt: timestamp(s.EndedAt),
		Files: s.Files, Added: s.Added, Changed: s.Changed, Removed: s.Removed, Skipped: s.Skipped, Passages: s.Passages, Error: s.Error,
	}
}

func knowledgeSourceMessage(row db.KnowledgeSourcesRow) *deckhandv1.KnowledgeSource {
	s := row.KnowledgeSource
	return &deckhandv1.KnowledgeSource{
		Id: s.ID, Kind: deckhandv1.KnowledgeSourceKind(enumValue(deckhandv1.KnowledgeSourceKind_value, "KNOWLEDGE_SOURCE_KIND_", s.Kind)),
		AgentId: s.AgentID, AgentName: row.AgentName, NodeId: s.NodeID, NodeName: row.NodeName, Path: s.Path, Url: s.Url, Revision: s.Revision, Credential: s.Credential,
		SyncedAt: timestamp(s.SyncedAt), Error: s.Error, Note: s.Note, Documents: row.Documents,
	}
}

func passageMessage(h knowledge.Hit) *deckhandv1.Passage {
	return &deckhandv1.Passage{
		Id: strconv.FormatInt(h.ID, 10), Text: h.Body, Heading: h.Heading, CollectionId: h.CollectionID, Collection: h.Collection,
		DocumentId: h.DocumentID, Path: h.Path, Title: h.Title, Format: h.Format, FirstLine: h.FirstLine, LastLine: h.LastLine, Page: h.Page,
		Citation: h.Citation(), Score: h.Score, FoundBy: h.FoundBy, IndexedAt: timestamppb.New(h.IndexedAt),
	}
}

// collection returns one as a message, by its id.
func (h *Knowledge) collection(ctx context.Context, id string) (*deckhandv1.Collection, error) {
	row, err := h.Knowledge.Get(ctx, viewer(ctx), id)
	if err != nil {
		return nil, err
	}
	last, err := h.Knowledge.LastSync(ctx, auth.From(ctx).OrgID, id)
	if err != nil {
		return nil, err
	}
	m := collectionMessage(row)
	m.Sync = knowledgeSyncMessage(last)
	return m, nil
}

// CreateCollection creates an empty collection.
func (h *Knowledge) CreateCollection(ctx context.Context, req *deckhandv1.CreateCollectionRequest) (*deckhandv1.CreateCollectionResponse, error) {
	s := scope.Scope{Kind: scope.User}
	if req.GetScope() != nil {
		var err error
		if s, err = scope.FromProto("scope", req.GetScope()); err != nil {
			return nil, err
		}
	}
	id, err := h.Knowledge.Create(ctx, viewer(ctx), s, req.GetName(), req.GetDescription(), actor(auth.From(ctx)))
	if err != nil {
		return nil, err
	}
	m, err := h.collection(ctx, id)
	return &deckhandv1.CreateCollectionResponse{Collection: m}, err
}

// ListCollections returns a page of the collections that the caller sees.
func (h *Knowledge) ListCollections(ctx context.Context, req *deckhandv1.ListCollectionsRequest) (*deckhandv1.ListCollectionsResponse, error) {
	rows, next, err := h.Knowledge.List(ctx, viewer(ctx), req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListCollectionsResponse{NextPageToken: next}
	for _, row := range rows {
		m := collectionMessage(db.GetKnowledgeCollectionRow(row))
		last, err := h.Knowledge.LastSync(ctx, auth.From(ctx).OrgID, m.GetId())
		if err != nil {
			return nil, err
		}
		m.Sync = knowledgeSyncMessage(last)
		res.Collections = append(res.Collections, m)
	}
	return res, nil
}

// GetCollection returns one with its sources.
func (h *Knowledge) GetCollection(ctx context.Context, req *deckhandv1.GetCollectionRequest) (*deckhandv1.GetCollectionResponse, error) {
	id, err := h.Knowledge.Find(ctx, viewer(ctx), req.GetCollectionId())
	if err != nil {
		return nil, err
	}
	m, err := h.collection(ctx, id)
	if err != nil {
		return nil, err
	}
	rows, err := h.Knowledge.Sources(ctx, auth.From(ctx).OrgID, id)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.GetCollectionResponse{Collection: m}
	for _, row := range rows {
		res.Sources = append(res.Sources, knowledgeSourceMessage(row))
	}
	return res, nil
}

// DeleteCollection deletes one.
func (h *Knowledge) DeleteCollection(ctx context.Context, req *deckhandv1.DeleteCollectionRequest) (*deckhandv1.DeleteCollectionResponse, error) {
	return &deckhandv1.DeleteCollectionResponse{}, h.Knowledge.Delete(ctx, viewer(ctx), req.GetCollectionId(), actor(auth.From(ctx)))
}

// source returns one as a message.
func (h *Knowledge) source(ctx context.Context, collectionID, id string) (*deckhandv1.KnowledgeSource, error) {
	rows, err := h.Knowledge.Sources(ctx, auth.From(ctx).OrgID, collectionID)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row.KnowledgeSource.ID == id {
			return knowledgeSourceMessage(row), nil
		}
	}
	return &deckhandv1.KnowledgeSource{Id: id}, nil // it was removed meanwhile
}

// AddSource adds a source.
func (h *Knowledge) AddSource(ctx context.Context, req *deckhandv1.AddSourceRequest) (*deckhandv1.AddSourceResponse, error) {
	who, s := auth.From(ctx), req.GetSource()
	collectionID, id, err := h.Knowledge.Add(ctx, viewer(ctx), req.GetCollectionId(), knowledge.Source{
		Kind: enumWord(s.GetKind(), "KNOWLEDGE_SOURCE_KIND_"), Agent: s.GetAgentId(), Node: s.GetNodeId(), Path: s.GetPath(), URL: s.GetUrl(), Revision: s.GetRevision(), Credential: s.GetCredential(),
	}, who.Role, actor(who))
	if err != nil {
		return nil, err
	}
	m, err := h.source(ctx, collectionID, id)
	return &deckhandv1.AddSourceResponse{Source: m}, err
}

// RemoveSource removes a source.
func (h *Knowledge) RemoveSource(ctx context.Context, req *deckhandv1.RemoveSourceRequest) (*deckhandv1.RemoveSourceResponse, error) {
	return &deckhandv1.RemoveSourceResponse{}, h.Knowledge.Remove(ctx, viewer(ctx), req.GetCollectionId(), req.GetSourceId(), actor(auth.From(ctx)))
}

// UploadDocument stores a file.
func (h *Knowledge) UploadDocument(ctx context.Context, req *deckhandv1.UploadDocumentRequest) (*deckhandv1.UploadDocumentResponse, error) {
	collectionID, id, err := h.Knowledge.Put(ctx, viewer(ctx), req.GetCollectionId(), req.GetPath(), req.GetContent(), actor(auth.From(ctx)))
	if err != nil {
		return nil, err
	}
	m, err := h.source(ctx, collectionID, id)
	return &deckhandv1.UploadDocumentResponse{Source: m}, err
}

// RemoveDocument deletes an uploaded file.
func (h *Knowledge) RemoveDocument(ctx context.Context, req *deckhandv1.RemoveDocumentRequest) (*deckhandv1.RemoveDocumentResponse, error) {
	return &deckhandv1.RemoveDocumentResponse{}, h.Knowledge.RemoveUpload(ctx, viewer(ctx), req.GetCollectionId(), req.GetPath(), actor(auth.From(ctx)))
}

// ListDocuments returns a page of a collection's files.
func (h *Knowledge) ListDocuments(ctx context.Context, req *deckhandv1.ListDocumentsRequest) (*deckhandv1.ListDocumentsResponse, error) {
	ctx, total := withTotal(ctx, req)
	rows, next, err := h.Knowledge.Documents(ctx, viewer(ctx), req.GetCollectionId(), req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListDocumentsResponse{NextPageToken: next}
	for _, d := range rows {
		res.Documents = append(res.Documents, &deckhandv1.KnowledgeDocument{
			Id: d.ID, SourceId: d.SourceID, Path: d.Path, Title: d.Title, Format: d.Format, Digest: d.Digest, Bytes: d.Bytes, Passages: d.Passages,
			Skipped: d.Skipped, IndexedAt: timestamppb.New(d.IndexedAt),
		})
	}
	res.Total, err = totalMessage(total, len(rows), res.GetNextPageToken())
	return res, err
}

// SyncCollection starts a sync.
func (h *Knowledge) SyncCollection(ctx context.Context, req *deckhandv1.SyncCollectionRequest) (*deckhandv1.SyncCollectionResponse, error) {
	s, err := h.Knowledge.Sync(ctx, viewer(ctx), req.GetCollectionId(), actor(auth.From(ctx)))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.SyncCollectionResponse{Sync: knowledgeSyncMessage(&s)}, nil
}

// SearchKnowledge returns the passages that fit a question best.
func (h *Knowledge) SearchKnowledge(ctx context.Context, req *deckhandv1.SearchKnowledgeRequest) (*deckhandv1.SearchKnowledgeResponse, error) {
	found, err := h.Knowledge.Search(ctx, viewer(ctx), knowledge.Query{
		Text: req.GetQuery(), Collections: req.GetCollectionIds(), Limit: int(cmp.Or(req.GetLimit(), searchLimit)),
	})
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.SearchKnowledgeResponse{Collections: int32(found.Collections), Note: found.Note} //nolint:gosec // few
	for _, hit := range found.Hits {
		res.Passages = append(res.Passages, passageMessage(hit))
	}
	return res, nil
}

// GetPassage returns a passage with those around it.
func (h *Knowledge) GetPassage(ctx context.Context, req *deckhandv1.GetPassageRequest) (*deckhandv1.GetPassageResponse, error) {
	one, all, err := h.Knowledge.Passage(ctx, viewer(ctx), req.GetPassageId(), req.GetAround())
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.GetPassageResponse{Passage: passageMessage(one)}
	for _, hit := range all {
		res.Passages = append(res.Passages, passageMessage(hit))
	}
	return res, nil
}

func embeddingMessage(e knowledge.Embedding) *deckhandv1.KnowledgeEmbedding {
	m := &deckhandv1.KnowledgeEmbedding{
		Provider: e.Provider, Model: e.Model, Dimensions: e.Dimensions, Size: e.Size, Passages: e.Passages, Embedded: e.Embedded, Refused: e.Refused,
		Error: e.Error, ChangedBy: e.ChangedBy, InDatabase: e.InDatabase,
	}
	if e.Provider != "" {
		m.ChangedAt = timestamppb.New(e.ChangedAt)
	}
	return m
}

// GetKnowledgeEmbedding returns the model for search by meaning.
func (h *Knowledge) GetKnowledgeEmbedding(ctx context.Context, _ *deckhandv1.GetKnowledgeEmbeddingRequest) (*deckhandv1.GetKnowledgeEmbeddingResponse, error) {
	who := auth.From(ctx)
	e, err := h.Knowledge.Embeddings.Get(ctx, who.OrgID)
	if err != nil {
		return nil, err
	}
	if e.Error != "" && !auth.AtLeast(who.Role, auth.Admin) {
		e.Error = "the model's last call failed: administrators see why" // providers quote texts in errors
	}
	return &deckhandv1.GetKnowledgeEmbeddingResponse{Embedding: embeddingMessage(e)}, nil
}

// SetKnowledgeEmbedding sets it.
func (h *Knowledge) SetKnowledgeEmbedding(ctx context.Context, req *deckhandv1.SetKnowledgeEmbeddingRequest) (*deckhandv1.SetKnowledgeEmbeddingResponse, error) {
	who := auth.From(ctx)
	e, err := h.Knowledge.Embeddings.Set(ctx, inference.Model{OrgID: who.OrgID, Provider: req.GetProvider(), Name: req.GetModel()}, req.GetDimensions(), actor(who))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.SetKnowledgeEmbeddingResponse{Embedding: embeddingMessage(e)}, nil
}
