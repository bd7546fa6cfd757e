package agent

import (
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/literal"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// prepareOptions are the flags of agent prepare.
type prepareOptions struct {
	node string
}

func prepareCommand(e *env.Env) *cobra.Command {
	var o prepareOptions
	cmd := &cobra.Command{
		Use: "prepare NAME", Short: "Pull an agent's image and run its setup, before a task needs it",
		Long: `Pulls the image that jail.image names and runs jail.setup, as the agent's next task
would, on every connected node that the agent may use. Where that is done already,
nothing happens. The output of each command of the setup stays on the node: node logs
shows it.`,
		Example: `deckhand agent prepare builder
deckhand agent prepare builder --node web-1`,
		Args: env.Args("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			stream, err := client.Images.PrepareImage(cmd.Context(), &deckhandv1.PrepareImageRequest{AgentId: args[0], NodeId: o.node})
			if err != nil {
				return err
			}
			defer stream.Close()
			shown := progress{e: e}
			for stream.Receive() {
				shown.show(stream.Msg())
			}
			return stream.Err()
		},
	}
	cmd.Flags().StringVar(&o.node, "node", "", "this node only")
	return cmd
}

// progress prints how far the nodes are.
type progress struct {
	e    *env.Env
	node string
	pull *env.PullNotes // of node
	exec string         // that was printed last
}

func (p *progress) show(m *deckhandv1.PrepareImageResponse) {
	name := termsafe.Line(m.GetNode())
	if p.pull == nil || m.GetNode() != p.node {
		p.node, p.pull = m.GetNode(), p.e.PullNotes(name+": ")
	}
	switch {
	case m.GetImage() != nil:
		p.e.Notef("%s: ready: %s", name, m.GetImage().GetReference())
	case m.GetPull() != nil:
		p.pull.Show(m.GetPull())
	case m.GetExecId() != p.exec:
		p.exec = m.GetExecId()
		p.e.Notef("%s: setup, command %d of %d (%s): %s", name, m.GetLine(), m.GetLines(), m.GetExecId(), literal.Line(m.GetCommand()))
	}
}
