package hub_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	hubtool "github.com/deckhand-sh/deckhand/hub/tool"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// A tried call says of each part which rule decides about it, and of each agent what
// it would get, as for a call that is made.
func TestATriedCallSaysWhatEachPartAndAgentGets(t *testing.T) {
	t.Parallel()
	h := hubtest.Shared(t)
	admin := h.Client(t, h.AdminToken)
	persona := func(name, more string) {
		do(t, admin.Agents.ApplyAgent, &deckhandv1.ApplyAgentRequest{
			Filename: name + ".md", Script: "turns: []\n",
			Markdown: "---\nname: " + name + "\ndescription: x\nprovider: script\nscript: s.yaml\nlimits: {iterations: 5}\n" + more + "\n---\nGo.\n",
		})
	}
	persona("bold", "tools: [shell_exec]")
	persona("careful", "tools: [shell_exec]\napprovals: {tools: [shell_exec]}")
	persona("reader", "tools: [file_read]")
	const policy = "rules:\n  - {name: status, effect: allow, tool: shell_exec, command: git status}\n  - {name: no-push, effect: deny, tool: shell_exec, command: git push, agent: careful}\n"
	try := func(command, agent string) *deckhandv1.TestPolicyResponse {
		return do(t, admin.Policies.TestPolicy, &deckhandv1.TestPolicyRequest{Yaml: policy, AgentId: agent, ArgumentsJson: `{"command":"` + command + `"}`})
	}
	effects := func(res *deckhandv1.TestPolicyResponse) map[string]string {
		out := map[string]string{}
		for _, a := range res.GetAgents() {
			out[a.GetAgentName()] = a.GetEffect()
		}
		return out
	}
	res := try(`git status\nls`, "")
	require.Len(t, res.GetParts(), 2)
	require.Equal(t, []string{"git status", "allow", "status"}, []string{res.GetParts()[0].GetText(), res.GetParts()[0].GetEffect(), res.GetParts()[0].GetRule()})
	require.Equal(t, []string{"ls", "", ""}, []string{res.GetParts()[1].GetText(), res.GetParts()[1].GetEffect(), res.GetParts()[1].GetRule()})
	require.EqualValues(t, 2, res.GetParts()[1].GetLine())

	require.Equal(t, map[string]string{"bold": "allow", "careful": "ask", "reader": "missing"}, effects(try("git status", "")), "a rule does not loosen what the persona asks about")
	require.Equal(t, map[string]string{"bold": "allow", "careful": "ask", "reader": "missing"}, effects(try("make deploy", "")), "no rule: as the persona says")
	require.Equal(t, map[string]string{"bold": "ask", "careful": "ask", "reader": "missing"}, effects(try("rm -rf --no-preserve-root /", "")), "known to be dangerous")
	require.Equal(t, map[string]string{"careful": "deny"}, effects(try("git push", "careful")))

	// The draft of an agent's own policy takes the place of its own, not of all.
	do(t, admin.Policies.ApplyPolicy, &deckhandv1.ApplyPolicyRequest{Yaml: policy, File: "policy.yaml"})
	own := &deckhandv1.TestPolicyRequest{Yaml: "default: allow\n", AgentId: "careful", Own: true, ArgumentsJson: `{"command":"git push"}`}
	require.Equal(t, map[string]string{"careful": "deny"}, effects(do(t, admin.Policies.TestPolicy, own)))
	own.Own = false
	require.NotEqual(t, "deny", effects(do(t, admin.Policies.TestPolicy, own))["careful"])
}

// The audit is searched by time and by any text of an entry.
func TestTheAuditIsSearchedByTimeAndText(t *testing.T) {
	t.Parallel()
	h := hubtest.Shared(t)
	admin := h.Client(t, h.AdminToken)
	before := time.Now().Add(-time.Minute)
	do(t, admin.Users.CreateUser, &deckhandv1.CreateUserRequest{Name: "Quirky.Name"})
	list := func(req *deckhandv1.ListAuditEntriesRequest) int {
		return len(do(t, admin.Audit.ListAuditEntries, req).GetEntries())
	}
	require.Equal(t, 1, list(&deckhandv1.ListAuditEntriesRequest{Contains: strings.ToUpper("quirky.name")}))
	require.Zero(t, list(&deckhandv1.ListAuditEntriesRequest{Contains: "quirky%name"}), "a text, not a pattern")
	require.Equal(t, 1, list(&deckhandv1.ListAuditEntriesRequest{Contains: "quirky", Since: timestamppb.New(before)}))
	require.Zero(t, list(&deckhandv1.ListAuditEntriesRequest{Contains: "quirky", Until: timestamppb.New(before)}))
	require.Zero(t, list(&deckhandv1.ListAuditEntriesRequest{Contains: "quirky", Since: timestamppb.New(time.Now().Add(time.Hour))}))
}

// The registry is listed in pages with schemas, and for an agent with what its calls would
// get of its persona and the policies: the example's, or those with other arguments.
func TestTheRegistrySaysWhatCallsOfAnAgentGet(t *testing.T) {
	t.Parallel()
	h := hubtest.Shared(t)
	admin := h.Client(t, h.AdminToken)
	do(t, admin.Agents.ApplyAgent, &deckhandv1.ApplyAgentRequest{
		Filename: "cleaner.md", Script: "turns: []\n",
		Markdown: "---\nname: cleaner\ndescription: x\nprovider: script\nscript: s.yaml\nlimits: {iterations: 5}\ntools: [shell_exec, file_delete, file_read]\n---\nGo.\n",
	})
	do(t, admin.Policies.ApplyPolicy, &deckhandv1.ApplyPolicyRequest{File: "policy.yaml", Yaml: `
categories: {file_read: moderate}
rules:
  - {name: keep, effect: deny, tool: file_delete, path: /workspace/kept/**}
  - {name: tidy, effect: allow, tool: file_delete, path: /workspace/scratch/**}
`})
	all, err := sdk.All(t.Context(), admin.Tools.ListTools, func(token string) *deckhandv1.ListToolsRequest {
		return &deckhandv1.ListToolsRequest{PageSize: 7, PageToken: token}
	}, (*deckhandv1.ListToolsResponse).GetTools)
	require.NoError(t, err)
	require.Greater(t, len(all), 45)
	seen := map[string]bool{}
	for _, e := range all {
		require.False(t, seen[e.GetTool().GetName()], e.GetTool().GetName())
		seen[e.GetTool().GetName()] = true
		require.NotEmpty(t, e.GetTool().GetInputSchema().GetFields())
		require.NotEmpty(t, e.GetTool().GetLeastRole())
		require.Nil(t, e.GetUse())
	}
	web := do(t, admin.Tools.ListTools, &deckhandv1.ListToolsRequest{Kind: deckhandv1.ToolKind_TOOL_KIND_WEB}).GetTools()
	require.Len(t, web, 22)

	use := map[string]*deckhandv1.ToolUse{}
	for _, e := range do(t, admin.Tools.ListTools, &deckhandv1.ListToolsRequest{AgentId: "cleaner", Listed: true}).GetTools() {
		use[e.GetTool().GetName()] = e.GetUse()
	}
	require.NotContains(t, use, "http_get", "its persona does not list it")
	require.Equal(t, "ask", use["file_delete"].GetEffect())
	require.Equal(t, deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE, use["file_read"].GetCategory(), "as the policy says")
	require.Contains(t, use, "complete_task")

	get := func(arguments string) *deckhandv1.ToolUse {
		return do(t, admin.Tools.GetTool, &deckhandv1.GetToolRequest{Name: "file_delete", AgentId: "cleaner", ArgumentsJson: arguments}).GetTool().GetUse()
	}
	denied := get(`{"path":"kept/a"}`)
	require.Equal(t, []string{"deny", "keep"}, []string{denied.GetEffect(), denied.GetDecision().GetRule()})
	allowed := get(`{"path":"scratch/a"}`)
	require.Equal(t, []string{"allow", "tidy"}, []string{allowed.GetEffect(), allowed.GetDecision().GetRule()})
	missing := do(t, admin.Tools.GetTool, &deckhandv1.GetToolRequest{Name: "http_get", AgentId: "cleaner"}).GetTool().GetUse()
	require.Equal(t, "missing", missing.GetEffect())
	require.Contains(t, missing.GetWhy(), "does not list http_get")

	viewer := do(t, admin.Users.CreateUser, &deckhandv1.CreateUserRequest{Name: "looker", Role: "viewer"})
	token := do(t, admin.Tokens.CreateToken, &deckhandv1.CreateTokenRequest{UserId: viewer.GetUser().GetId(), Name: "t"})
	require.False(t, do(t, h.Client(t, token.GetSecret()).Tools.GetTool, &deckhandv1.GetToolRequest{Name: "file_read"}).GetTool().GetRoleCovers())
	refuses(t, connect.CodeInvalidArgument, admin.Tools.GetTool, &deckhandv1.GetToolRequest{Name: "file_delete", AgentId: "cleaner", ArgumentsJson: `{"pth":"x"}`})
	refuses(t, connect.CodeNotFound, admin.Tools.GetTool, &deckhandv1.GetToolRequest{Name: "file_dlete"})
	refuses(t, connect.CodeInvalidArgument, admin.Tools.ListTools, &deckhandv1.ListToolsRequest{Listed: true})
	refuses(t, connect.CodeInvalidArgument, admin.Tools.ListTools, &deckhandv1.ListToolsRequest{PageToken: "file_dlete"})
}

// The registry has the tools of an agent's MCP servers, with the definition that was agreed on,
// and says that a changed one is asked about.
func TestTheRegistryHasToolsOfMCPServers(t *testing.T) {
	t.Parallel()
	r := newRig(t, hubtest.Shared(t), nil)
	r.apply("user", strings.Replace(scripted("user"), "limits:", "mcp: [{name: notes, command: [notes-server]}]\nlimits:", 1))
	agent := do(t, r.user.Agents.GetAgent, &deckhandv1.GetAgentRequest{AgentId: "user"}).GetAgent().GetId()
	definition := func(name, description string) string {
		data, err := json.Marshal(hubtool.Definition{Name: name, Description: description, InputSchema: json.RawMessage(`{"type":"object","properties":{"q":{"type":"string"}}}`)})
		require.NoError(t, err)
		return string(data)
	}
	for name, offered := range map[string]any{"find": nil, "drop": definition("drop", "Drop all.")} {
		r.sql(`INSERT INTO mcp_tools (org_id, agent_id, name, server, tool, agreed, agreed_digest, agreed_at, offered, offered_digest, offered_at)
			SELECT $1, $2, 'mcp__notes__' || $3::text, 'notes', $3, $4, 'a', now(), $5::text, CASE WHEN $5::text IS NULL THEN NULL ELSE 'b' END, CASE WHEN $5::text IS NULL THEN NULL ELSE now() END
			RETURNING name`, r.OrgID, agent, name, definition(name, "Find notes."), offered)
	}
	got := map[string]*deckhandv1.ToolEntry{}
	for _, e := range do(t, r.user.Tools.ListTools, &deckhandv1.ListToolsRequest{AgentId: "user", Listed: true, PageSize: 100}).GetTools() {
		if strings.HasPrefix(e.GetTool().GetName(), "mcp__") {
			got[e.GetTool().GetName()] = e
		}
	}
	require.Len(t, got, 2)
	found := got["mcp__notes__find"]
	require.Contains(t, found.GetTool().GetDescription(), "Find notes.")
	require.Contains(t, found.GetTool().GetInputSchema().AsMap()["properties"], "q")
	require.Equal(t, "ask", got["mcp__notes__drop"].GetUse().GetEffect(), "its definition has changed")
	require.Equal(t, "mcp__notes__find", do(t, r.user.Tools.GetTool, &deckhandv1.GetToolRequest{Name: "mcp__notes__find", AgentId: "user"}).GetTool().GetTool().GetName())
	// Without the agent there is no such tool.
	refuses(t, connect.CodeNotFound, r.user.Tools.GetTool, &deckhandv1.GetToolRequest{Name: "mcp__notes__find"})
}
