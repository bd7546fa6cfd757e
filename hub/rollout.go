package hub

import (
	"github.com/deckhand-sh/deckhand/hub/fleet/nodeinstall"
	"github.com/deckhand-sh/deckhand/hub/fleet/rollout"
	"github.com/deckhand-sh/deckhand/hub/maintenance/periodic"
)

// assembleRollouts creates what serves deckhand-node to machines, and what brings a release of
// it to the nodes of a hub.
func assembleRollouts(h *Hub) {
	log := h.cfg.Log.Named("rollout")
	h.installs = nodeinstall.New(h.cfg.NodePrograms)
	h.rollouts = rollout.New(rollout.Config{
		Store: h.store, Recorder: h.recorder, Redact: h.cfg.Redact, Node: h.node, Release: h.installs.Release,
		StaleAfter: nodeStaleIntervals * heartbeatInterval, Log: log,
	})
	h.leader.Add("rollouts", periodic.New(rollout.SweepEvery, log, periodic.Job{Name: "bring a release to the nodes", Do: h.rollouts.Sweep}))
}
