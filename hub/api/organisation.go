package api

import (
	"cmp"
	"context"
	"time"

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
func (h *Organisations) CreateOrganisation(ctx context.Context, req *deckhandv1.CreateOrganisationRequest) (*deckhandv1.CreateOrganisationResponse, error) {
	who := auth.From(ctx)
	made, token, err := h.Organisations.Create(ctx, req.GetName(), req.GetAdmin(), who.OrgID, actor(who))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.CreateOrganisationResponse{
		Organisation: organisationMessage(db.ListOrganisationsRow{Organisation: made, Users: 1}), Token: token,
	}, nil
}

// ListOrganisations returns a page of all, by name.
func (h *Organisations) ListOrganisations(ctx context.Context, req *deckhandv1.ListOrganisationsRequest) (*deckhandv1.ListOrganisationsResponse, error) {
	rows, next, err := h.Organisations.List(ctx, req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListOrganisationsResponse{NextPageToken: next}
	for _, row := range rows {
		res.Organisations = append(res.Organisations, organisationMessage(row))
	}
	return res, nil
}

// GetTaskSharing returns who sees the tasks of the caller's organisation.
func (h *Organisations) GetTaskSharing(ctx context.Context, _ *deckhandv1.GetTaskSharingRequest) (*deckhandv1.GetTaskSharingResponse, error) {
	shared, err := h.Organisations.TasksShared(ctx, auth.From(ctx).OrgID)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.GetTaskSharingResponse{Shared: shared}, nil
}

// SetTaskSharing says who sees the tasks of the caller's organisation.
func (h *Organisations) SetTaskSharing(ctx context.Context, req *deckhandv1.SetTaskSharingRequest) (*deckhandv1.SetTaskSharingResponse, error) {
	who := auth.From(ctx)
	if err := h.Organisations.ShareTasks(ctx, who.OrgID, req.GetShared(), actor(who)); err != nil {
		return nil, err
	}
	return &deckhandv1.SetTaskSharingResponse{Shared: req.GetShared()}, nil
}

// SetOrganisationLimits sets the limits of an organisation.
func (h *Organisations) SetOrganisationLimits(ctx context.Context, req *deckhandv1.SetOrganisationLimitsRequest) (*deckhandv1.SetOrganisationLimitsResponse, error) {
	who, m := auth.From(ctx), req.GetLimits()
	change := organisation.Change{CPUMillis: m.JailCpuMillis, MemoryBytes: m.JailMemoryBytes, PIDs: m.JailPids, WorkspaceBytes: m.JailWorkspaceBytes} //nolint:protogetter // unset is not 0
	if m.GetUndoWindow() != nil {
		window := m.GetUndoWindow().AsDuration()
		change.UndoWindow = &window
	}
	if m.GetCheckpointTtl() != nil {
		ttl := m.GetCheckpointTtl().AsDuration()
		change.CheckpointTTL = &ttl
	}
	if err := h.Organisations.SetLimits(ctx, req.GetName(), change, who.OrgID, actor(who)); err != nil {
		return nil, err
	}
	row, err := h.Organisations.Get(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	return &deckhandv1.SetOrganisationLimitsResponse{Organisation: organisationMessage(row)}, nil
}
