package step

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/hub/fleet/image"
	"github.com/deckhand-sh/deckhand/hub/fleet/machine"
	"github.com/deckhand-sh/deckhand/hub/record/event"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/lease"
	"github.com/deckhand-sh/deckhand/hub/work/setup"
	"github.com/deckhand-sh/deckhand/internal/devcontainer"
	"github.com/deckhand-sh/deckhand/internal/eventkind"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/imageref"
	"github.com/deckhand-sh/deckhand/internal/nodelink"
	"github.com/deckhand-sh/deckhand/internal/persona"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// pullEvery is how often the history of a task gets the progress of a pull.
const pullEvery = 5 * time.Second

// imageOf returns the rootfs of a task's jail and, for an image, its pinned reference.
// Until the first attempt has resolved the image, that is the persona's reference, which
// a node refuses if it names no digest.
func imageOf(t db.Task, wanted string) (rootfs, reference string, err error) {
	switch wanted {
	case "":
		return nodelink.RootHost, "", nil
	case persona.DevcontainerImage:
		return nodelink.RootImage, "", fault.New(fault.Precondition, "the image of the jail is not known yet: devcontainer.json was not read").WithCode(fault.ImageUnavailable).
			WithFix("run a task of the agent, which reads it")
	case t.Image:
		reference, err = imageref.Pin(t.Image, t.ImageDigest)
		return nodelink.RootImage, reference, err
	}
	return nodelink.RootImage, wanted, nil
}

// pullImage brings the image of a task's jail to its node, and pins its digest if this is
// the first attempt that does. dev is what the workspace's devcontainer.json says, if the persona
// asks for it. It returns the task as it is then. check returns an error once the lease has ended.
func (s *Steps) pullImage(ctx context.Context, orgID string, le lease.Lease, t db.Task, p *persona.Persona, dev devcontainer.Config, node machine.Link, check func(context.Context) error) (db.Task, error) {
	if p.Jail.Image == "" {
		return t, nil
	}
	row, err := s.cfg.Store.NodeByID(ctx, *t.NodeID)
	if err != nil {
		return t, fmt.Errorf("load node %s: %w", *t.NodeID, err)
	}
	if err := image.RequireFor(row, p.Jail); err != nil {
		return t, err
	}
	want := image.Wanted{Name: cmp.Or(dev.Image, p.Jail.Image), Jail: p.Jail, Found: dev.Image != ""}
	known := t.Image == want.Name
	if known {
		if _, want.Pinned, err = imageOf(t, want.Name); err != nil {
			return t, err
		}
	}
	began, pulled := time.Now(), &pullReport{s: s, orgID: orgID, le: le, image: want.Name, node: row.Name}
	have, err := s.cfg.Images.Pull(ctx, orgID, node, want, func(progress *nodev1.PullImageResponse_Progress) { pulled.tell(ctx, progress) })
	if err != nil {
		return t, fmt.Errorf("bring image %s to node %s: %w", want.Name, row.Name, err)
	}
	_, digest, _ := strings.Cut(have.GetReference(), "@")
	if have.GetSetup() != p.Jail.SetupDigest() {
		if err := s.cfg.Setups.Ensure(ctx, setup.Want{
			OrgID: orgID, AgentID: t.AgentID, Node: row, Link: node, Image: have.GetReference(), Jail: p.Jail, WorkspaceBytes: p.Workspace.SizeBytes, Check: check,
		}, func(at setup.Progress) { pulled.setup(ctx, at) }); err != nil {
			return t, err
		}
	}
	if known && pulled.told.IsZero() {
		return t, nil
	}
	pinned := []byte("{}")
	if dev.Image != "" {
		if pinned, err = json.Marshal(dev); err != nil {
			return t, fmt.Errorf("encode the devcontainer of %s: %w", t.ID, err)
		}
	}
	err = s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		locked, err := lease.LockTask(ctx, tx, orgID, le)
		if err != nil {
			return err
		}
		if t, err = tx.PinTaskImage(ctx, db.PinTaskImageParams{OrgID: orgID, ID: locked.ID, Image: want.Name, ImageDigest: digest, Devcontainer: pinned}); err != nil {
			return fmt.Errorf("pin the image of %s: %w", locked.ID, err)
		}
		return tx.Append(orgID, t.ID, event.Hub, event.Draft{Type: eventkind.ImageReady, Payload: map[string]any{
			"image": want.Name, "reference": have.GetReference(), "node": row.Name, "platform": have.GetPlatform(),
			"bytes": have.GetBytes(), "layers": have.GetLayers(), "pulled": pulled.phase != 0, "setup": p.Jail.SetupDigest(), "seconds": time.Since(began).Seconds(),
		}})
	})
	return t, err
}

// VerifiedJail is Jail for a command of a person, which may create the jail outside of an
// attempt. It returns an error if the jail's image is not signed as the organisation
// requires now.
func (s *Steps) VerifiedJail(ctx context.Context, t db.Task) (*nodev1.JailSpec, error) {
	p, err := s.persona(ctx, t)
	if err != nil {
		return nil, err
	}
	jail, err := s.jailOf(ctx, t, p)
	if err != nil || jail.GetImage() == "" {
		return jail, err
	}
	if err := s.cfg.Images.AllowRoot(ctx, t.OrgID, p.Jail); err != nil {
		return nil, err
	}
	return jail, s.cfg.Images.RequireVerified(ctx, t.OrgID, jail.GetImage())
}

// pullReport writes into a task's history how far its image is.
type pullReport struct {
	s           *Steps
	orgID       string
	le          lease.Lease
	image, node string

	told  time.Time                      // zero until there was something to tell
	phase nodev1.PullImageResponse_Phase // 0 until something was downloaded
	line  int                            // of the setup; 0 before it
}

// setup appends an event when a setup comes to another command.
func (r *pullReport) setup(ctx context.Context, at setup.Progress) {
	if at.Line == r.line {
		return
	}
	r.told, r.line = time.Now(), at.Line
	r.append(ctx, eventkind.ImageSetup, map[string]any{
		"image": r.image, "node": r.node, "line": at.Line, "lines": at.Lines,
		"command": r.s.cfg.Redact.Org(r.orgID).String(at.Command), "exec_id": at.ExecID,
	})
}

// tell appends an event, unless the last one is of the same phase and less than pullEvery
// ago, or nothing is downloaded yet. If it cannot be stored, the pull continues.
func (r *pullReport) tell(ctx context.Context, p *nodev1.PullImageResponse_Progress) {
	if p.GetPhase() == nodev1.PullImageResponse_PHASE_RESOLVING || p.GetPhase() == r.phase && time.Since(r.told) < pullEvery {
		return
	}
	r.told, r.phase = time.Now(), p.GetPhase()
	r.append(ctx, eventkind.ImagePulling, map[string]any{
		"image": r.image, "reference": p.GetReference(), "node": r.node, "phase": image.PhaseOf(p),
		"layers": p.GetLayers(), "layers_done": p.GetLayersDone(), "bytes": p.GetBytes(), "bytes_done": p.GetBytesDone(),
	})
}

func (r *pullReport) append(ctx context.Context, kind eventkind.Kind, payload map[string]any) {
	err := r.s.cfg.Recorder.Tx(ctx, func(tx *event.Tx) error {
		t, err := lease.LockTask(ctx, tx, r.orgID, r.le)
		if err != nil {
			return err
		}
		return tx.Append(r.orgID, t.ID, event.Hub, event.Draft{Type: kind, Payload: payload})
	})
	if err != nil {
		r.s.cfg.Log.Warn("cannot record how far a jail's image is", "task_id", r.le.TaskID, "error", err)
	}
}

// pruned returns an Unavailable error in place of the one that a jail's image is not on the
// node: the image was deleted after it was pulled, and the next try pulls it again.
func pruned(jail *nodev1.JailSpec, err error) error {
	e := fault.As(err)
	if e == nil || e.Code != fault.ImageUnavailable || e.Kind != fault.Precondition || e.ObjectID != jail.GetImage() {
		return err
	}
	return fault.New(fault.Unavailable, "image %s was deleted from the node while the task started", e.ObjectID).WithCode(fault.ImageUnavailable).WithCause(err)
}
