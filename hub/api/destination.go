package api

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/record/notification"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Destinations serves DestinationService.
type Destinations struct {
	Notify *notification.Service
	Agents *agent.Service
}

const notificationPage = 50

func destinationMessage(d db.Destination, counts db.CountNotificationsRow) (*deckhandv1.Destination, error) {
	spec, err := notification.Spec(d)
	return &deckhandv1.Destination{
		Id: d.ID, Name: d.Name, Kind: d.Kind, Spec: spec,
		State:  deckhandv1.DestinationState(enumValue(deckhandv1.DestinationState_value, "DESTINATION_STATE_", d.State)),
		Reason: d.Reason, StateSince: timestamppb.New(d.StateAt), SecretEndsIn: d.Hint, Pending: counts.Pending, Dead: counts.Dead,
		CreatedBy: d.CreatedBy, CreatedAt: timestamppb.New(d.CreatedAt), UpdatedAt: timestamppb.New(d.UpdatedAt),
	}, err
}

// show returns a destination in its current state.
func (h *Destinations) show(ctx context.Context, orgID, id string) (*deckhandv1.Destination, error) {
	row, err := h.Notify.Get(ctx, orgID, id)
	if err != nil {
		return nil, err
	}
	counts, err := h.Notify.Counts(ctx, orgID)
	if err != nil {
		return nil, err
	}
	return destinationMessage(row, counts[id])
}

// change finds a destination, changes it with do and returns it.
func (h *Destinations) change(ctx context.Context, ref string, do func(id string) error) (*deckhandv1.Destination, error) {
	org := auth.From(ctx).OrgID
	id, err := h.Notify.Find(ctx, org, ref)
	if err == nil {
		err = do(id)
	}
	if err != nil {
		return nil, err
	}
	return h.show(ctx, org, id)
}

// named replaces what a request calls its agents by their names.
func (h *Destinations) named(ctx context.Context, spec *deckhandv1.DestinationSpec) error {
	org := auth.From(ctx).OrgID
	for i, ref := range spec.GetAgents() {
		id, err := h.Agents.Find(ctx, viewer(ctx), ref)
		if err != nil {
			return err
		}
		row, err := h.Agents.Get(ctx, org, id)
		if err != nil {
			return err
		}
		spec.Agents[i] = row.Agent.Name
	}
	return nil
}

// CreateDestination makes one.
func (h *Destinations) CreateDestination(ctx context.Context, req *deckhandv1.CreateDestinationRequest) (*deckhandv1.CreateDestinationResponse, error) {
	who := auth.From(ctx)
	if err := h.named(ctx, req.GetSpec()); err != nil {
		return nil, err
	}
	row, secret, err := h.Notify.Create(ctx, notification.Draft{
		OrgID: who.OrgID, Name: req.GetName(), Spec: req.GetSpec(), Secret: req.GetSecret(), Disabled: req.GetDisabled(), By: actor(who),
	})
	if err != nil {
		return nil, err
	}
	m, err := destinationMessage(row, db.CountNotificationsRow{})
	return &deckhandv1.CreateDestinationResponse{Destination: m, Secret: secret}, err
}

// UpdateDestination changes what is sent to one.
func (h *Destinations) UpdateDestination(ctx context.Context, req *deckhandv1.UpdateDestinationRequest) (*deckhandv1.UpdateDestinationResponse, error) {
	who := auth.From(ctx)
	m, err := h.change(ctx, req.GetDestinationId(), func(id string) error {
		spec, mask := req.GetSpec(), req.GetUpdateMask()
		if spec == nil && len(mask.GetPaths()) == 0 {
			return fault.New(fault.Invalid, "spec is missing").WithFix("give it, or name in update_mask what changes")
		}
		if spec != nil {
			if err := h.named(ctx, spec); err != nil {
				return err
			}
		}
		return h.Notify.Change(ctx, who.OrgID, id, func(now *deckhandv1.DestinationSpec) (*deckhandv1.DestinationSpec, error) {
			spec := spec
			if mask != nil {
				var err error
				if spec, err = masked(now, spec, mask); err != nil {
					return nil, err
				}
			}
			return spec, validated(spec)
		}, req.GetSecret(), actor(who))
	})
	return &deckhandv1.UpdateDestinationResponse{Destination: m}, err
}

// GetDestination returns one.
func (h *Destinations) GetDestination(ctx context.Context, req *deckhandv1.GetDestinationRequest) (*deckhandv1.GetDestinationResponse, error) {
	m, err := h.change(ctx, req.GetDestinationId(), func(string) error { return nil })
	return &deckhandv1.GetDestinationResponse{Destination: m}, err
}

// ListDestinations returns all by name.
func (h *Destinations) ListDestinations(ctx context.Context, req *deckhandv1.ListDestinationsRequest) (*deckhandv1.ListDestinationsResponse, error) {
	rows, counts, next, err := h.Notify.List(ctx, auth.From(ctx).OrgID, req.GetPageToken(), cmp.Or(req.GetPageSize(), listPage))
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListDestinationsResponse{NextPageToken: next}
	for _, row := range rows {
		m, err := destinationMessage(row, counts[row.ID])
		if err != nil {
			return nil, err
		}
		res.Destinations = append(res.Destinations, m)
	}
	return res, nil
}

// TestDestination sends a notification at once.
func (h *Destinations) TestDestination(ctx context.Context, req *deckhandv1.TestDestinationRequest) (*deckhandv1.TestDestinationResponse, error) {
	who := auth.From(ctx)
	id, err := h.Notify.Find(ctx, who.OrgID, req.GetDestinationId())
	if err != nil {
		return nil, err
	}
	sent, err := h.Notify.Test(ctx, who.OrgID, id, actor(who))
	if err != nil {
		return nil, err
	}
	m, err := h.notification(ctx, who.OrgID, sent)
	return &deckhandv1.TestDestinationResponse{Notification: m}, err
}

// EnableDestination starts to send notifications to a destination.
func (h *Destinations) EnableDestination(ctx context.Context, req *deckhandv1.EnableDestinationRequest) (*deckhandv1.EnableDestinationResponse, error) {
	who := auth.From(ctx)
	m, err := h.change(ctx, req.GetDestinationId(), func(id string) error { return h.Notify.Enable(ctx, who.OrgID, id, actor(who)) })
	return &deckhandv1.EnableDestinationResponse{Destination: m}, err
}

// DisableDestination stops sending notifications to a destination.
func (h *Destinations) DisableDestination(ctx context.Context, req *deckhandv1.DisableDestinationRequest) (*deckhandv1.DisableDestinationResponse, error) {
	who := auth.From(ctx)
	m, err := h.change(ctx, req.GetDestinationId(), func(id string) error {
		return h.Notify.Disable(ctx, who.OrgID, id, req.GetReason(), actor(who))
	})
	return &deckhandv1.DisableDestinationResponse{Destination: m}, err
}

// RotateDestinationSecret gives a webhook another secret.
func (h *Destinations) RotateDestinationSecret(ctx context.Context, req *deckhandv1.RotateDestinationSecretRequest) (*deckhandv1.RotateDestinationSecretResponse, error) {
	who := auth.From(ctx)
	keep := oldSecretKept
	if d := req.GetKeep(); d != nil {
		keep = d.AsDuration()
	}
	res := &deckhandv1.RotateDestinationSecretResponse{}
	var err error
	res.Destination, err = h.change(ctx, req.GetDestinationId(), func(id string) (err error) {
		res.Secret, err = h.Notify.Rotate(ctx, who.OrgID, id, keep, actor(who))
		return err
	})
	return res, err
}

// DeleteDestination ends one for good.
func (h *Destinations) DeleteDestination(ctx context.Context, req *deckhandv1.DeleteDestinationRequest) (*deckhandv1.DeleteDestinationResponse, error) {
	who := auth.From(ctx)
	id, err := h.Notify.Find(ctx, who.OrgID, req.GetDestinationId())
	if err == nil {
		err = h.Notify.Delete(ctx, who.OrgID, id, actor(who))
	}
	return &deckhandv1.DeleteDestinationResponse{}, err
}

// tries reads how sendings went, as hub/record/notification stores it.
func tries(data json.RawMessage) []*deckhandv1.NotificationTry {
	var stored []struct {
		At     time.Time `json:"at"`
		Status int32     `json:"status"`
		Error  string    `json:"error"`
		Millis int64     `json:"ms"`
	}
	if json.Unmarshal(data, &stored) != nil {
		return nil // the hub alone writes the column
	}
	var out []*deckhandv1.NotificationTry
	for _, t := range stored {
		out = append(out, &deckhandv1.NotificationTry{
			At: timestamppb.New(t.At), Status: t.Status, Error: t.Error, Took: durationpb.New(time.Duration(t.Millis) * time.Millisecond),
		})
	}
	return out
}

func notificationState(word string) deckhandv1.NotificationState {
	return deckhandv1.NotificationState(enumValue(deckhandv1.NotificationState_value, "NOTIFICATION_STATE_", word))
}

// ListNotifications returns notifications.
func (h *Destinations) ListNotifications(ctx context.Context, req *deckhandv1.ListNotificationsRequest) (*deckhandv1.ListNotificationsResponse, error) {
	ctx, total := withTotal(ctx, req)
	org := auth.From(ctx).OrgID
	f := notification.Filter{PageSize: req.GetPageSize(), PageToken: req.GetPageToken()}
	if f.PageSize == 0 {
		f.PageSize = notificationPage
	}
	for _, state := range req.GetStates() {
		f.States = append(f.States, enumWord(state, "NOTIFICATION_STATE_"))
	}
	var err error
	if ref := req.GetDestinationId(); ref != "" {
		if f.DestinationID, err = h.Notify.Find(ctx, org, ref); err != nil {
			return nil, err
		}
	}
	rows, next, err := h.Notify.Notifications(ctx, org, f)
	if err != nil {
		return nil, err
	}
	res := &deckhandv1.ListNotificationsResponse{NextPageToken: next}
	for _, n := range rows {
		res.Notifications = append(res.Notifications, &deckhandv1.Notification{
			Id: n.ID, DestinationId: n.DestinationID, DestinationName: n.DestinationName, Type: n.Type, TaskId: n.TaskID, State: notificationState(n.State),
			Attempts: n.Attempts, Tries: tries(n.Tries), Error: n.Error, CreatedAt: timestamppb.New(n.CreatedAt), NextAt: timestamppb.New(n.NextAt),
			ExpiresAt: timestamppb.New(n.ExpiresAt), HandledAt: timestamp(n.HandledAt),
		})
	}
	res.Total, err = totalMessage(total, len(rows), res.GetNextPageToken())
	return res, err
}

// notification returns a notification with its content.
func (h *Destinations) notification(ctx context.Context, orgID, id string) (*deckhandv1.Notification, error) {
	row, err := h.Notify.Notification(ctx, orgID, id)
	if err != nil {
		return nil, err
	}
	n := row.Notification
	return &deckhandv1.Notification{
		Id: n.ID, DestinationId: n.DestinationID, DestinationName: row.DestinationName, Type: n.Type, TaskId: n.TaskID, State: notificationState(n.State),
		Attempts: n.Attempts, Tries: tries(n.Tries), Error: n.Error, CreatedAt: timestamppb.New(n.CreatedAt), NextAt: timestamppb.New(n.NextAt),
		ExpiresAt: timestamppb.New(n.ExpiresAt), HandledAt: timestamp(n.HandledAt), Event: object(n.Body),
	}, nil
}

// GetNotification returns one.
func (h *Destinations) GetNotification(ctx context.Context, req *deckhandv1.GetNotificationRequest) (*deckhandv1.GetNotificationResponse, error) {
	org := auth.From(ctx).OrgID
	id, err := h.Notify.FindNotification(ctx, org, req.GetNotificationId())
	if err != nil {
		return nil, err
	}
	m, err := h.notification(ctx, org, id)
	return &deckhandv1.GetNotificationResponse{Notification: m}, err
}

// RedriveNotifications has dead notifications sent again.
func (h *Destinations) RedriveNotifications(ctx context.Context, req *deckhandv1.RedriveNotificationsRequest) (*deckhandv1.RedriveNotificationsResponse, error) {
	who := auth.From(ctx)
	var notification, destination string
	var err error
	if ref := req.GetNotificationId(); ref != "" {
		notification, err = h.Notify.FindNotification(ctx, who.OrgID, ref)
	} else {
		destination, err = h.Notify.Find(ctx, who.OrgID, req.GetDestinationId())
	}
	if err != nil {
		return nil, err
	}
	n, err := h.Notify.Redrive(ctx, who.OrgID, notification, destination, actor(who))
	return &deckhandv1.RedriveNotificationsResponse{Redriven: n}, err
}
