package knowledge

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/internal/extracted"
	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

type addFlags struct {
	scope, description string
	agent, node, path  string
	git, branch, url   string
	credential         string
	later              bool
}

func addCommand(e *env.Env) *cobra.Command {
	f := &addFlags{}
	cmd := &cobra.Command{
		Use: "add COLLECTION [FILE...]", Short: "Add documents to a collection, which is created if there is none",
		Long: `Uploads files and folders, or adds a source that is read again at every sync: a
folder of an agent's workspace (--agent), a folder of a machine that its node shows
(--node, administrators), a Git repository (--git) or a web page (--url), both by
https. Then it syncs the collection.

Markdown, HTML, text, source code, PDF, DOCX and CSV are read, in a jail on a node.
Hidden files and files over 16 MiB are not.

A new collection is yours alone, unless --scope says whose it is: organisation,
team:NAME, agent:NAME or user.`,
		Example: `deckhand knowledge add handbook leave.md expenses.pdf
deckhand knowledge add notes --agent helper --path docs
deckhand knowledge add docs --git https://git.example.com/team/docs.git --scope organisation`,
		Args: env.Args("COLLECTION", "[FILE...]"),
		RunE: func(cmd *cobra.Command, args []string) error { return add(cmd, e, f, args[0], args[1:]) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.scope, "scope", "user", "whose a new collection is: organisation, team:NAME, agent:NAME or user")
	flags.StringVar(&f.description, "description", "", "what a new collection is about, for people and agents")
	flags.StringVar(&f.agent, "agent", "", "read the workspace of this agent")
	flags.StringVar(&f.node, "node", "", "read a folder of this node's machine")
	flags.StringVar(&f.path, "path", "", "folder in the workspace or repository, or on the machine")
	flags.StringVar(&f.git, "git", "", "read the Git repository at this https address")
	flags.StringVar(&f.branch, "branch", "", "branch or tag of the repository")
	flags.StringVar(&f.credential, "credential", "", "with --git: `NAME` of the credential to clone with; for administrators")
	flags.StringVar(&f.url, "url", "", "read the web page at this https address")
	flags.BoolVar(&f.later, "no-sync", false, "do not read the documents now")
	return cmd
}

// scopes are the kinds of scopes as they are written.
var scopes = map[string]deckhandv1.ScopeKind{
	"organisation": deckhandv1.ScopeKind_SCOPE_KIND_ORGANISATION, "team": deckhandv1.ScopeKind_SCOPE_KIND_TEAM, "user": deckhandv1.ScopeKind_SCOPE_KIND_USER,
	"agent": deckhandv1.ScopeKind_SCOPE_KIND_AGENT, "workspace": deckhandv1.ScopeKind_SCOPE_KIND_WORKSPACE,
}

func add(cmd *cobra.Command, e *env.Env, f *addFlags, ref string, files []string) error {
	kind, id, _ := strings.Cut(f.scope, ":")
	if scopes[kind] == 0 {
		return env.Usage(cmd, "--scope is %q, give organisation, team:NAME, agent:NAME or user", f.scope)
	}
	var sources []*deckhandv1.KnowledgeSource
	if f.agent != "" {
		sources = append(sources, &deckhandv1.KnowledgeSource{Kind: deckhandv1.KnowledgeSourceKind_KNOWLEDGE_SOURCE_KIND_WORKSPACE, AgentId: f.agent, Path: f.path})
	}
	if f.node != "" {
		sources = append(sources, &deckhandv1.KnowledgeSource{Kind: deckhandv1.KnowledgeSourceKind_KNOWLEDGE_SOURCE_KIND_NODE, NodeId: f.node, Path: f.path})
	}
	if f.git != "" {
		sources = append(sources, &deckhandv1.KnowledgeSource{Kind: deckhandv1.KnowledgeSourceKind_KNOWLEDGE_SOURCE_KIND_GIT, Url: f.git, Revision: f.branch, Path: f.path, Credential: f.credential})
	}
	if f.url != "" {
		sources = append(sources, &deckhandv1.KnowledgeSource{Kind: deckhandv1.KnowledgeSourceKind_KNOWLEDGE_SOURCE_KIND_WEB, Url: f.url})
	}
	switch {
	case len(sources) > 1:
		return env.Usage(cmd, "give one of --agent, --node, --git and --url")
	case f.path != "" && (len(sources) == 0 || f.url != ""):
		return env.Usage(cmd, "--path goes with --agent, --node or --git")
	case f.branch != "" && f.git == "":
		return env.Usage(cmd, "--branch goes with --git")
	case f.credential != "" && f.git == "":
		return env.Usage(cmd, "--credential goes with --git")
	}
	found, err := collect(files)
	if err != nil {
		return err
	}
	client, err := e.Client()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	collection, err := ensure(ctx, client, ref, &deckhandv1.Scope{Kind: scopes[kind], Id: id}, f.description)
	if err != nil {
		return err
	}
	for _, s := range sources {
		if _, err := client.Knowledge.AddSource(ctx, &deckhandv1.AddSourceRequest{CollectionId: collection.GetId(), Source: s}); err != nil {
			return err
		}
	}
	for _, one := range found {
		content, err := env.ReadBounded(one.at, extracted.MaxFile)
		if err != nil {
			return err
		}
		if _, err := client.Knowledge.UploadDocument(ctx, &deckhandv1.UploadDocumentRequest{CollectionId: collection.GetId(), Path: one.path, Content: content}); err != nil {
			return err
		}
		e.Notef("uploaded %s", one.path)
	}
	if f.later || len(sources)+len(found) == 0 {
		return env.Show(cmd, e, noun(e), client.Knowledge.GetCollection, &deckhandv1.GetCollectionRequest{CollectionId: collection.GetId()}, (*deckhandv1.GetCollectionResponse).GetCollection)
	}
	return syncNow(ctx, e, client, collection.GetId())
}

// ensure returns a collection, which it creates if the user sees none of that name.
func ensure(ctx context.Context, client *sdk.Client, ref string, s *deckhandv1.Scope, description string) (*deckhandv1.Collection, error) {
	res, err := client.Knowledge.GetCollection(ctx, &deckhandv1.GetCollectionRequest{CollectionId: ref})
	if err == nil {
		return res.GetCollection(), nil
	}
	if !fault.Is(fault.FromConnect(err), fault.NotFound) {
		return nil, err
	}
	made, err := client.Knowledge.CreateCollection(ctx, &deckhandv1.CreateCollectionRequest{Name: ref, Description: description, Scope: s})
	if err != nil {
		return nil, err
	}
	return made.GetCollection(), nil
}

// found is a file to upload, and its path in the collection.
type found struct{ at, path string }

// collect returns the files that are named, and those in folders, without hidden ones.
func collect(names []string) (out []found, err error) {
	for _, name := range names {
		base := filepath.Dir(name)
		if info, err := os.Stat(name); err != nil {
			return nil, fault.New(fault.Invalid, "%s cannot be read: %v", name, err).WithFix("name a file or folder that is there")
		} else if info.IsDir() {
			base = name
		}
		err := filepath.WalkDir(name, func(at string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case at != name && strings.HasPrefix(d.Name(), "."):
				if d.IsDir() {
					return filepath.SkipDir
				}
				return nil
			case !d.Type().IsRegular():
				return nil
			}
			rel, err := filepath.Rel(base, at)
			if err == nil {
				out = append(out, found{at, filepath.ToSlash(rel)})
			}
			return err
		})
		if err != nil {
			return nil, fault.New(fault.Invalid, "%s cannot be read: %v", name, err).WithFix("name a file or folder that you may read")
		}
	}
	return out, nil
}
