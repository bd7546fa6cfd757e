package node

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// packCommand is "deckhand node pack": the programs that all jails of a node are shown.
func packCommand(e *env.Env) *cobra.Command {
	cmd := env.Group("pack", "Manage the packs on a node", `
A pack is an archive of a program, such as Chromium, which all jails of a node are
shown read-only. An archive is installed only if its SHA-256 is the one that was
given, or the one in /etc/deckhand/packs.yaml on the node.
`, `
deckhand node pack list web-1
deckhand node pack fetch web-1 chromium --url https://files.example.com/chromium.tar.zst --digest DIGEST
deckhand node pack prune web-1
`)
	cmd.AddCommand(packListCommand(e), packFetchCommand(e), packImportCommand(e), packPruneCommand(e))
	return cmd
}

func packNoun(e *env.Env) output.Noun[*deckhandv1.NodePack] {
	return output.Noun[*deckhandv1.NodePack]{
		Name: func(x *deckhandv1.NodePack) string { return x.GetName() + "@sha256:" + x.GetSha256() },
		Columns: []output.Column[*deckhandv1.NodePack]{
			{Header: "name", Value: (*deckhandv1.NodePack).GetName},
			{Header: "sha256", Value: func(x *deckhandv1.NodePack) string { return x.GetSha256()[:min(12, len(x.GetSha256()))] }},
			{Header: "size", Value: func(x *deckhandv1.NodePack) string { return output.Size(x.GetBytes()) }},
			{Header: "installed", Value: func(x *deckhandv1.NodePack) string { return e.Age(x.GetInstalledAt()) }},
			{Header: "state", Value: packState},
			{Header: "source", Value: (*deckhandv1.NodePack).GetSource},
		},
	}
}

// packState says what a version of a pack is for its jails.
func packState(x *deckhandv1.NodePack) string {
	state := "old"
	switch {
	case x.GetBroken():
		return "broken: fetch or import it again"
	case x.GetCurrent():
		state = "current"
	}
	if x.GetInUse() {
		state += ", in use"
	}
	return state
}

func packListCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list NODE", Short: "List the packs on a node", Example: "deckhand node pack list web-1", Args: env.Args("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Packs.ListPacks(cmd.Context(), &deckhandv1.ListPacksRequest{NodeId: args[0]})
			if err != nil {
				return err
			}
			if len(res.GetPacks()) == 0 {
				e.Notef("there is no pack on %s; install one with: deckhand node pack fetch %s NAME", args[0], args[0])
			}
			return output.List(e.Printer(), packNoun(e), res.GetPacks())
		},
	}
}

func packFetchCommand(e *env.Env) *cobra.Command {
	req := &deckhandv1.FetchPackRequest{}
	cmd := &cobra.Command{
		Use: "fetch NODE NAME", Short: "Have a node download a pack and install it",
		Long: `Has a node download the archive of a pack (tar, alone or compressed with gzip or
zstd) and install it, if its SHA-256 is the given one. Without --url and --digest, the
node's own file /etc/deckhand/packs.yaml says which archive it is.`,
		Example: "deckhand node pack fetch web-1 chromium", Args: env.Args("NODE", "NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			req.NodeId, req.Name = args[0], args[1]
			res, err := client.Packs.FetchPack(cmd.Context(), req)
			if err != nil {
				return err
			}
			return output.Brief(e.Printer(), packNoun(e), res.GetPack())
		},
	}
	cmd.Flags().StringVar(&req.Url, "url", "", "`ADDRESS` of the archive")
	cmd.Flags().StringVar(&req.Sha256, "digest", "", "SHA-256 of the archive in hexadecimal, a `DIGEST`")
	cmd.MarkFlagsRequiredTogether("url", "digest")
	return cmd
}

func packImportCommand(e *env.Env) *cobra.Command {
	var digest string
	cmd := &cobra.Command{
		Use: "import NODE NAME ARCHIVE", Short: "Install a pack from an archive on a node",
		Long: `Sends the archive of a pack to a node that cannot download it, which installs it if
its SHA-256 is the given one. Without --digest, the node's own file
/etc/deckhand/packs.yaml says which archive it is. With - the archive is read from
standard input.`,
		Example: "deckhand node pack import web-1 chromium chromium.tar.zst --digest DIGEST",
		Args:    env.Args("NODE", "NAME", "ARCHIVE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			stream, err := client.Packs.ImportPack(cmd.Context())
			if err != nil {
				return err
			}
			err = stream.Send(&deckhandv1.ImportPackRequest{NodeId: args[0], Name: args[1], Sha256: digest})
			if err == nil {
				err = sendArchive(cmd, e, args[2], func(data []byte) error { return stream.Send(&deckhandv1.ImportPackRequest{Data: data}) })
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			// What the hub refused is in its response.
			res, err := stream.CloseAndReceive()
			if err != nil {
				return err
			}
			return output.Brief(e.Printer(), packNoun(e), res.GetPack())
		},
	}
	cmd.Flags().StringVar(&digest, "digest", "", "SHA-256 of the archive in hexadecimal, a `DIGEST`")
	return cmd
}

func packPruneCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "prune NODE [NAME...]", Short: "Delete old versions of packs from a node, and all of the packs that are named",
		Long: `Deletes the versions of packs that the jails of a node do not use any more, and all
versions of the packs that are named. What a process runs or has mapped is kept.`,
		Example: "deckhand node pack prune web-1", Args: env.Args("NODE", "[NAME...]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			res, err := client.Packs.PrunePacks(cmd.Context(), &deckhandv1.PrunePacksRequest{NodeId: args[0], Names: args[1:]})
			if err != nil {
				return err
			}
			for _, one := range res.GetKept() {
				e.Notef("%s %.12s is kept: a process uses it", one.GetName(), one.GetSha256())
			}
			if len(res.GetDeleted()) == 0 {
				e.Notef("nothing was deleted")
			}
			return output.List(e.Printer(), packNoun(e), res.GetDeleted())
		},
	}
}
