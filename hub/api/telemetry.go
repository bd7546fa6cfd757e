package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/sync/errgroup"

	"github.com/deckhand-sh/deckhand/hub/fleet/node"
	"github.com/deckhand-sh/deckhand/hub/identity/auth"
	"github.com/deckhand-sh/deckhand/hub/identity/visibility"
	"github.com/deckhand-sh/deckhand/hub/storage/store/db"
	"github.com/deckhand-sh/deckhand/hub/work/agent"
	"github.com/deckhand-sh/deckhand/hub/work/task"
	"github.com/deckhand-sh/deckhand/internal/fault"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Telemetry serves NodeTelemetryService.
type Telemetry struct {
	Nodes   *node.Nodes
	Agents  *agent.Service
	Queries *db.Queries
	// Node returns the live link to a node.
	Node func(nodeID string) (nodev1.TelemetryServiceClient, error)
	// Draining ends when the hub is about to stop.
	Draining context.Context
}

// WatchNodeTelemetry streams what a machine and its jails use.
func (h *Telemetry) WatchNodeTelemetry(ctx context.Context, req *deckhandv1.WatchNodeTelemetryRequest, out *connect.ServerStream[deckhandv1.WatchNodeTelemetryResponse]) error {
	ctx, cancel := until(ctx, h.Draining)
	defer cancel()
	org := auth.From(ctx).OrgID
	id, err := h.Nodes.Find(ctx, org, req.GetNodeId())
	if err != nil {
		return err
	}
	client, err := h.Node(id)
	if err != nil {
		return err
	}
	v := viewer(ctx)
	names, err := h.jailNames(ctx, v)
	if err != nil {
		return err
	}
	named := time.Now()
	if req.GetHistory() {
		kept, err := client.GetTelemetry(ctx, &nodev1.GetTelemetryRequest{})
		if err != nil {
			return fault.FromGRPC(err)
		}
		for i, sample := range kept.GetSamples() {
			res := &nodev1.WatchTelemetryResponse{Sample: sample}
			if i == 0 {
				res.Events = kept.GetEvents()
			}
			if err := out.Send(telemetryMessage(res, names, v.All)); err != nil {
				return err
			}
		}
	}
	in, err := client.WatchTelemetry(ctx, &nodev1.WatchTelemetryRequest{})
	if err != nil {
		return fault.FromGRPC(err)
	}
	for {
		res, err := in.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case h.Draining.Err() != nil:
			return fault.New(fault.Unavailable, "the hub is stopping").WithFix("watch again in a moment")
		case err != nil:
			return fault.FromGRPC(err)
		}
		// A task that began since has a jail that has no name yet.
		if time.Since(named) > namesFor && unnamed(res, names) {
			if names, err = h.jailNames(ctx, v); err != nil {
				return err
			}
			named = time.Now()
		}
		if err := out.Send(telemetryMessage(res, names, v.All)); err != nil {
			return err
		}
		if !req.GetFollow() {
			return nil
		}
	}
}

const (
	// maxNames is how many agents' jails are listed by name.
	maxNames = 1000
	// namesFor is how long names are used before unnamed jails are looked up again.
	namesFor = 5 * time.Second
)

// unnamed reports whether a sample has a jail that is not among names.
func unnamed(res *nodev1.WatchTelemetryResponse, names map[string]string) bool {
	return slices.ContainsFunc(res.GetSample().GetJails(), func(u *nodev1.Usage) bool { return names[u.GetJailId()] == "" })
}

// jailNames returns the names of the agents that v sees by their jails, and by those of
// their live tasks.
func (h *Telemetry) jailNames(ctx context.Context, v visibility.Viewer) (map[string]string, error) {
	rows, err := h.Agents.List(ctx, v, agent.Filter{Limit: maxNames})
	if err != nil {
		return nil, fmt.Errorf("list agents: %w", err)
	}
	names, err := h.Agents.TaskJails(ctx, v)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		names[task.AgentJail(row.Agent.ID)] = row.Agent.Name
	}
	return names, nil
}

// telemetryMessage returns what a caller is shown of a sample: of the jails, those that
// have a name, unless all is set.
func telemetryMessage(res *nodev1.WatchTelemetryResponse, names map[string]string, all bool) *deckhandv1.WatchNodeTelemetryResponse {
	sample := res.GetSample()
	m := &deckhandv1.WatchNodeTelemetryResponse{Time: sample.GetTime(), Host: usageMessage(sample.GetHost(), names)}
	hidden := func(jailID string) bool { return !all && jailID != "" && names[jailID] == "" }
	for _, u := range sample.GetJails() {
		if hidden(u.GetJailId()) {
			continue
		}
		m.Jails = append(m.Jails, usageMessage(u, names))
	}
	for _, e := range res.GetEvents() {
		if hidden(e.GetJailId()) {
			continue
		}
		m.Events = append(m.Events, usageEventMessage(e))
	}
	return m
}

func usageMessage(u *nodev1.Usage, names map[string]string) *deckhandv1.NodeUsage {
	if u == nil {
		return nil
	}
	return &deckhandv1.NodeUsage{
		JailId: u.GetJailId(), AgentName: names[u.GetJailId()], CpuMillis: u.CpuMillis, MemoryBytes: u.MemoryBytes,
		MemoryLimitBytes: u.MemoryLimitBytes, Pids: u.Pids, PidsLimit: u.PidsLimit, DiskBytes: u.DiskBytes,
		DiskLimitBytes: u.DiskLimitBytes, OomKills: u.OomKills,
		Load: u.Load, Cpus: u.Cpus,
	}
}

const (
	// mostJails is how many jails of an agent are asked about.
	mostJails = 50
	// telemetryWithin bounds what a node may take to answer.
	telemetryWithin = 5 * time.Second
)

// GetAgentTelemetry returns what the jails of an agent use and have used.
func (h *Telemetry) GetAgentTelemetry(ctx context.Context, req *deckhandv1.GetAgentTelemetryRequest) (*deckhandv1.GetAgentTelemetryResponse, error) {
	v := viewer(ctx)
	id, err := h.Agents.Find(ctx, v, req.GetAgentId())
	if err != nil {
		return nil, err
	}
	row, err := h.Agents.Get(ctx, v.OrgID, id)
	if err != nil {
		return nil, err
	}
	jails, err := h.Queries.AgentJails(ctx, db.AgentJailsParams{
		OrgID: v.OrgID, AgentID: id, OwnJail: task.AgentJail(id), SeesAll: v.All, Viewer: v.Name, MaxRows: mostJails,
	})
	if err != nil {
		return nil, fmt.Errorf("find the jails of agent %s: %w", id, err)
	}
	res := &deckhandv1.GetAgentTelemetryResponse{Jails: make([]*deckhandv1.JailTelemetry, len(jails))}
	var asked errgroup.Group
	asked.SetLimit(8)
	for i, j := range jails {
		asked.Go(func() error {
			out := &deckhandv1.JailTelemetry{JailId: j.JailID, NodeId: j.NodeID, NodeName: j.NodeName, TaskId: j.TaskID}
			res.Jails[i] = out
			kept, err := h.kept(ctx, j, req)
			if err != nil {
				// What gRPC says has addresses of the transport, and no code.
				out.Problem = "the node does not answer"
				if e := fault.As(err); e != nil && e.Code != "" {
					out.Problem = e.Message
				}
				return nil
			}
			names := map[string]string{j.JailID: row.Agent.Name}
			for _, sample := range kept.GetSamples() {
				// One of another jail is from a node of an earlier release, which returns all.
				for _, u := range sample.GetJails() {
					if u.GetJailId() == j.JailID {
						out.Samples = append(out.Samples, &deckhandv1.JailSample{Time: sample.GetTime(), Usage: usageMessage(u, names)})
					}
				}
			}
			for _, e := range kept.GetEvents() {
				if e.GetJailId() == j.JailID {
					out.Events = append(out.Events, usageEventMessage(e))
				}
			}
			return nil
		})
	}
	return res, asked.Wait()
}

// kept returns what the node of a jail has kept of it.
func (h *Telemetry) kept(ctx context.Context, j db.AgentJailsRow, req *deckhandv1.GetAgentTelemetryRequest) (*nodev1.GetTelemetryResponse, error) {
	client, err := h.Node(j.NodeID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, telemetryWithin)
	defer cancel()
	res, err := client.GetTelemetry(ctx, &nodev1.GetTelemetryRequest{JailId: j.JailID, Since: req.GetSince(), Limit: req.GetMaxSamples()})
	return res, fault.FromGRPC(err)
}

func usageEventMessage(e *nodev1.TelemetryEvent) *deckhandv1.NodeUsageEvent {
	return &deckhandv1.NodeUsageEvent{
		Time: e.GetTime(), JailId: e.GetJailId(), Kind: strings.ToLower(strings.TrimPrefix(e.GetKind().String(), "KIND_")),
		Count: e.GetCount(), Resource: e.GetResource(),
	}
}
