package api

import (
	"cmp"
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/record/notification"
	"github.com/deckhand-sh/deckhand/hub/storage/store"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Push serves PushService.
type Push struct {
	Notify *notification.Service
	// Key is the public key of VAPID.
	Key string
}

func deviceMessage(row db.Destination) (*deckhandv1.PushDevice, error) {
	spec, err := notification.Spec(row)
	if err != nil {
		return nil, err
	}
	return &deckhandv1.PushDevice{
		Id: row.ID, Name: spec.GetPush().GetName(), Events: spec.GetEvents(), PushService: spec.GetPush().GetPushService(), CreatedAt: timestamppb.New(row.CreatedAt),
	}, nil
}

// GetPushKey returns the key that devices subscribe with.
func (h *Push) GetPushKey(context.Context, *deckhandv1.GetPushKeyRequest) (*deckhandv1.GetPushKeyResponse, error) {
	return &deckhandv1.GetPushKeyResponse{PublicKey: h.Key}, nil
}

// CreatePushDevice adds a device of the caller. It gets what its user may see, for as long as
// it is there: more, and for longer, than a token with a scope.
func (h *Push) CreatePushDevice(ctx context.Context, req *deckhandv1.CreatePushDeviceRequest) (*deckhandv1.CreatePushDeviceResponse, error) {
	id, m := auth.From(ctx), req
	if !id.Scope.All() {
		return nil, fault.New(fault.Denied, "a token with a scope, or a login with one, adds no device").WithCode(fault.PermissionDenied).
			WithFix("log in with a password, a passkey or a token without a scope")
	}
	row, err := h.Notify.CreateDevice(ctx, notification.Device{
		OrgID: id.OrgID, UserID: id.UserID, Name: m.GetName(), Events: m.GetEvents(), Endpoint: m.GetEndpoint(), P256dh: m.GetP256Dh(), Auth: m.GetAuth(), By: actor(id),
	})
	if err != nil {
		return nil, err
	}
	device, err := deviceMessage(row)
	return &deckhandv1.CreatePushDeviceResponse{Device: device}, err
}

// ListPushDevices returns the caller's devices.
func (h *Push) ListPushDevices(ctx context.Context, req *deckhandv1.ListPushDevicesRequest) (*deckhandv1.ListPushDevicesResponse, error) {
	id := auth.From(ctx)
	rows, err := h.Notify.Devices(ctx, id.OrgID, id.UserID)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListPushDevicesResponse{}
	rows, res.NextPageToken, err = store.PageOf(rows, cmp.Or(req.GetPageSize(), listPage), req.GetPageToken(), func(row db.Destination) string {
		return timeKey(row.CreatedAt, row.ID)
	})
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		device, err := deviceMessage(row)
		if err != nil {
			return nil, err
		}
		res.Devices = append(res.Devices, device)
	}
	return res, nil
}

// UpdatePushDevice changes a device of the caller.
func (h *Push) UpdatePushDevice(ctx context.Context, req *deckhandv1.UpdatePushDeviceRequest) (*deckhandv1.UpdatePushDeviceResponse, error) {
	id := auth.From(ctx)
	row, err := h.Notify.ChangeDevice(ctx, id.OrgID, id.UserID, req.GetDeviceId(), func(row db.Destination) (string, []string, error) {
		m := req
		if m.GetUpdateMask() != nil {
			now, err := deviceMessage(row)
			if err != nil {
				return "", nil, err
			}
			kept := &deckhandv1.UpdatePushDeviceRequest{DeviceId: m.GetDeviceId(), Name: now.GetName(), Events: now.GetEvents()}
			if m, err = masked(kept, m, m.GetUpdateMask(), "device_id", "update_mask"); err != nil {
				return "", nil, err
			}
		}
		if m.GetName() == "" {
			return "", nil, fault.New(fault.Invalid, "name is empty").WithFix("give the device a name")
		}
		return m.GetName(), m.GetEvents(), nil
	}, actor(id))
	if err != nil {
		return nil, err
	}
	device, err := deviceMessage(row)
	return &deckhandv1.UpdatePushDeviceResponse{Device: device}, err
}

// DeletePushDevice removes a device of the caller.
func (h *Push) DeletePushDevice(ctx context.Context, req *deckhandv1.DeletePushDeviceRequest) (*deckhandv1.DeletePushDeviceResponse, error) {
	id := auth.From(ctx)
	if err := h.Notify.DeleteDevice(ctx, id.OrgID, id.UserID, req.GetDeviceId(), actor(id)); err != nil {
		return nil, err
	}
	return &deckhandv1.DeletePushDeviceResponse{}, nil
}

// TestPushDevice sends a notification to a device of the caller.
func (h *Push) TestPushDevice(ctx context.Context, req *deckhandv1.TestPushDeviceRequest) (*deckhandv1.TestPushDeviceResponse, error) {
	id := auth.From(ctx)
	refused, err := h.Notify.TestDevice(ctx, id.OrgID, id.UserID, req.GetDeviceId(), actor(id))
	if err != nil {
		return nil, err
	}
	return &deckhandv1.TestPushDeviceResponse{Accepted: refused == "", Error: refused}, nil
}
