package api

import (
	"cmp"
	"context"

	"github.com/deckhand-sh/deckhand/hub/egress/credential"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Credentials serves CredentialService.
type Credentials struct {
	Credentials *credential.Credentials
	Tasks       *task.Service
	Queries     *db.Queries
}

// credentialRequestPage is how many requests with credentials a page has unless the caller
// says otherwise.
const credentialRequestPage = 50

// CreateCredential stores a credential.
func (h *Credentials) CreateCredential(ctx context.Context, req *deckhandv1.CreateCredentialRequest) (*deckhandv1.CreateCredentialResponse, error) {
	who := auth.From(ctx)
	m, err := h.Credentials.Create(ctx, who.OrgID, req, actor(who))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.CreateCredentialResponse{Credential: m}, nil
}

// ListCredentials returns all by name.
func (h *Credentials) ListCredentials(ctx context.Context, req *deckhandv1.ListCredentialsRequest) (*deckhandv1.ListCredentialsResponse, error) {
	all, next, err := h.Credentials.List(ctx, auth.From(ctx).OrgID, req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if err := h.hide(ctx, m); err != nil {
			return nil, err
		}
	}
	return &deckhandv1.ListCredentialsResponse{Credentials: all, NextPageToken: next}, nil
}

// hide leaves out the names of agents that the caller does not see.
func (h *Credentials) hide(ctx context.Context, m *deckhandv1.Credential) (err error) {
	m.Agents, err = visibility.Names(ctx, h.Queries, viewer(ctx), m.GetAgents())
	return err
}

// GetCredential returns one.
func (h *Credentials) GetCredential(ctx context.Context, req *deckhandv1.GetCredentialRequest) (*deckhandv1.GetCredentialResponse, error) {
	m, err := h.Credentials.Get(ctx, auth.From(ctx).OrgID, req.GetName())
	if err == nil {
		err = h.hide(ctx, m)
	}
	if err != nil {
		return nil, err
	}
	return &deckhandv1.GetCredentialResponse{Credential: m}, nil
}

// UpdateCredential replaces what one is for.
func (h *Credentials) UpdateCredential(ctx context.Context, req *deckhandv1.UpdateCredentialRequest) (*deckhandv1.UpdateCredentialResponse, error) {
	who, in := auth.From(ctx), req
	if in.GetUpdateMask() != nil {
		now, err := h.Credentials.Get(ctx, who.OrgID, in.GetName())
		if err != nil {
			return nil, err
		}
		kept := alike(&deckhandv1.UpdateCredentialRequest{}, now)
		if in, err = masked(kept, in, in.GetUpdateMask(), "name", "version", "update_mask"); err != nil {
			return nil, err
		}
		if req.GetVersion() != "" {
			in.Version = req.GetVersion()
		}
		if err := validated(in); err != nil {
			return nil, err
		}
	}
	m, err := h.Credentials.Update(ctx, who.OrgID, in, actor(who))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.UpdateCredentialResponse{Credential: m}, nil
}

// RotateCredential replaces a value.
func (h *Credentials) RotateCredential(ctx context.Context, req *deckhandv1.RotateCredentialRequest) (*deckhandv1.RotateCredentialResponse, error) {
	who := auth.From(ctx)
	m, err := h.Credentials.Rotate(ctx, who.OrgID, req, actor(who))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.RotateCredentialResponse{Credential: m}, nil
}

// DeleteCredential ends one for good.
func (h *Credentials) DeleteCredential(ctx context.Context, req *deckhandv1.DeleteCredentialRequest) (*deckhandv1.DeleteCredentialResponse, error) {
	who := auth.From(ctx)
	if err := h.Credentials.Delete(ctx, who.OrgID, req.GetName(), actor(who)); err != nil {
		return nil, err
	}
	return &deckhandv1.DeleteCredentialResponse{}, nil
}

// TestCredential sends one request with a credential.
func (h *Credentials) TestCredential(ctx context.Context, req *deckhandv1.TestCredentialRequest) (*deckhandv1.TestCredentialResponse, error) {
	who := auth.From(ctx)
	out, err := h.Credentials.Test(ctx, who.OrgID, req.GetName(), req.GetUrl(), actor(who))
	if err != nil {
		return nil, err
	}
	return out, nil
}

// ListCredentialRequests returns the requests of tasks that the caller sees.
func (h *Credentials) ListCredentialRequests(ctx context.Context, req *deckhandv1.ListCredentialRequestsRequest) (*deckhandv1.ListCredentialRequestsResponse, error) {
	ctx, total := withTotal(ctx, req)
	v, taskID := viewer(ctx), ""
	if ref := req.GetTaskId(); ref != "" {
		var err error
		if taskID, err = h.Tasks.Find(ctx, v, ref); err != nil {
			return nil, err
		}
	}
	all, next, err := h.Credentials.Requests(ctx, v, req.GetCredential(), taskID, req.GetPageToken(), cmp.Or(req.GetPageSize(), credentialRequestPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListCredentialRequestsResponse{Requests: all, NextPageToken: next}
	res.Total, err = totalMessage(total, len(all), next)
	return res, err
}
