package mcpserver

import (
	"context"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// page selects a page of a list.
type page struct {
	PageSize  int32  `json:"page_size,omitempty" jsonschema:"at most this many, 1 to 100; 20 by default"`
	PageToken string `json:"page_token,omitempty" jsonschema:"next_page_token of the page before"`
}

func (p page) size() int32 {
	if p.PageSize <= 0 {
		return 20
	}
	return min(p.PageSize, 100)
}

type agent struct {
	Name        string `json:"name"`
	ID          string `json:"id"`
	Title       string `json:"title,omitempty" jsonschema:"its role in a few words"`
	Description string `json:"description"`
	Status      string `json:"status"`
	Reason      string `json:"reason,omitempty" jsonschema:"why it has that status"`
	Goal        string `json:"goal,omitempty" jsonschema:"its goal if task_run is called without one"`
	Model       string `json:"model"`
}

type agentsOut struct {
	Agents        []agent `json:"agents"`
	NextPageToken string  `json:"next_page_token,omitempty" jsonschema:"empty on the last page"`
}

func (o agentsOut) text() string {
	out := make([]string, 0, len(o.Agents)+1)
	for _, a := range o.Agents {
		out = append(out, fmt.Sprintf("%s (%s): %s", a.Name, a.Status, a.Description))
	}
	if len(out) == 0 {
		return "There are no agents that you see."
	}
	return lines(strings.Join(out, "\n"), more(o.NextPageToken))
}

func more(token string) string {
	if token == "" {
		return ""
	}
	return "There are more: call again with page_token " + token
}

type node struct {
	Name     string   `json:"name"`
	ID       string   `json:"id"`
	Status   string   `json:"status" jsonschema:"connected, disconnected or revoked"`
	Version  string   `json:"version"`
	Runtimes []string `json:"runtimes"`
	Drained  bool     `json:"drained" jsonschema:"no new task starts there"`
	LockedBy string   `json:"locked_by,omitempty"`
	Pressure string   `json:"pressure,omitempty" jsonschema:"why it takes no new task"`
	LastSeen string   `json:"last_seen,omitempty"`
}

type nodesOut struct {
	Nodes         []node `json:"nodes"`
	NextPageToken string `json:"next_page_token,omitempty" jsonschema:"empty on the last page"`
}

func (o nodesOut) text() string {
	out := make([]string, 0, len(o.Nodes))
	for _, n := range o.Nodes {
		state := n.Status
		if n.Drained {
			state += ", drained"
		}
		if n.LockedBy != "" {
			state += ", locked by " + n.LockedBy
		}
		out = append(out, fmt.Sprintf("%s (%s): %s", n.Name, n.ID, state))
	}
	if len(out) == 0 {
		return "There are no nodes."
	}
	return lines(strings.Join(out, "\n"), more(o.NextPageToken))
}

func (t *tools) addAgents(server *mcp.Server) {
	add(server, "agent_list", "List agents", reads,
		"Lists the agents that you may give tasks to, with what each is for. Use a name with task_run.",
		func(ctx context.Context, in page) (agentsOut, error) {
			res, err := t.agents.ListAgents(ctx, &deckhandv1.ListAgentsRequest{PageSize: in.size(), PageToken: in.PageToken})
			if err != nil {
				return agentsOut{}, err
			}
			out := agentsOut{Agents: []agent{}, NextPageToken: res.GetNextPageToken()}
			for _, a := range res.GetAgents() {
				out.Agents = append(out.Agents, agent{
					Name: a.GetName(), ID: a.GetId(), Title: a.GetTitle(), Description: a.GetDescription(),
					Status: word(a.GetStatus(), "AGENT_STATUS_"), Reason: a.GetStatusReason(), Goal: a.GetGoal(), Model: a.GetModel(),
				})
			}
			return out, nil
		})
	add(server, toolname.NodeList, "List nodes", reads,
		"Lists the machines that agents run on, and whether they are connected.",
		func(ctx context.Context, in page) (nodesOut, error) {
			res, err := t.nodes.ListNodes(ctx, &deckhandv1.ListNodesRequest{PageSize: in.size(), PageToken: in.PageToken})
			if err != nil {
				return nodesOut{}, err
			}
			out := nodesOut{Nodes: []node{}, NextPageToken: res.GetNextPageToken()}
			for _, n := range res.GetNodes() {
				out.Nodes = append(out.Nodes, node{
					Name: n.GetName(), ID: n.GetId(), Status: n.GetStatus(), Version: n.GetVersion(), Runtimes: append([]string{}, n.GetRuntimes()...),
					Drained: n.GetDrain() != nil, LockedBy: n.GetLock().GetBy(), Pressure: n.GetPressure(), LastSeen: moment(n.GetLastSeenAt()),
				})
			}
			return out, nil
		})
}
