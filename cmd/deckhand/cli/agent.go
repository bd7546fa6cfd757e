package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"connectrpc.com/connect"
	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output"
	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/output/termsafe"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

func (a *app) agentCommand() *cobra.Command {
	cmd := group("agent", "Make, change and see agents", `
An agent is one Markdown file, its persona: YAML front matter says what it may
use, the body tells it what to do.
`, `
deckhand agent apply -f personas/
deckhand agent list
deckhand agent show log-triage
`)
	cmd.AddCommand(a.agentApplyCommand(), a.agentListCommand(), a.agentShowCommand(), a.agentGraphCommand(), a.agentMessageCommand(), a.agentPauseCommand(), a.agentResumeCommand(), a.filesCommand("agent", "log-triage"))
	return cmd
}

func (a *app) agentApplyCommand() *cobra.Command {
	var files []string
	var dryRun bool
	cmd := &cobra.Command{
		Use: "apply -f FILE|DIR", Short: "Make agents from persona files, or change them",
		Long: `Stores a version of each persona file whose content is new. Of a folder all
*.md files are taken, in subfolders too, README.md left out. Every problem of
every file is shown as file:line, and nothing is stored while there is one.`,
		Example: `deckhand agent apply -f personas/
deckhand agent apply -f log-triage.md --dry-run`,
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(files) == 0 {
				return usage(cmd, "-f is missing: name a persona file or a folder of them")
			}
			return a.agentApply(cmd, files, dryRun)
		},
	}
	cmd.Flags().StringArrayVarP(&files, "filename", "f", nil, "persona file or folder; may be given more than once")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "check only, store nothing")
	return cmd
}

func (a *app) agentApply(cmd *cobra.Command, paths []string, dryRun bool) error {
	requests, err := a.readPersonas(paths)
	if err != nil {
		return err
	}
	client, err := a.connect()
	if err != nil {
		return err
	}
	// The hub knows more than the files do, for example the tools it has: it
	// checks all of them before the first is stored.
	if len(requests) > 1 && !dryRun {
		if _, err := a.sendPersonas(cmd.Context(), client, requests, true); err != nil {
			return err
		}
	}
	applied, err := a.sendPersonas(cmd.Context(), client, requests, dryRun)
	if err != nil {
		return err
	}
	if dryRun {
		a.notef("Dry run: nothing stored.")
	}
	for _, res := range applied {
		for _, t := range res.GetTriggers() {
			if t.GetChange() != "unchanged" {
				a.notef("trigger %s (%s): %s", t.GetName(), t.GetKind(), t.GetChange())
			}
			a.tellSecret(client.URL(), &deckhandv1.Trigger{
				Path: t.GetPath(), Spec: &deckhandv1.TriggerSpec{Webhook: &deckhandv1.WebhookSpec{Verify: t.GetVerify()}},
			}, t.GetSecret())
		}
	}
	return output.List(a.printer(), appliedNoun, applied)
}

// sendPersonas applies or checks files one by one. What the hub finds wrong
// with any of them is shown for all.
func (a *app) sendPersonas(ctx context.Context, client *sdk.Client, requests []*deckhandv1.ApplyAgentRequest, dryRun bool) ([]*deckhandv1.ApplyAgentResponse, error) {
	var applied []*deckhandv1.ApplyAgentResponse
	var wrong problems
	for _, request := range requests {
		request.DryRun = dryRun
		res, err := client.Agents.ApplyAgent(ctx, connect.NewRequest(request))
		if code, e := a.explain(ctx, err); code == exitUsage {
			wrong.add(request.GetFilename(), e)
			continue
		}
		if err != nil {
			return nil, err
		}
		applied = append(applied, res.Msg)
	}
	return applied, a.refuse(wrong, len(requests))
}

// problems is what is wrong with persona files, a line for each thing.
type problems struct {
	lines  []string
	broken int
}

// add takes what was said of one file; lines that do not name it get its name.
func (p *problems) add(file string, e *fault.Error) {
	p.broken++
	for line := range strings.Lines(e.Message) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, file) {
			line = file + ": " + line
		}
		p.lines = append(p.lines, line)
	}
}

// refuse shows problems and answers the error that sums them up; nil for none.
func (a *app) refuse(p problems, files int) error {
	switch len(p.lines) {
	case 0:
		return nil
	case 1:
		return fault.New(fault.Invalid, "%s", p.lines[0])
	}
	for _, line := range p.lines {
		a.notef("%s", termsafe.Line(line))
	}
	return fault.New(fault.Invalid, "%d of %d persona files cannot be used and nothing was stored", p.broken, files).
		WithFix("correct the lines above and apply again")
}

var appliedNoun = output.Noun[*deckhandv1.ApplyAgentResponse]{
	Name: func(x *deckhandv1.ApplyAgentResponse) string { return x.GetAgent().GetName() },
	Columns: []output.Column[*deckhandv1.ApplyAgentResponse]{
		{Header: "name", Value: func(x *deckhandv1.ApplyAgentResponse) string { return x.GetAgent().GetName() }},
		{Header: "change", Value: (*deckhandv1.ApplyAgentResponse).GetChange},
		{Header: "version", Value: func(x *deckhandv1.ApplyAgentResponse) string { return fmt.Sprint(x.GetAgent().GetVersion()) }},
		{Header: "model", Value: func(x *deckhandv1.ApplyAgentResponse) string {
			return modelName(x.GetAgent().GetProvider(), x.GetAgent().GetModel())
		}},
	},
}

// readPersonas reads and checks all files before any is sent. All problems of
// all files are shown.
func (a *app) readPersonas(paths []string) ([]*deckhandv1.ApplyAgentRequest, error) {
	var files []string
	for _, path := range paths {
		found, err := personaFiles(path)
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	var requests []*deckhandv1.ApplyAgentRequest
	var names []string
	var wrong problems
	for _, file := range files {
		request, name, err := readPersona(file)
		var found *persona.Problems
		if errors.As(err, &found) {
			wrong.add(file, fault.New(fault.Invalid, "%s", found))
			continue
		}
		if err != nil {
			return nil, err
		}
		requests, names = append(requests, request), append(names, name)
	}
	if len(requests) > 1 {
		for _, request := range requests {
			request.Along = names
		}
	}
	return requests, a.refuse(wrong, len(files))
}

// personaFiles returns a file itself and a folder's persona files, in order.
func personaFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var out []string
	err = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return unreadable(name, err)
		case entry.IsDir() && name != path && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case !entry.IsDir() && filepath.Ext(name) == ".md" && !strings.EqualFold(entry.Name(), "README.md"):
			out = append(out, name)
		}
		return nil
	})
	if err == nil && len(out) == 0 {
		return nil, fault.New(fault.Invalid, "there is no *.md file in %s", path).WithFix("name a persona file or a folder of them with -f")
	}
	return out, err
}

// readPersona reads a persona file and the script it names, and answers the
// agent's name too.
func readPersona(path string) (request *deckhandv1.ApplyAgentRequest, name string, err error) {
	markdown, err := readBounded(path, maxPersona)
	if err != nil {
		return nil, "", err
	}
	parsed, err := persona.Parse(path, markdown, persona.Vocabulary{})
	if err != nil {
		return nil, "", err
	}
	request = &deckhandv1.ApplyAgentRequest{Markdown: string(markdown), Filename: path}
	if parsed.Script == "" {
		return request, parsed.Name, nil
	}
	script, err := readSibling(path, parsed.Script)
	if err != nil {
		return nil, "", &persona.Problems{File: path, List: []persona.Problem{{
			Line:    scriptLine(string(markdown)),
			Message: fmt.Sprintf("script %q cannot be read (%s): put the file beside the persona", parsed.Script, err),
		}}}
	}
	request.Script = string(script)
	return request, parsed.Name, nil
}

// maxPersona bounds a persona file and a script, in bytes; the hub refuses
// longer ones.
const maxPersona = 1 << 20

// readSibling reads a file in another's folder, and nowhere else: a persona
// from a stranger must not be able to have any file of this machine sent.
func readSibling(path, name string) ([]byte, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }()
	file, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	return readAll(file, maxPersona)
}

// scriptLine returns the line of the front matter's script key.
func scriptLine(markdown string) int {
	n := 1
	for line := range strings.Lines(markdown) {
		if strings.HasPrefix(line, "script:") {
			return n
		}
		n++
	}
	return 1
}

// readBounded reads a file of at most limit bytes.
func readBounded(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, unreadable(path, err)
	}
	defer func() { _ = file.Close() }()
	data, err := readAll(file, limit)
	if err != nil {
		return nil, unreadable(path, err)
	}
	return data, nil
}

func readAll(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("it is larger than %d bytes", limit)
	}
	return data, err
}

// unreadable returns a file's error with the file named once.
func unreadable(path string, err error) error {
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return fault.New(fault.Invalid, "cannot read %s: %s", path, err)
}

func (a *app) agentListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the agents", Example: "deckhand agent list -o wide",
		Args: takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			var agents []*deckhandv1.Agent
			for token := ""; ; {
				res, err := client.Agents.ListAgents(cmd.Context(), connect.NewRequest(&deckhandv1.ListAgentsRequest{PageToken: token}))
				if err != nil {
					return err
				}
				agents = append(agents, res.Msg.GetAgents()...)
				if token = res.Msg.GetNextPageToken(); token == "" {
					break
				}
			}
			if len(agents) == 0 {
				a.notef("no agents yet; make one from a persona file: deckhand agent apply -f FILE")
			}
			return output.List(a.printer(), a.agentNoun(), agents)
		},
	}
}

func (a *app) agentGraphCommand() *cobra.Command {
	return &cobra.Command{
		Use: "graph", Short: "Show which agents may give work to which, and which did",
		Long: `Lists who may delegate or hand work over to whom, by their newest personas, and
what was given so: how many tasks, how many of them have not ended, and for how
many of them a run waits now.`,
		Example: "deckhand agent graph -o wide",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Agents.GetAgentGraph(cmd.Context(), connect.NewRequest(&deckhandv1.GetAgentGraphRequest{}))
			if err != nil {
				return err
			}
			if len(res.Msg.GetEdges()) == 0 {
				a.notef("no agent may give work to another; name some in a persona's agents.delegate or agents.handoff")
			}
			return output.List(a.printer(), a.edgeNoun(), res.Msg.GetEdges())
		},
	}
}

func (a *app) agentShowCommand() *cobra.Command {
	var number int32
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show an agent and its persona",
		Example: `deckhand agent show log-triage
# as it was
deckhand agent show log-triage --version 1`,
		Args: takes("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.connect()
			if err != nil {
				return err
			}
			res, err := client.Agents.GetAgent(cmd.Context(), connect.NewRequest(&deckhandv1.GetAgentRequest{AgentId: args[0], Version: number}))
			if err != nil {
				return err
			}
			return output.One(a.printer(), a.agentVersionNoun(), res.Msg)
		},
	}
	cmd.Flags().Int32Var(&number, "version", 0, "show this version; the newest by default")
	return cmd
}

// agentVersionNoun shows an agent together with one of its versions.
func (a *app) agentVersionNoun() output.Noun[*deckhandv1.GetAgentResponse] {
	agent := a.agentNoun()
	noun := output.Noun[*deckhandv1.GetAgentResponse]{
		Name: func(x *deckhandv1.GetAgentResponse) string { return agent.Name(x.GetAgent()) },
	}
	for _, c := range agent.Columns {
		noun.Columns = append(noun.Columns, output.Column[*deckhandv1.GetAgentResponse]{
			Header: c.Header, Value: func(x *deckhandv1.GetAgentResponse) string { return c.Value(x.GetAgent()) },
		})
	}
	version := func(header string, block bool, value func(*deckhandv1.AgentVersion) string) {
		noun.Columns = append(noun.Columns, output.Column[*deckhandv1.GetAgentResponse]{
			Header: header, Block: block, Value: func(x *deckhandv1.GetAgentResponse) string { return value(x.GetVersion()) },
		})
	}
	version("shown version", false, func(v *deckhandv1.AgentVersion) string { return fmt.Sprint(v.GetVersion()) })
	version("applied", false, func(v *deckhandv1.AgentVersion) string { return moment(v.GetCreatedAt()) })
	version("by", false, (*deckhandv1.AgentVersion).GetCreatedBy)
	version("digest", false, (*deckhandv1.AgentVersion).GetDigest)
	version("persona", true, (*deckhandv1.AgentVersion).GetMarkdown)
	version("script", true, (*deckhandv1.AgentVersion).GetScript)
	return noun
}
