// Package node is the command "deckhand node": it joins, shows, drains and
// locks nodes, and runs commands on them.
//
// The exit code of exec is that of the command, or one of the constants in
// exec.go where the command did not end by itself.
package node

import (
	"fmt"
	"image/color"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// Command returns the command "deckhand node".
func Command(e *env.Env) *cobra.Command {
	cmd := env.Group("node", "Manage nodes", `
A node is a machine that runs deckhand-node, on which agents' commands run.
People's commands run there too, in an agent's jail or, for administrators, on
the machine itself.
`, `
deckhand node token
deckhand node list
deckhand node exec web-1 --agent log-triage -- ls -l
`)
	cmd.AddCommand(
		listCommand(e), showCommand(e), tokenCommand(e), revokeCommand(e),
		execCommand(e), shellCommand(e), execsCommand(e), killCommand(e), undoCommand(e), logsCommand(e), filesCommand(e),
		topCommand(e), imageCommand(e), packCommand(e),
		upgradeCommand(e), rolloutsCommand(e), stopRolloutCommand(e),
		drainCommand(e), undrainCommand(e), locksCommand(e), lockCommand(e), unlockCommand(e),
	)
	return cmd
}

// work says what keeps tasks off a node: "" for nothing.
func work(n *deckhandv1.Node) string {
	var parts []string
	if l := n.GetLock(); l != nil {
		until := ""
		if l.GetExpiresAt() != nil {
			until = " until " + output.Moment(l.GetExpiresAt())
		}
		parts = append(parts, "locked by "+l.GetBy()+until+": "+l.GetReason())
	}
	if d := n.GetDrain(); d != nil {
		text := "drained by " + d.GetBy()
		if d.GetReason() != "" {
			text += ": " + d.GetReason()
		}
		parts = append(parts, text)
	}
	if why := n.GetPressure(); why != "" {
		parts = append(parts, "under pressure: "+why)
	}
	switch u := n.GetUpgrade(); u.GetState() {
	case "trial":
		parts = append(parts, "tries release "+u.GetVersion())
	case "failed":
		parts = append(parts, "upgrade to "+u.GetVersion()+" failed: "+u.GetProblem())
	}
	return strings.Join(parts, "; ")
}

func noun(e *env.Env) output.Noun[*deckhandv1.Node] {
	return output.Noun[*deckhandv1.Node]{
		Name: (*deckhandv1.Node).GetName,
		Columns: []output.Column[*deckhandv1.Node]{
			{Header: "name", Value: (*deckhandv1.Node).GetName},
			{Header: "status", Value: (*deckhandv1.Node).GetStatus, Style: func(x *deckhandv1.Node) lipgloss.Style {
				return lipgloss.NewStyle().Foreground(map[string]color.Color{
					"connected": lipgloss.Green, "disconnected": lipgloss.Yellow, "revoked": lipgloss.Red,
				}[x.GetStatus()])
			}},
			{Header: "work", Value: work, Style: func(x *deckhandv1.Node) lipgloss.Style {
				if x.GetLock() == nil && x.GetDrain() == nil {
					return lipgloss.NewStyle()
				}
				return lipgloss.NewStyle().Foreground(lipgloss.Yellow)
			}},
			{Header: "seen", Value: func(x *deckhandv1.Node) string { return e.Age(x.GetLastSeenAt()) }},
			{Header: "runtimes", Value: func(x *deckhandv1.Node) string { return strings.Join(x.GetRuntimes(), ",") }},
			{Header: "labels", Value: func(x *deckhandv1.Node) string { return output.Labels(x.GetLabels()) }, Max: 50},
			{Header: "version", Value: (*deckhandv1.Node).GetVersion},
			{Header: "id", Value: (*deckhandv1.Node).GetId, Wide: true},
			{Header: "capability", Value: func(x *deckhandv1.Node) string { return fmt.Sprint(x.GetCapability()) }, Wide: true},
			{Header: "skills", Value: func(x *deckhandv1.Node) string { return skillNames(x.GetSkills()) }, Wide: true},
			{Header: "created", Value: func(x *deckhandv1.Node) string { return output.Moment(x.GetCreatedAt()) }, Wide: true},
		},
	}
}

// skillNames returns the names of skills, with what is wrong with those that
// agents are not shown.
func skillNames(skills []*deckhandv1.NodeSkill) string {
	names := make([]string, len(skills))
	for i, s := range skills {
		if names[i] = s.GetName(); s.GetProblem() != "" {
			names[i] += " (not shown: " + s.GetProblem() + ")"
		}
	}
	return strings.Join(names, ", ")
}
