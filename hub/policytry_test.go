package hub_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/deckhand-sh/deckhand/hub/hubtest"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
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
