package agent

import (
	_ "embed"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/persona"
)

// template is a persona in which every common key is explained. Lines that begin with #
// and a letter or a blank-less dash are settings to be switched on; those that begin with
// "# " are text.
//
//go:embed template.md
var template string

// scriptTemplate is the script of a persona that needs no model.
const scriptTemplate = `# What the scripted model does, turn by turn: see docs/scripted-model.md.
turns:
  - text: I write a file, so that there is something to see.
    calls:
      - tool: file_write
        arguments: {path: hello.txt, content: "Hello from a new agent.\n"}
  - text: That is all.
    calls:
      - tool: complete_task
        arguments: {summary: "Wrote hello.txt."}
`

// initOptions are the flags of agent init.
type initOptions struct {
	name, provider, model string
}

func initCommand(e *env.Env) *cobra.Command {
	var o initOptions
	cmd := &cobra.Command{
		Use: "init [FILE]", Short: "Write a persona file with every common key explained",
		Long: `Writes the file, agent.md by default, and never over one that is there. Keys
that have a default are commented out, with the default. With --provider script it
also writes the script of a model that needs no provider, to try things out with.`,
		Example: `deckhand agent init log-reader.md
deckhand agent init try.md --provider script`,
		Args: env.Args("[FILE]"),
		RunE: func(_ *cobra.Command, args []string) error {
			path := "agent.md"
			if len(args) > 0 {
				path = args[0]
			}
			return o.write(e, path)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.name, "name", "", "the agent's name; the file's by default")
	flags.StringVar(&o.provider, "provider", "anthropic", "the model family, or script for a scripted model")
	flags.StringVar(&o.model, "model", "claude-sonnet-5-5", "the provider's name of the model")
	return cmd
}

// write creates the files.
func (o initOptions) write(e *env.Env, path string) error {
	base := strings.TrimSuffix(path, filepath.Ext(path))
	if o.name == "" {
		o.name = filepath.Base(base)
	}
	markdown, files := o.persona(filepath.Base(base)), map[string]string{}
	if _, err := persona.Parse(path, []byte(markdown), persona.Vocabulary{}); err != nil {
		return fault.New(fault.Invalid, "%s", err.Error()).WithFix("give other values with --name, --provider and --model")
	}
	files[path] = markdown
	if o.provider == persona.ProviderScript {
		files[base+".script.yaml"] = scriptTemplate
	}
	for name, text := range files {
		file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644) //nolint:gosec,mnd // a text for people, to be edited
		if errors.Is(err, fs.ErrExist) {
			return fault.New(fault.Exists, "there is a file %s already", name).WithFix("name another one")
		}
		if err == nil {
			_, err = file.WriteString(text)
			err = errors.Join(err, file.Close())
		}
		if err != nil {
			return fault.New(fault.Invalid, "cannot write %s: %v", name, err).WithFix("name a file in a folder that is there")
		}
	}
	e.Notef("wrote %s; change it, and then: deckhand agent apply -f %s", path, path)
	return nil
}

// persona returns the text of a file of a base name.
func (o initOptions) persona(base string) string {
	model := "model: " + o.model
	if o.provider == persona.ProviderScript {
		model = "script: " + base + ".script.yaml"
	}
	return strings.NewReplacer("NAME", o.name, "PROVIDER", o.provider, "MODEL", model).Replace(template)
}
