package tool

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/deckhand-sh/deckhand/hub/policy/shell"
	"github.com/deckhand-sh/deckhand/hub/tool/forge"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

const (
	gitPushTimeout = 10 * time.Minute
	// inspectTimeout bounds looking at what would be pushed, and inspectOutput what is read of
	// it, in bytes: more than is shown, so that its length can be said.
	inspectTimeout = 20 * time.Second
	inspectOutput  = 1 << 20
	// exitRefused is the script's exit status if it refuses.
	exitRefused = 3
)

//go:embed gitpush.sh
var gitPushScript string

func gitPushTools() []*Tool {
	return []*Tool{{
		Name: toolname.GitPush,
		Description: "Push the commits of a branch to the same branch of a remote, over HTTPS with your persona's credential. " +
			"It pushes what is committed, not the files that are not. A person who is asked sees the commits and the diff, and exactly those commits are pushed. " +
			"Branches that your credential's push rules do not allow are refused. " +
			`Example: {"ref": "deckhand/fix-login", "path": "web"}.`,
		Kind: KindCommunication, Returns: Fetched, Expected: 10 * time.Second, Retryable: true,
		Category: deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE, Place: deckhandv1.ToolPlace_TOOL_PLACE_NODE,
		// The remote says that a second push has nothing to do.
		Idempotent: true, Irreversible: "what others fetch of the pushed commits", Timeout: gitPushTimeout, runs: true, Exact: true,
		Leaves: func(map[string]any) bool { return true },
		schema: `{"type":"object","additionalProperties":false,"required":["ref"],"properties":{
			"ref":{"type":"string","minLength":1,"maxLength":250,"description":"The branch, such as deckhand/fix-login or refs/heads/deckhand/fix-login"},
			"remote":{"type":"string","pattern":"^[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}$","description":"The name of the remote; origin by default"},
			"path":{"type":"string","maxLength":4096,"description":"A folder of the repository; /workspace by default"},
			"force":{"type":"boolean","description":"Replace the branch on the remote even if it has commits that yours lacks. Push rules must allow it"}}}`,
		run: runGitPush, preview: previewGitPush, inspect: inspectGitPush,
	}}
}

// push is what an approval of git_push is for. Old is "-" for a branch that is not there.
type push struct {
	Ref, Old, New, URL string
}

// pushRef returns the full name of the branch of a call.
func pushRef(arguments map[string]any) (string, error) {
	ref := text(arguments, "ref")
	name := strings.TrimPrefix(ref, "refs/heads/")
	if err := forge.CheckBranch("ref", name); err != nil {
		return "", err
	}
	return "refs/heads/" + name, nil
}

// gitPushLine returns the command line of a call. approved is nil to push what is there.
func gitPushLine(mode string, arguments map[string]any, approved *push) (string, error) {
	ref, err := pushRef(arguments)
	if err != nil {
		return "", err
	}
	remote, folder, force := text(arguments, "remote"), text(arguments, "path"), "no"
	if remote == "" {
		remote = "origin"
	}
	if folder == "" {
		folder = shell.Workspace
	} else if !strings.HasPrefix(folder, "/") {
		folder = shell.Workspace + "/" + folder
	}
	if flag(arguments, "force") {
		force = "yes"
	}
	set := [][2]string{{"mode", mode}, {"folder", folder}, {"remote", remote}, {"ref", ref}, {"force", force}, {"new", ""}}
	if approved != nil {
		set = append(set[:5], [2]string{"new", approved.New}, [2]string{"old", approved.Old}, [2]string{"url", approved.URL})
	}
	var line strings.Builder
	for _, one := range set {
		fmt.Fprintf(&line, "%s=%s\n", one[0], quoted(one[1]))
	}
	return line.String() + gitPushScript, nil
}

// quoted returns a text as one word of a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func runGitPush(ctx context.Context, c Call) (Result, error) {
	var approved *push
	if c.Approved != "" {
		approved = &push{}
		if err := json.Unmarshal([]byte(c.Approved), approved); err != nil {
			return Result{}, fmt.Errorf("read what was approved of step %s: %w", c.StepID, err)
		}
	}
	line, err := gitPushLine("push", c.Arguments, approved)
	if err != nil {
		return failure(err)
	}
	exec, err := execute(ctx, c, withShell(c, &nodev1.ExecSpec{
		ExecId: c.ExecID, JailId: c.Jail.GetJailId(), Timeout: durationpb.New(gitPushTimeout), Tool: toolname.GitPush,
	}, line))
	if err != nil {
		return failure(err)
	}
	result, err := shellResult(ctx, c, exec)
	if err != nil || result.Failed || result.Unknown || result.NotStarted {
		return result, err
	}
	output, err := excerpt(ctx, c, Job{ID: c.StepID, ExecID: c.ExecID}, 0, exec.GetLogBytes())
	if err != nil {
		return Result{}, err
	}
	return pushResult(c, exec, result, approved, output), nil
}

// pushResult says how a push ended.
func pushResult(c Call, exec *nodev1.Exec, result Result, approved *push, output string) Result {
	facts, rest := factsOf(output)
	what := push{New: facts["new"], Old: facts["old"], URL: facts["url"]}
	if approved != nil {
		what = *approved
	}
	what.Ref, _ = pushRef(c.Arguments)
	result.Outcome["ref"], result.Outcome["new"], result.Outcome["old"], result.Outcome["url"] = what.Ref, what.New, what.Old, what.URL
	if exec.GetExitCode() == exitRefused {
		refused := refusal(pushRefused(facts["refused"], what.Ref, rest))
		result.Failed, result.Code, result.Observation = true, refused.Code, refused.Observation
		return result
	}
	if exec.GetExitCode() != 0 {
		result.Failed, result.Code = true, fault.CommandFailed
		hint := "If the server or a push rule refuses the branch: credentials.push of the persona says which branches may be created, updated or forced; by default those below deckhand/"
		if strings.Contains(rest, "(stale info)") {
			hint = fmt.Sprintf("%s has changed on the remote since: fetch it, integrate it, and push again", what.Ref)
		}
		result.Observation = fmt.Sprintf("error %s: not pushed (exit status %d)\n%s\n%s", fault.CommandFailed, exec.GetExitCode(), strings.TrimSpace(rest), hint)
		return result
	}
	result.Observation = fmt.Sprintf("pushed %s to %s of %s; before, it %s\n%s", what.New, what.Ref, what.URL, was(what.Old), strings.TrimSpace(rest))
	return result
}

func was(old string) string {
	if old == "-" {
		return "was not there"
	}
	return "was at " + old
}

// factsOf splits the output of the script into the facts at its beginning, and the rest.
func factsOf(output string) (facts map[string]string, rest string) {
	facts = map[string]string{}
	for output != "" {
		line, after, _ := strings.Cut(output, "\n")
		name, value, ok := strings.Cut(line, " ")
		if !ok || !factName[name] {
			break
		}
		facts[name] = value
		output = after
		if name == "refused" || name == "pushing" {
			break
		}
	}
	return facts, output
}

var factName = map[string]bool{
	"new": true, "old": true, "descends": true, "url": true, "removed": true, "commits": true, "base": true, "refused": true, "pushing": true,
}

// pushRefused returns the error for a word of the script. more is text of git.
func pushRefused(said, ref, more string) *fault.Error {
	word, detail, _ := strings.Cut(said, " ")
	is := func(format string, args ...any) *fault.Error {
		return fault.New(fault.Precondition, format, args...).WithCode(fault.InvalidParameters)
	}
	switch word {
	case "no-git":
		return is("the jail has no git").WithFix("use an image that has it")
	case "no-folder":
		return is("the folder of path does not exist").WithFix("name a folder of the repository in path")
	case "no-repository":
		return is("there is no Git repository at path").WithFix("name a folder of the repository in path")
	case "no-branch":
		return is("there is no local branch %s", ref).WithFix("commit to it first, or name another one in ref")
	case "no-space":
		return is("there is no space in /tmp for the branch that is to be pushed").WithFix("delete files in /tmp, or set jail.tmp of the persona")
	case "unreadable":
		return is("the branch %s cannot be read: %s", ref, printable(strings.TrimSpace(detail+"\n"+more))).WithFix("see what git fsck says in the repository")
	case "moved":
		return is("the branch %s has changed", ref).WithFix("push again")
	case "no-remote":
		return is("the repository has no such remote").WithFix("see git remote -v, and name one in remote")
	case "several-urls":
		return is("the remote has several URLs").WithFix("leave it one: git remote set-url")
	case "password":
		return is("the URL of the remote has a user or a password").WithFix("remove them with git remote set-url: the credential is inserted on the way out")
	case "not-https":
		return is("the remote's URL is %.300q, which is not HTTPS", detail).WithFix("set an https URL with git remote set-url: credentials are inserted into HTTPS only")
	case "rewritten":
		return is("the repository's configuration rewrites URLs (url.*.insteadOf)").WithFix("remove that from its .git/config: git config --unset")
	case "unreachable":
		return is("the remote cannot be read: %s", printable(strings.TrimSpace(detail+"\n"+more))).WithFix("check the URL of the remote, and that a credential of the persona is for it")
	case "same":
		return is("the remote's %s has all commits of yours already", ref).WithFix("commit something first")
	case "behind", "diverged":
		return is("%s of the remote has commits that yours lacks", ref).WithFix("fetch it, rebase or merge, and push again; to replace it, set force, if its push rules allow that")
	}
	return fault.New(fault.Precondition, "the push was not made: %.200q", said).WithCode(fault.ToolFailed).WithFix("run git push with shell_exec to see why")
}

func previewGitPush(arguments map[string]any) string {
	remote := text(arguments, "remote")
	if remote == "" {
		remote = "origin"
	}
	out := fmt.Sprintf("push %s to %s", text(arguments, "ref"), remote)
	if path := text(arguments, "path"); path != "" {
		out += ", in " + path
	}
	if flag(arguments, "force") {
		out += ", replacing what is there"
	}
	return out
}

// inspectGitPush runs a command in the jail that only reads. The remote is asked what it has.
func inspectGitPush(ctx context.Context, c Call) (Inspection, error) {
	line, err := gitPushLine("inspect", c.Arguments, nil)
	if err != nil {
		return Inspection{Refused: fault.As(err)}, nil
	}
	c.OutputLimit = inspectOutput
	exec, err := execute(ctx, c, withShell(c, &nodev1.ExecSpec{
		ExecId: c.ExecID, JailId: c.Jail.GetJailId(), Timeout: durationpb.New(inspectTimeout),
	}, line))
	if err != nil {
		return Inspection{}, err
	}
	output, err := readLog(ctx, c, c.ExecID, 0, inspectOutput)
	if err != nil {
		return Inspection{}, err
	}
	ref, err := pushRef(c.Arguments)
	if err != nil {
		return Inspection{}, err
	}
	facts, rest := factsOf(output)
	if facts["refused"] != "" {
		return Inspection{Refused: pushRefused(facts["refused"], ref, rest)}, nil
	}
	long := exec.GetEndReason() == nodev1.EndReason_END_REASON_OUTPUT_LIMIT
	if !long && (exec.GetEndReason() != nodev1.EndReason_END_REASON_EXITED || exec.GetExitCode() != 0) {
		status, _ := describe(exec)
		return Inspection{}, fault.New(fault.Unavailable, "what would be pushed cannot be found out: %s", status).WithFix("push with shell_exec to see why")
	}
	return pushInspection(ref, facts, strings.TrimPrefix(rest, "\n"), long)
}

var objectID = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// pushInspection says what would be pushed. It trusts nothing that the command wrote.
func pushInspection(ref string, facts map[string]string, rest string, long bool) (Inspection, error) {
	p := push{Ref: ref, New: facts["new"], Old: facts["old"], URL: facts["url"]}
	u, err := url.Parse(p.URL)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || len(p.URL) > 2048 || printable(p.URL) != p.URL {
		return Inspection{Refused: pushRefused("not-https "+p.URL, ref, "")}, nil
	}
	if !objectID.MatchString(p.New) || p.Old != "-" && !objectID.MatchString(p.Old) {
		return Inspection{}, fault.New(fault.Unavailable, "git said of what would be pushed: %.200q", rest).WithFix("push with shell_exec to see why")
	}
	state, err := json.Marshal(p)
	if err != nil {
		return Inspection{}, fmt.Errorf("encode what would be pushed: %w", err)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%s\n%s: %s -> %s\n", p.URL, p.Ref, orNew(p.Old), p.New)
	if facts["descends"] == "no" {
		fmt.Fprintf(&out, "THIS REPLACES THE BRANCH: %s commits that are there now are removed from it\n", count(facts["removed"]))
	}
	compared := "with nothing: no commit of the remote is before these"
	if facts["base"] != "-" {
		compared = "with " + printable(facts["base"])
	}
	fmt.Fprintf(&out, "%s commits, the newest first, at most 200 and 16 KiB of them; the diff is compared %s\n", count(facts["commits"]), compared)
	// Whoever shows it marks what misleads; only what cannot be stored is replaced.
	out.WriteString("\n" + strings.ReplaceAll(rest, "\x00", "\uFFFD"))
	if long {
		out.WriteString("\n[... longer than 1 MiB]")
	}
	return Inspection{State: string(state), Preview: out.String()}, nil
}

func orNew(old string) string {
	if old == "-" {
		return "(new)"
	}
	return old
}

// count returns a number as git wrote it, or ?.
func count(s string) string {
	if s == "" || len(s) > 12 || strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' }) {
		return "?"
	}
	return s
}

// printable returns text in which control characters and those that change the direction of
// writing are escaped, so that it reads as it is.
func printable(s string) string {
	var out strings.Builder
	for _, r := range s {
		if r == '\n' || r == '\t' || !unicode.IsControl(r) && !unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp) {
			out.WriteRune(r)
		} else {
			fmt.Fprintf(&out, "\\u%04x", r)
		}
	}
	return out.String()
}
