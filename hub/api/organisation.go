package api

import (
	"cmp"
	"context"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/organisation"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Organisations serves OrganisationService.
type Organisations struct{ Organisations *organisation.Service }

func organisationMessage(row db.ListOrganisationsRow) *deckhandv1.Organisation {
	o := row.Organisation
	limits := &deckhandv1.OrganisationLimits{
		JailCpuMillis: &o.JailCpuMillis, JailMemoryBytes: &o.JailMemoryBytes, JailPids: &o.JailPids, JailWorkspaceBytes: &o.JailWorkspaceBytes,
	}
	if o.UndoWindowSeconds != nil {
		limits.UndoWindow = durationpb.New(time.Duration(*o.UndoWindowSeconds) * time.Second)
	}
	if o.CheckpointSeconds != nil {
		limits.CheckpointTtl = durationpb.New(time.Duration(*o.CheckpointSeconds) * time.Second)
	}
	return &deckhandv1.Organisation{
		Limits: limits, Id: o.ID, Name: o.Name, Users: row.Users, Tasks: row.Tasks, Nodes: row.Nodes, CreatedAt: timestamppb.New(o.CreatedAt),
	}
}

// CreateOrganisation makes one.
func (h *Organisations) CreateOrganisation(ctx context.Context, req *connect.Request[deckhandv1.CreateOrganisationRequest]) (*connect.Response[deckhandv1.CreateOrganisationResponse], error) {
	who := auth.From(ctx)
	made, token, err := h.Organisations.Create(ctx, req.Msg.GetName(), req.Msg.GetAdmin(), who.OrgID, actor(who))
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&deckhandv1.CreateOrganisationResponse{
		Organisation: organisationMessage(db.ListOrganisationsRow{Organisation: made, Users: 1}), Token: token,
	}), nil
}

// ListOrganisations returns a page of all, by name.
func (h *Organisations) ListOrganisations(ctx context.Context, req *connect.Request[deckhandv1.ListOrganisationsRequest]) (*connect.Response[deckhandv1.ListOrganisationsResponse], error) {
	rows, next, err := h.Organisations.List(ctx, req.Msg.GetPageToken(), cmp.Or(req.Msg.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListOrganisationsResponse{NextPageToken: next}
	for _, row := range rows {
		res.Organisations = append(res.Organisations, organisationMessage(row))
	}
	return connect.NewResponse(res), nil
}

// GetTaskSharing returns who sees the tasks of the caller's organisation.
func (h *Organisations) GetTaskSharing(ctx context.Context, _ *connect.Request[deckhandv1.GetTaskSharingRequest]) (*connect.Response[deckhandv1.GetTaskSharingResponse], error) {
	shared, err := h.Organisations.TasksShared(ctx, auth.From(ctx).OrgID)
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&deckhandv1.GetTaskSharingResponse{Shared: shared}), nil
}

// SetTaskSharing says who sees the tasks of the caller's organisation.
func (h *Organisations) SetTaskSharing(ctx context.Context, req *connect.Request[deckhandv1.SetTaskSharingRequest]) (*connect.Response[deckhandv1.SetTaskSharingResponse], error) {
	who := auth.From(ctx)
	if err := h.Organisations.ShareTasks(ctx, who.OrgID, req.Msg.GetShared(), actor(who)); err != nil {
		return nil, err
	}
	return connect.NewResponse(&deckhandv1.SetTaskSharingResponse{Shared: req.Msg.GetShared()}), nil
}

// SetOrganisationLimits sets the limits of an organisation.
func (h *Organisations) SetOrganisationLimits(ctx context.Context, req *connect.Request[deckhandv1.SetOrganisationLimitsRequest]) (*connect.Response[deckhandv1.SetOrganisationLimitsResponse], error) {
	who, m := auth.From(ctx), req.Msg.GetLimits()
	change := organisation.Change{CPUMillis: m.JailCpuMillis, MemoryBytes: m.JailMemoryBytes, PIDs: m.JailPids, WorkspaceBytes: m.JailWorkspaceBytes} //nolint:protogetter // unset is not 0
	if m.GetUndoWindow() != nil {
		window := m.GetUndoWindow().AsDuration()
		change.UndoWindow = &window
	}
	if m.GetCheckpointTtl() != nil {
		ttl := m.GetCheckpointTtl().AsDuration()
		change.CheckpointTTL = &ttl
	}
	if err := h.Organisations.SetLimits(ctx, req.Msg.GetName(), change, who.OrgID, actor(who)); err != nil {
		return nil, err
	}
	row, err := h.Organisations.Get(ctx, req.Msg.GetName())
	if err != nil {
		return nil, err
	}
	return connect.NewResponse(&deckhandv1.SetOrganisationLimitsResponse{Organisation: organisationMessage(row)}), nil
}
