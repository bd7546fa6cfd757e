// Package devcontainer reads devcontainer.json, in which a repository says which container
// image its tools are in (https://containers.dev/implementors/json_reference/).
//
// It takes what an image, its environment, its user and the commands that prepare a
// workspace are, and ignores what concerns editors. What would make a container that is not
// the image, such as a Dockerfile or features, is refused with what to do instead.
package devcontainer

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/imageref"
)

// Paths are where the file may be in a workspace, in the order in which they are tried.
var Paths = []string{".devcontainer/devcontainer.json", ".devcontainer.json"}

const (
	// MaxBytes bounds the file.
	MaxBytes = 256 << 10
	// maxCommands bounds the commands after creation, and maxCommand each of them, in bytes.
	maxCommands = 50
	maxCommand  = 8 << 10
	// maxEnv bounds the environment, in bytes.
	maxEnv = 32 << 10
)

// Config is what a devcontainer.json says of a container.
type Config struct {
	// Image is its image, as REGISTRY/NAME:TAG or with a digest.
	Image string `json:"image"`
	// Env are the variables that its commands get, as NAME=value, sorted.
	Env []string `json:"env,omitempty"`
	// Root says that commands run as root.
	Root bool `json:"root,omitempty"`
	// PostCreate are the commands that run once in a new workspace.
	PostCreate []Command `json:"post_create,omitempty"`
}

// Command is a command: a line for the shell, or a program with arguments.
type Command struct {
	// Name is its key, if there are several.
	Name string   `json:"name,omitempty"`
	Line string   `json:"line,omitempty"`
	Argv []string `json:"argv,omitempty"`
}

// file is devcontainer.json as far as it matters.
type file struct {
	Image             string
	ContainerEnv      map[string]string
	RemoteEnv         map[string]*string
	RemoteUser        string
	ContainerUser     string
	PostCreateCommand json.RawMessage
	Build             json.RawMessage
	DockerFile        json.RawMessage
	DockerComposeFile json.RawMessage
	Features          json.RawMessage
}

// Parse parses a devcontainer.json, which may have comments. An error says which key is
// wrong and what to write.
func Parse(data []byte) (Config, error) {
	if len(data) > MaxBytes {
		return Config{}, invalid("it has %d bytes; at most %d are read", len(data), MaxBytes).WithFix("make it smaller")
	}
	plain, err := hujson.Standardize(data)
	if err != nil {
		return Config{}, invalid("it is not JSON with comments: %v", err).WithFix("correct it")
	}
	var f file
	if err := json.Unmarshal(plain, &f); err != nil {
		return Config{}, invalid("%v", err).WithFix("see https://containers.dev/implementors/json_reference/")
	}
	if err := f.refuse(); err != nil {
		return Config{}, err
	}
	if _, err := imageref.Parse(f.Image); err != nil {
		return Config{}, invalid("image is %q", f.Image).WithFix("%s", fault.As(err).Fix)
	}
	out := Config{Image: f.Image}
	if out.Env, err = f.env(); err != nil {
		return Config{}, err
	}
	user := f.RemoteUser
	if user == "" {
		user = f.ContainerUser
	}
	out.Root = user == "root" || user == "0"
	out.PostCreate, err = commands(f.PostCreateCommand)
	return out, err
}

func invalid(format string, args ...any) *fault.Error {
	return fault.New(fault.Precondition, "devcontainer.json: "+format, args...).WithCode(fault.ImageUnavailable)
}

// given reports whether a value says anything.
func given(raw json.RawMessage) bool {
	text := strings.TrimSpace(string(raw))
	return text != "" && text != "null" && text != "{}" && text != "[]" && text != `""`
}

// refuse refuses what would make another container than that of an image.
func (f *file) refuse() error {
	switch {
	case given(f.Features):
		return invalid("features change the image while it is built, and nothing is built here").
			WithFix("remove features, and install the same in the persona: jail.setup: [apt-get update, apt-get install -y PACKAGE]")
	case given(f.Build) || given(f.DockerFile):
		return invalid("build makes an image from a Dockerfile, and nothing is built here").
			WithFix("build and push it (docker build -t REGISTRY/NAME:TAG . && docker push REGISTRY/NAME:TAG), and write \"image\": \"REGISTRY/NAME:TAG\" in place of build")
	case given(f.DockerComposeFile):
		return invalid("dockerComposeFile describes several containers, and a jail is one").
			WithFix("write \"image\": \"REGISTRY/NAME:TAG\", and start what else is needed as a job")
	case f.Image == "":
		return invalid("it names no image").WithFix("write \"image\": \"REGISTRY/NAME:TAG\"")
	}
	return nil
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// env returns the environment of both kinds. Variables of the machine that edits a workspace
// have no meaning here.
func (f *file) env() (out []string, err error) {
	all := map[string]string{}
	maps.Copy(all, f.ContainerEnv)
	for name, value := range f.RemoteEnv {
		if value != nil {
			all[name] = *value
		}
	}
	size := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		value := all[name]
		for variable, means := range variables {
			value = strings.ReplaceAll(value, variable, means)
		}
		switch {
		case !envName.MatchString(name):
			return nil, invalid("containerEnv has the name %q", name).WithFix("use letters, digits and _")
		case ChangesPrograms(name):
			return nil, invalid("containerEnv has %s, which changes which programs a command runs: a policy would decide on another command than the one that runs", name).
				WithFix("remove it, and set it in the image, or in the commands that need it")
		case strings.Contains(value, "${"):
			return nil, invalid("containerEnv.%s has the variable in %q, which has no value here", name, value).
				WithFix("write the value itself, or one of: %s", strings.Join(slices.Sorted(maps.Keys(variables)), ", "))
		case strings.ContainsRune(value, 0):
			return nil, invalid("containerEnv.%s has a NUL byte", name).WithFix("remove it")
		}
		size += len(name) + len(value) + 2
		out = append(out, name+"="+value)
	}
	if size > maxEnv {
		return nil, invalid("containerEnv has %d bytes; at most %d are taken", size, maxEnv).WithFix("make it smaller")
	}
	return out, nil
}

// ChangesPrograms reports whether a variable changes which programs or code a command runs:
// nothing that others than the image may set, such as an agent that writes the file itself.
func ChangesPrograms(name string) bool {
	upper := strings.ToUpper(name)
	return slices.Contains([]string{"PATH", "ENV", "IFS", "SHELL", "SHELLOPTS", "PROMPT_COMMAND", "NODE_OPTIONS", "RUBYOPT", "PYTHONSTARTUP", "PYTHONHOME", "PYTHONPATH", "JAVA_TOOL_OPTIONS", "EDITOR", "VISUAL", "PAGER"}, upper) ||
		slices.ContainsFunc([]string{"LD_", "DYLD_", "BASH", "GIT_", "PERL5", "SSH_"}, func(prefix string) bool { return strings.HasPrefix(upper, prefix) })
}

// variables are those of the format that have a value in a jail.
var variables = map[string]string{
	"${containerWorkspaceFolder}":         "/workspace",
	"${containerWorkspaceFolderBasename}": "workspace",
}

// commands parses postCreateCommand: a line, a program with arguments, or several of both by
// their names, which run in the order of the names.
func commands(raw json.RawMessage) ([]Command, error) {
	if !given(raw) {
		return nil, nil
	}
	if raw[0] != '{' {
		one, err := command("postCreateCommand", raw)
		if err != nil {
			return nil, err
		}
		return []Command{one}, nil
	}
	var named map[string]json.RawMessage
	if err := json.Unmarshal(raw, &named); err != nil {
		return nil, invalid("postCreateCommand: %v", err)
	}
	if len(named) > maxCommands {
		return nil, invalid("postCreateCommand has %d commands; at most %d are run", len(named), maxCommands).WithFix("put them into a script")
	}
	var out []Command
	for _, name := range slices.Sorted(maps.Keys(named)) {
		one, err := command("postCreateCommand."+name, named[name])
		if err != nil {
			return nil, err
		}
		one.Name = name
		out = append(out, one)
	}
	return out, nil
}

func command(key string, raw json.RawMessage) (out Command, err error) {
	if len(raw) > maxCommand {
		return out, invalid("%s has %d bytes; at most %d are taken", key, len(raw), maxCommand).WithFix("put it into a script")
	}
	if json.Unmarshal(raw, &out.Line) == nil && strings.TrimSpace(out.Line) != "" {
		return out, noNUL(key, out.Line)
	}
	if json.Unmarshal(raw, &out.Argv) == nil && len(out.Argv) > 0 && out.Argv[0] != "" {
		return out, noNUL(key, out.Argv...)
	}
	return out, invalid("%s is neither a command line nor a list of a program and its arguments", key).WithFix(`write "npm ci" or ["npm", "ci"]`)
}

func noNUL(key string, texts ...string) error {
	if slices.ContainsFunc(texts, func(text string) bool { return strings.ContainsRune(text, 0) }) {
		return invalid("%s has a NUL byte", key).WithFix("remove it")
	}
	return nil
}

// String returns a command as a person reads it.
func (c Command) String() string {
	if c.Line != "" {
		return c.Line
	}
	quoted := make([]string, len(c.Argv))
	for i, arg := range c.Argv {
		quoted[i] = arg
		if arg == "" || strings.ContainsAny(arg, " \t\n\"'\\$`") {
			quoted[i] = fmt.Sprintf("%q", arg)
		}
	}
	return strings.Join(quoted, " ")
}
