package arch_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The recipes of CONTRIBUTING.md lead where they say: each is performed on a copy of the
// tree, and what it adds works then.
func TestRecipes(t *testing.T) {
	t.Parallel()
	for name, recipe := range map[string]func(workCopy){"a webhook sender": addSender, "a tool": addTool} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recipe(copied(t))
		})
	}
}

// addSender adds a sender that signs with an HMAC in a header.
func addSender(tr workCopy) {
	tr.write("hub/work/trigger/sender/acme.go", `package sender

import "github.com/deckhand-sh/deckhand/hub/work/trigger/verify"

var acme = Sender{
	Name: "acme", Label: "Acme", How: "`+"`X-Acme-Signature`"+`",
	Verify: verify.Rule{Scheme: verify.HMAC, Header: "X-Acme-Signature"},
	Filter: "payload.?state.orValue('') == 'broken'",
	Goal:   "Repair {{ payload.?part.orValue('') }}.",
	Example: Example{
		Body:   `+"`{\"state\":\"broken\",\"part\":\"the anvil\"}`"+`,
		Prompt: []string{"Repair ", "the anvil"},
	},
}
`)
	tr.replace("hub/work/trigger/sender/sender.go", "token, signed}", "token, signed, acme}")
	tr.run("go", "run", "./scripts/facts")
	tr.contains("docs/triggers.md", "| `acme` | `X-Acme-Signature` |")
	tr.contains("docs/triggers.md", "`acme`, `alertmanager` and `json` come with a filter")
	tr.contains("ui/src/gen/facts.ts", `{ name: "acme", label: "Acme", preset: true, proof: true }`)
	tr.contains("cmd/deckhand/cli/trigger/sender.go", `"acme"`)
	// Its example is filtered and mapped, and its proof is one that a trigger takes.
	tr.run("go", "test", "-vet=off", "./hub/work/trigger/sender")
	out := tr.run("go", "test", "-vet=off", "-v", "-run", "^(TestTheExampleOfEverySenderIsMapped|TestPresetsWithOddPayloads|TestAnUnknownSenderIsRefused)$", "./hub/work/trigger")
	require.Equal(tr.t, 3, strings.Count(out, "--- PASS: Test"), out)
}

// addTool adds a tool that runs in the worker.
func addTool(tr workCopy) {
	tr.replace("internal/toolname/toolname.go", "	CompleteTask ", "	CoinFlip         = \"coin_flip\"\n	CompleteTask ")
	tr.replace("hub/tool/work.go", `	return []*Tool{
`, `	return []*Tool{
		{
			Name:        toolname.CoinFlip,
			Description: "Flip a coin. Example: {}.",
			Kind:        KindWork,
			Category:    safe, Place: worker, Idempotent: true, Reversible: true, Timeout: workTimeout,
			schema: `+"`{\"type\":\"object\",\"additionalProperties\":false}`"+`,
			run:    func(context.Context, Call) (Result, error) { return Result{Observation: "heads"}, nil },
		},
`)
	tr.run("go", "run", "./scripts/facts")
	tr.contains("docs/tools.md", "`coin_flip`")
	tr.write("hub/tool/coin_test.go", `package tool_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/tool"
	"github.com/deckhand-sh/deckhand/internal/toolname"
)

func TestTheNewToolRuns(t *testing.T) {
	r, err := tool.NewRegistry()
	require.NoError(t, err)
	got, err := r.Get(toolname.CoinFlip).Run(t.Context(), tool.Call{})
	require.NoError(t, err)
	require.Equal(t, "heads", got.Observation)
}
`)
	tr.run("go", "test", "-vet=off", "./hub/tool")
}

// workCopy is a copy of the module's tree.
type workCopy struct {
	t   *testing.T
	dir string
}

// copied copies what git knows, or would add, into a temporary folder.
func copied(t *testing.T) workCopy {
	t.Helper()
	tr := workCopy{t, t.TempDir()}
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", "--", "*.go", "go.mod", "go.sum", "*.sql", "hub/*.sh", "hub/*.yaml", "hub/*.json", "docs", "ui/src", "sdk/ts/src", "personas", "policies")
	cmd.Dir = root
	list, err := cmd.Output()
	require.NoError(t, err)
	for path := range strings.SplitSeq(strings.TrimSuffix(string(list), "\x00"), "\x00") {
		data, err := os.ReadFile(filepath.Join(root, path))
		if os.IsNotExist(err) {
			continue // deleted, and not committed yet
		}
		require.NoError(t, err)
		tr.write(path, string(data))
	}
	return tr
}

func (tr workCopy) write(path, text string) {
	tr.t.Helper()
	to := filepath.Join(tr.dir, path)
	require.NoError(tr.t, os.MkdirAll(filepath.Dir(to), 0o755))
	require.NoError(tr.t, os.WriteFile(to, []byte(text), 0o600))
}

func (tr workCopy) read(path string) string {
	tr.t.Helper()
	data, err := os.ReadFile(filepath.Join(tr.dir, path))
	require.NoError(tr.t, err)
	return string(data)
}

func (tr workCopy) contains(path, text string) {
	tr.t.Helper()
	require.True(tr.t, strings.Contains(tr.read(path), text), "%s does not contain %s", path, text)
}

func (tr workCopy) replace(path, old, text string) {
	tr.t.Helper()
	data := tr.read(path)
	require.Equal(tr.t, 1, strings.Count(data, old), "%s has %q once", path, old)
	tr.write(path, strings.Replace(data, old, text, 1))
}

func (tr workCopy) run(name string, args ...string) string {
	tr.t.Helper()
	cmd := exec.CommandContext(tr.t.Context(), name, args...)
	cmd.Dir = tr.dir
	out, err := cmd.CombinedOutput()
	require.NoError(tr.t, err, "%s %s\n%s", name, strings.Join(args, " "), out)
	return string(out)
}
