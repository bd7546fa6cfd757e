package mcpserver

import (
	"context"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// promptOf returns an agent as a prompt, with which a person gives it a goal.
func promptOf(a *deckhandv1.Agent) *mcp.Prompt {
	goal := &mcp.PromptArgument{Name: "goal", Title: "Goal", Description: "What the agent should achieve", Required: a.GetGoal() == ""}
	if a.GetGoal() != "" {
		goal.Description += "; by default: " + a.GetGoal()
	}
	return &mcp.Prompt{
		Name: a.GetName(), Title: "Run " + a.GetName(), Description: a.GetDescription(),
		Arguments: []*mcp.PromptArgument{goal, {Name: "context", Title: "Context", Description: "What the agent should know"}},
	}
}

// prompt returns the message that has the client's model run an agent.
func (t *tools) prompt(ctx context.Context, params *mcp.GetPromptParams) (*mcp.GetPromptResult, error) {
	res, err := t.agents.GetAgent(ctx, &deckhandv1.GetAgentRequest{AgentId: params.Name})
	if err = fault.FromConnect(err); fault.Is(err, fault.NotFound) || fault.Is(err, fault.Invalid) {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	if err != nil {
		return nil, err
	}
	found := res.GetAgent()
	goal := params.Arguments["goal"]
	if goal == "" && found.GetGoal() == "" {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("the prompt %s needs the argument goal: what the agent should achieve", params.Name)}
	}
	text := fmt.Sprintf("Run the Deckhand agent %q with task_run", found.GetName())
	if goal != "" {
		text += ", with this goal:\n\n" + goal
	}
	if more := params.Arguments["context"]; more != "" {
		text += "\n\nGive it this as context:\n\n" + more
	}
	text += "\n\nThen call task_wait until it has ended, and tell me the result."
	return &mcp.GetPromptResult{
		Description: found.GetDescription(),
		Messages:    []*mcp.PromptMessage{{Role: "user", Content: &mcp.TextContent{Text: text}}},
	}, nil
}
