package api

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/user"
	"github.com/deckhand-sh/deckhand/hub/learn/memory"
	"github.com/deckhand-sh/deckhand/hub/learn/scope"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Memories serves MemoryService.
type Memories struct {
	Memories *memory.Memories
	Store    *store.Store
	Users    *user.Users
	Agents   *agent.Service
	Tasks    *task.Service
}

// recalled is how many entries RecallMemories returns by default.
const recalled = 10

var memoryTypes = []struct {
	name  memory.Type
	proto deckhandv1.MemoryType
}{
	{memory.Preference, deckhandv1.MemoryType_MEMORY_TYPE_PREFERENCE}, {memory.Fact, deckhandv1.MemoryType_MEMORY_TYPE_FACT},
	{memory.Instruction, deckhandv1.MemoryType_MEMORY_TYPE_INSTRUCTION}, {memory.Selector, deckhandv1.MemoryType_MEMORY_TYPE_SELECTOR},
	{memory.Workflow, deckhandv1.MemoryType_MEMORY_TYPE_WORKFLOW}, {memory.Statistic, deckhandv1.MemoryType_MEMORY_TYPE_STATISTIC},
}

func memoryType(t deckhandv1.MemoryType) memory.Type {
	for _, one := range memoryTypes {
		if one.proto == t {
			return one.name
		}
	}
	return ""
}

func memoryTypeNames(types []deckhandv1.MemoryType) []string {
	out := make([]string, len(types))
	for i, t := range types {
		out[i] = string(memoryType(t))
	}
	return out
}

func memoryTypeMessage(name string) deckhandv1.MemoryType {
	for _, one := range memoryTypes {
		if string(one.name) == name {
			return one.proto
		}
	}
	return deckhandv1.MemoryType_MEMORY_TYPE_UNSPECIFIED
}

var memorySources = map[string]deckhandv1.MemorySourceKind{
	memory.ByPerson: deckhandv1.MemorySourceKind_MEMORY_SOURCE_KIND_PERSON,
	memory.ByAgent:  deckhandv1.MemorySourceKind_MEMORY_SOURCE_KIND_AGENT,
	memory.ByImport: deckhandv1.MemorySourceKind_MEMORY_SOURCE_KIND_IMPORT,
}

func jsonValue(data json.RawMessage) *structpb.Value {
	out := &structpb.Value{}
	if out.UnmarshalJSON(data) != nil {
		return structpb.NewNullValue() // the database holds JSON only
	}
	return out
}

func memoryMessage(row memory.Entry) *deckhandv1.Memory {
	m := row.Memory
	return &deckhandv1.Memory{
		Id: m.ID, Scope: scope.Scope{Kind: scope.Kind(m.ScopeKind), ID: m.ScopeID}.Proto(), ScopeName: row.ScopeName,
		Type: memoryTypeMessage(m.Type), Key: m.Key, Value: jsonValue(m.Value),
		Source: &deckhandv1.MemorySource{
			Kind: memorySources[m.Source], User: m.SourceUser, AgentId: m.SourceAgent, AgentName: row.AgentName, TaskId: m.SourceTask, StepId: m.SourceStep,
		},
		Confidence: m.Confidence, ExpiresAt: timestamp(m.ExpiresAt), CreatedAt: timestamppb.New(m.CreatedAt), UpdatedAt: timestamppb.New(m.UpdatedAt),
		UsedAt: timestamp(m.UsedAt), Uses: m.Uses, Version: m.Version, Untrusted: m.Untrusted, ConfirmedBy: m.ConfirmedBy,
		OnlyFor: row.OnlyForName, DeletedAt: timestamp(m.DeletedAt), Writable: row.Writable,
	}
}

func memoryMessages(rows []memory.Entry) []*deckhandv1.Memory {
	out := make([]*deckhandv1.Memory, len(rows))
	for i, row := range rows {
		out[i] = memoryMessage(row)
	}
	return out
}

// SetMemory stores an entry.
func (h *Memories) SetMemory(ctx context.Context, req *deckhandv1.SetMemoryRequest) (*deckhandv1.SetMemoryResponse, error) {
	s, err := scope.FromProto("scope", req.GetScope())
	if err != nil {
		return nil, err
	}
	d := memory.Draft{
		Scope: s, Type: memoryType(req.GetType()), Key: req.GetKey(), Value: req.GetValue().AsInterface(), Confidence: 1,
		ExpectedVersion: req.GetExpectedVersion(),
	}
	if req.Confidence != nil {
		d.Confidence = req.GetConfidence()
	}
	if ttl := req.GetTtl(); ttl != nil {
		at := time.Now().Add(ttl.AsDuration())
		d.ExpiresAt = &at
	}
	row, err := h.Memories.Set(ctx, viewer(ctx), auth.From(ctx).Role, d, actor(auth.From(ctx)))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.SetMemoryResponse{Memory: memoryMessage(row)}, nil
}

// GetMemory returns an entry.
func (h *Memories) GetMemory(ctx context.Context, req *deckhandv1.GetMemoryRequest) (*deckhandv1.GetMemoryResponse, error) {
	id, err := h.Memories.Find(ctx, viewer(ctx), req.GetMemoryId())
	if err != nil {
		return nil, err
	}
	row, err := h.Memories.Get(ctx, viewer(ctx), id)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.GetMemoryResponse{Memory: memoryMessage(row)}, nil
}

// ListMemories returns a page of entries.
func (h *Memories) ListMemories(ctx context.Context, req *deckhandv1.ListMemoriesRequest) (*deckhandv1.ListMemoriesResponse, error) {
	ctx, total := withTotal(ctx, req)
	f := memory.Filter{
		Types: memoryTypeNames(req.GetTypes()), Query: req.GetQuery(), Unconfirmed: req.GetUnconfirmed(), Deleted: req.GetDeleted(),
		PageToken: req.GetPageToken(), PageSize: cmp.Or(req.GetPageSize(), listPage),
	}
	if req.GetScope() != nil {
		s, err := scope.FromProto("scope", req.GetScope())
		if err != nil {
			return nil, err
		}
		f.Scope = &s
	}
	for name, kind := range memorySources {
		if kind == req.GetSource() {
			f.Source = name
		}
	}
	rows, next, err := h.Memories.List(ctx, viewer(ctx), f)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListMemoriesResponse{Memories: memoryMessages(rows), NextPageToken: next}
	res.Total, err = totalMessage(total, len(rows), next)
	return res, err
}

// RecallMemories returns the entries that fit a text best.
func (h *Memories) RecallMemories(ctx context.Context, req *deckhandv1.RecallMemoriesRequest) (*deckhandv1.RecallMemoriesResponse, error) {
	r := scope.Run{Viewer: viewer(ctx)}
	if ref := req.GetAgentId(); ref != "" {
		id, err := h.Agents.Find(ctx, viewer(ctx), ref)
		if err != nil {
			return nil, err
		}
		r.AgentID, r.WorkspaceID = id, task.AgentJail(id)
	}
	hits, err := h.Memories.Recall(ctx, h.Store.Queries, r, memory.Question{
		Text: req.GetText(), Types: memoryTypeNames(req.GetTypes()), Limit: int(cmp.Or(req.GetLimit(), recalled)), Untrusted: true,
	})
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(hits))
	for i, hit := range hits {
		ids[i] = hit.ID
	}
	rows, err := h.Memories.Entries(ctx, viewer(ctx), ids)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.RecallMemoriesResponse{}
	for _, row := range rows {
		i := slices.IndexFunc(hits, func(hit memory.Hit) bool { return hit.ID == row.Memory.ID })
		res.Hits = append(res.Hits, &deckhandv1.RecallMemoriesResponse_Hit{Memory: memoryMessage(row), Score: hits[i].Score})
	}
	return res, nil
}

// ListMemoryVersions returns a page of an entry's versions.
func (h *Memories) ListMemoryVersions(ctx context.Context, req *deckhandv1.ListMemoryVersionsRequest) (*deckhandv1.ListMemoryVersionsResponse, error) {
	rows, next, err := h.Memories.Versions(ctx, viewer(ctx), req.GetMemoryId(), req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListMemoryVersionsResponse{NextPageToken: next}
	for _, v := range rows {
		res.Versions = append(res.Versions, &deckhandv1.MemoryVersion{
			Version: v.Version, Value: jsonValue(v.Value), Confidence: v.Confidence, Untrusted: v.Untrusted, CreatedAt: timestamppb.New(v.CreatedAt),
			Source: &deckhandv1.MemorySource{
				Kind: memorySources[v.Source], User: v.SourceUser, AgentId: v.SourceAgent, AgentName: v.AgentName, TaskId: v.SourceTask, StepId: v.SourceStep,
			},
		})
	}
	return res, nil
}

// DeleteMemories deletes entries.
func (h *Memories) DeleteMemories(ctx context.Context, req *deckhandv1.DeleteMemoriesRequest) (*deckhandv1.DeleteMemoriesResponse, error) {
	ids, err := h.Memories.Delete(ctx, viewer(ctx), req.GetMemoryIds(), actor(auth.From(ctx)))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.DeleteMemoriesResponse{MemoryIds: ids}, nil
}

// RestoreMemories restores deleted entries, or a version.
func (h *Memories) RestoreMemories(ctx context.Context, req *deckhandv1.RestoreMemoriesRequest) (*deckhandv1.RestoreMemoriesResponse, error) {
	rows, err := h.Memories.Restore(ctx, viewer(ctx), auth.From(ctx).Role, req.GetMemoryIds(), req.GetVersion(), actor(auth.From(ctx)))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.RestoreMemoriesResponse{Memories: memoryMessages(rows)}, nil
}

// ConfirmMemories has the caller answer for what agents wrote.
func (h *Memories) ConfirmMemories(ctx context.Context, req *deckhandv1.ConfirmMemoriesRequest) (*deckhandv1.ConfirmMemoriesResponse, error) {
	rows, err := h.Memories.Confirm(ctx, viewer(ctx), auth.From(ctx).Role, req.GetMemoryIds(), req.GetVersions(), req.GetShare(), actor(auth.From(ctx)))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.ConfirmMemoriesResponse{Memories: memoryMessages(rows)}, nil
}

// ImportMemories stores entries of an export.
func (h *Memories) ImportMemories(ctx context.Context, req *deckhandv1.ImportMemoriesRequest) (*deckhandv1.ImportMemoriesResponse, error) {
	s, err := scope.FromProto("scope", req.GetScope())
	if err != nil {
		return nil, err
	}
	var drafts []memory.Draft
	for _, e := range req.GetEntries() {
		d := memory.Draft{
			Type: memoryType(e.GetType()), Key: e.GetKey(), Value: e.GetValue().AsInterface(), Confidence: e.GetConfidence(), Untrusted: e.GetUntrusted(),
		}
		if e.GetExpiresAt() != nil {
			at := e.GetExpiresAt().AsTime()
			d.ExpiresAt = &at
		}
		drafts = append(drafts, d)
	}
	on := map[deckhandv1.MemoryConflict]memory.OnConflict{
		deckhandv1.MemoryConflict_MEMORY_CONFLICT_KEEP: memory.Keep, deckhandv1.MemoryConflict_MEMORY_CONFLICT_REPLACE: memory.Replace,
	}[req.GetOnConflict()]
	results, stored, err := h.Memories.Import(ctx, viewer(ctx), auth.From(ctx).Role, s, drafts, on, req.GetDryRun(), actor(auth.From(ctx)))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ImportMemoriesResponse{Stored: stored}
	for _, one := range results {
		res.Results = append(res.Results, &deckhandv1.ImportMemoriesResponse_Result{
			Type: memoryTypeMessage(string(one.Type)), Key: one.Key, Outcome: one.Outcome, Reason: one.Reason,
		})
	}
	return res, nil
}

// PurgeMemories deletes everything of a user's memory.
func (h *Memories) PurgeMemories(ctx context.Context, req *deckhandv1.PurgeMemoriesRequest) (*deckhandv1.PurgeMemoriesResponse, error) {
	who := auth.From(ctx)
	id, name := who.UserID, who.UserName
	if ref := req.GetUserId(); ref != "" {
		var err error
		if id, err = h.Users.Find(ctx, who.OrgID, ref); err != nil {
			return nil, err
		}
		row, err := h.Users.Get(ctx, who.OrgID, id)
		if err != nil {
			return nil, err
		}
		name = row.User.Name
	}
	if id != who.UserID && !viewer(ctx).All {
		return nil, fault.New(fault.Denied, "only administrators purge the memory of others").WithCode(fault.PermissionDenied).
			WithFix("leave the user out to purge your own, or ask an administrator").WithObject(id)
	}
	n, err := h.Memories.Purge(ctx, who.OrgID, id, name, actor(who))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.PurgeMemoriesResponse{Memories: n.Memories, Versions: n.Versions, Steps: n.Steps, Verdicts: n.Verdicts}, nil
}

// ListTaskMemories returns what a task's run was told.
func (h *Memories) ListTaskMemories(ctx context.Context, req *deckhandv1.ListTaskMemoriesRequest) (*deckhandv1.ListTaskMemoriesResponse, error) {
	id, err := h.Tasks.Find(ctx, viewer(ctx), req.GetTaskId())
	if err != nil {
		return nil, err
	}
	told, err := h.Memories.OfTask(ctx, auth.From(ctx).OrgID, id, true)
	if err != nil {
		return nil, err
	}
	ids := make([]string, len(told))
	for i, t := range told {
		ids[i] = t.ID
	}
	rows, err := h.Memories.Entries(ctx, viewer(ctx), ids)
	if err != nil {
		return nil, err
	}
	seen := map[string]memory.Entry{}
	for _, row := range rows {
		seen[row.Memory.ID] = row
	}
	res := &deckhandv1.ListTaskMemoriesResponse{}
	place := map[string]string{} // in the order in which the run was told
	shown := slices.DeleteFunc(told, func(t memory.Told) bool { return seen[t.ID].Memory.ID == "" })
	res.Hidden = int32(len(ids) - len(shown))
	for i, t := range shown {
		place[t.ID] = fmt.Sprintf("%06d", i)
	}
	shown, res.NextPageToken, err = store.PageOf(shown, cmp.Or(req.GetPageSize(), listPage), req.GetPageToken(), func(t memory.Told) string { return place[t.ID] })
	if err != nil {
		return nil, err
	}
	for _, t := range shown {
		row := seen[t.ID]
		res.Memories = append(res.Memories, &deckhandv1.KnownMemory{
			Memory: memoryMessage(row), Version: t.Version, Value: jsonValue(t.Value), Standing: t.Standing,
		})
	}
	return res, nil
}
