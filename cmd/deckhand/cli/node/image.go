package node

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// imageCommand is "deckhand node image": the container images on a node.
func imageCommand(e *env.Env) *cobra.Command {
	cmd := env.Group("image", "Manage the container images on a node", `
A persona with jail.image has its jail made from a container image. The node pulls
it when a task needs it, and deletes it when nothing has used it for two weeks.
`, `
deckhand node image list web-1
deckhand node image pull web-1 docker.io/library/golang:1.26
deckhand node image prune web-1 --unused-for 24h
`)
	cmd.AddCommand(imageListCommand(e), imagePullCommand(e), imageImportCommand(e), imagePruneCommand(e))
	return cmd
}

func imageNoun(e *env.Env) output.Noun[*deckhandv1.NodeImage] {
	return output.Noun[*deckhandv1.NodeImage]{
		Name: (*deckhandv1.NodeImage).GetReference,
		Columns: []output.Column[*deckhandv1.NodeImage]{
			{Header: "reference", Value: (*deckhandv1.NodeImage).GetReference},
			{Header: "setup", Value: func(x *deckhandv1.NodeImage) string {
				// Long enough to tell two apart.
				return fmt.Sprintf("%.12s", strings.TrimPrefix(x.GetSetup(), "sha256:"))
			}},
			{Header: "size", Value: func(x *deckhandv1.NodeImage) string { return output.Size(x.GetBytes()) }},
			{Header: "layers", Value: func(x *deckhandv1.NodeImage) string { return fmt.Sprint(x.GetLayers()) }},
			{Header: "used", Value: func(x *deckhandv1.NodeImage) string { return e.Age(x.GetUsedAt()) }},
			{Header: "platform", Value: (*deckhandv1.NodeImage).GetPlatform},
		},
	}
}

func imageListCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "list NODE", Short: "List the images on a node", Example: "deckhand node image list web-1", Args: env.Args("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			noun := imageNoun(e)
			noun.Columns = append(noun.Columns, output.Column[*deckhandv1.NodeImage]{
				Header: "tasks", Value: func(x *deckhandv1.NodeImage) string { return fmt.Sprint(x.GetTasks()) },
			})
			return env.List(cmd, e, noun,
				fmt.Sprintf("there is no image on %s; one comes with the first task that needs it, or with: deckhand node image pull %s IMAGE", args[0], args[0]),
				client.Images.ListImages, func(token string) *deckhandv1.ListImagesRequest {
					return &deckhandv1.ListImagesRequest{NodeId: args[0], PageToken: token}
				}, (*deckhandv1.ListImagesResponse).GetImages)
		},
	}
}

// progressEvery is how often the progress of an import is printed.
const progressEvery = 2 * time.Second

func imagePullCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "pull NODE IMAGE", Short: "Pull an image on a node",
		Long: `Has a node pull an image, with the organisation's credentials and mirror for its
registry, so that the first task that needs it need not wait. It prints the image
with its digest. What was downloaded is kept for a day if the pull is stopped.`,
		Example: "deckhand node image pull web-1 docker.io/library/golang:1.26", Args: env.Args("NODE", "IMAGE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			stream, err := client.Images.PullImage(cmd.Context(), &deckhandv1.PullImageRequest{NodeId: args[0], Reference: args[1]})
			if err != nil {
				return err
			}
			defer stream.Close()
			notes := e.PullNotes("")
			for stream.Receive() {
				p := stream.Msg()
				if p.GetImage() != nil {
					return output.Brief(e.Printer(), imageNoun(e), p.GetImage())
				}
				notes.Show(p)
			}
			if err := stream.Err(); err != nil {
				return err
			}
			return errors.New("the hub ended the pull without a result")
		},
	}
}

// pieceBytes is how much of an archive one message has.
const pieceBytes = 512 << 10

func imageImportCommand(e *env.Env) *cobra.Command {
	return &cobra.Command{
		Use: "import NODE NAME ARCHIVE", Short: "Import an image from an archive on a node",
		Long: `Sends an archive, as "docker save" or an OCI layout in a tar file has it, to a node
that reaches no registry. NAME is REGISTRY/NAME:TAG; on this node it means this image
from then on, and no registry is asked. With - the archive is read from standard
input.`,
		Example: `docker save registry.example.com/team/tools:1 | deckhand node image import web-1 registry.example.com/team/tools:1 -`,
		Args:    env.Args("NODE", "NAME", "ARCHIVE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			stream, err := client.Images.ImportImage(cmd.Context())
			if err != nil {
				return err
			}
			err = stream.Send(&deckhandv1.ImportImageRequest{NodeId: args[0], Name: args[1]})
			if err == nil {
				err = sendArchive(cmd, e, args[2], func(data []byte) error { return stream.Send(&deckhandv1.ImportImageRequest{Data: data}) })
			}
			if err != nil && !errors.Is(err, io.EOF) {
				return err
			}
			// What the hub refused is in its response.
			res, err := stream.CloseAndReceive()
			if err != nil {
				return err
			}
			return output.Brief(e.Printer(), imageNoun(e), res.GetImage())
		},
	}
}

func imagePruneCommand(e *env.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "prune NODE", Short: "Delete unused images from a node",
		Long: `Deletes images from a node. Those that a jail has stay, and so do those that a task
keeps which has not ended.`,
		Example: "deckhand node image prune web-1 --unused-for 24h", Args: env.Args("NODE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := e.Client()
			if err != nil {
				return err
			}
			req := &deckhandv1.PruneImagesRequest{NodeId: args[0]}
			if req.UnusedFor, err = env.Duration(cmd, "unused-for"); err != nil {
				return err
			}
			res, err := client.Images.PruneImages(cmd.Context(), req)
			if err != nil {
				return err
			}
			if len(res.GetDeleted()) == 0 {
				e.Notef("nothing was deleted")
			}
			return output.List(e.Printer(), imageNoun(e), res.GetDeleted())
		},
	}
	cmd.Flags().Duration("unused-for", 0, "only images that were not used for so long, such as 24h")
	return cmd
}
