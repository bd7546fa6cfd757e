package complete

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/deckhand-sh/deckhand/cmd/deckhand/cli/env"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/nearest"
)

// commandSynonyms are words that people try at a group of commands, and what
// Deckhand calls it. They are looked up with the group before them.
var commandSynonyms = map[string]string{ //nolint:gosec // words of commands, no secrets
	"ps": "task list", "status": "task list", "tasks": "task list", "top": "node top", "log": "task logs", "tail": "task logs",
	"watch": "task watch", "attach": "task watch", "events": "task watch", "steps": "task steps", "diff": "task diff", "cancel": "task cancel", "stop": "task cancel",
	"pause": "task pause", "resume": "task resume", "retry": "task retry", "undo": "task undo", "message": "task message",
	"agents": "agent list", "apply": "agent apply", "deploy": "agent apply", "nodes": "node list", "exec": "node exec", "shell": "node shell", "ssh": "node shell",
	"start": "up", "serve": "up", "server": "hub", "login": "open", "console": "open", "ui": "open", "web": "open", "dashboard": "open",
	"connect": "provider connect", "providers": "provider list", "models": "provider list", "key": "provider connect",
	"approve": "inbox approve", "reject": "inbox reject", "approvals": "inbox list", "answer": "inbox answer", "config": "context list", "users": "user list",
	"tokens": "token list", "triggers": "trigger list", "webhook": "trigger create", "cron": "trigger create", "secrets": "credential list", "secret": "credential list",
	"search": "task list --search", "submit": "run", "ask": "run", "check": "doctor", "diagnose": "doctor", "costs": "budget report", "cost": "budget report", "usage": "budget report",
	"task ls": "task list", "agent ls": "agent list", "node ls": "node list", "inbox ls": "inbox list", "task get": "task show", "agent get": "agent show", "node get": "node show",
	"task stop": "task cancel", "task kill": "kill task", "task delete": "task cancel", "task rm": "task cancel", "task tail": "task logs", "task log": "task logs", "task run": "run", "task create": "run", "task start": "run",
	"agent create": "agent apply", "agent deploy": "agent apply", "agent run": "run", "agent stop": "agent pause", "agent start": "agent resume",
	"agent describe": "agent show", "task describe": "task show", "node describe": "node show",
	"inbox get": "inbox show", "inbox view": "inbox show", "node add": "node token", "node join": "node token", "node create": "node token", "node ssh": "node shell",
	"provider add": "provider connect", "provider login": "provider connect", "provider remove": "provider disconnect", "provider delete": "provider disconnect",
	"token delete": "token revoke", "token new": "token create", "user add": "user create", "trigger run": "trigger fire", "trigger add": "trigger create",
	"policy edit": "policy show", "policy set": "policy apply", "budget list": "budget show", "context set": "context use",
}

// valueSynonyms are words that people try as values.
var valueSynonyms = map[string]string{
	"done": "succeeded", "success": "succeeded", "complete": "succeeded", "completed": "succeeded", "finished": "succeeded", "ok": "succeeded",
	"error": "failed", "errored": "failed", "failure": "failed", "canceled": "cancelled", "waiting": "awaiting_approval", "active": "running", "pending_approval": "awaiting_approval",
	"yml": "yaml", "text": "table", "plain": "table", "ids": "name", "names": "name", "daily": "day", "monthly": "month", "administrator": "admin", "owner": "admin", "user": "basic",
	"approvals": "approval", "questions": "question", "organization": "organisation", "org": "organisation", "warning": "warn", "readonly": "viewer",
}

// flagSynonyms are flags that people try. A value with a space is what to type
// instead of the flag.
var flagSynonyms = map[string]string{
	"json": "-o json", "yaml": "-o yaml", "format": "output", "quiet": "-o name", "q": "-o name", "tail": "follow", "name": "agent", "server": "hub", "url": "hub",
	"api-key": "token", "status": "state", "query": "search", "filter": "search", "n": "limit", "count": "limit", "max": "limit", "user": "by", "persona": "filename", "key": "key-file",
	"port": "listen", "address": "listen", "addr": "listen", "dir": "data-dir", "data": "data-dir", "background": "wait=false", "priority-level": "priority",
}

// Correct returns the command that was probably meant where a wrong one failed,
// ready to be typed: with a name, a flag's name or a flag's value put right.
// Empty when nothing is near enough. argv is what was typed, without the
// program's name; cmd and args are what it was understood as.
func (c *Completer) Correct(ctx context.Context, cmd *cobra.Command, argv, args []string, err error) string {
	var unknown *env.UnknownCommand
	switch {
	case errors.As(err, &unknown):
		return correctCommand(unknown, argv)
	case cmd == nil:
		return ""
	}
	if name, ok := unknownFlag(err); ok {
		return c.correctFlag(cmd, argv, name)
	}
	problem := fault.As(err)
	kind := fault.Internal
	if problem != nil {
		kind = problem.Kind
	}
	switch kind {
	case fault.NotFound:
		for i, arg := range args {
			if meant := c.near(ctx, c.at(cmd, i), args[:min(i, len(args))], arg); meant != "" {
				return retyped(argv, arg, meant)
			}
		}
		return c.correctValue(ctx, cmd, argv, true)
	case fault.Invalid:
		for i, arg := range args {
			if how := c.at(cmd, i); len(how.words) > 0 && how.list == nil {
				if meant := nearestWord(arg, how.words); meant != "" {
					return retyped(argv, arg, meant)
				}
			}
		}
		return c.correctValue(ctx, cmd, argv, false)
	}
	return ""
}

// at returns the completion of a positional argument.
func (c *Completer) at(cmd *cobra.Command, i int) completion {
	all := c.positional[cmd]
	if i >= len(all) && len(all) > 0 && repeats(cmd.Use) {
		i = len(all) - 1
	}
	if i < len(all) {
		return all[i]
	}
	return completion{}
}

// near returns the name that is probably meant; empty when the name exists.
func (c *Completer) near(ctx context.Context, how completion, args []string, typed string) string {
	if how.list == nil {
		return ""
	}
	var names []string
	for _, v := range c.values(ctx, how, args) {
		names = append(names, v.name)
		// An id may be shortened.
		if strings.HasPrefix(v.name, typed) && strings.Contains(v.name, "_") {
			return ""
		}
	}
	return nearestWord(typed, names)
}

// nearestWord returns the word that is meant by a wrong one; empty for a right
// one and when none is near.
func nearestWord(typed string, words []string) string {
	if slices.Contains(words, typed) {
		return ""
	}
	for _, word := range words {
		if strings.EqualFold(word, typed) || strings.EqualFold(strings.NewReplacer("-", "_", " ", "_").Replace(typed), word) {
			return word
		}
	}
	if word := valueSynonyms[strings.ToLower(typed)]; slices.Contains(words, word) {
		return word
	}
	return nearest.First(typed, words)
}

// correctValue corrects the value of a flag that has names, or words, of its own.
func (c *Completer) correctValue(ctx context.Context, cmd *cobra.Command, argv []string, names bool) (out string) {
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		how := c.flags[flag]
		if !flagTyped(argv, flag) || out != "" {
			return
		}
		for _, typed := range typedValues(argv, flag) {
			meant := ""
			if len(how.words) > 0 {
				meant = nearestWord(typed, how.words)
			} else if names {
				meant = c.near(ctx, how, nil, typed)
			}
			if meant != "" {
				out = retypedPart(argv, typed, meant)
				return
			}
		}
	})
	return out
}

// unknownFlag returns the flag that pflag does not know.
func unknownFlag(err error) (string, bool) {
	var missing *pflag.NotExistError
	if !errors.As(err, &missing) {
		return "", false
	}
	return missing.GetSpecifiedName(), true
}

func (c *Completer) correctFlag(cmd *cobra.Command, argv []string, typed string) string {
	var names []string
	add := func(flag *pflag.Flag) {
		if !flag.Hidden {
			names = append(names, flag.Name)
		}
	}
	cmd.Flags().VisitAll(add)
	cmd.InheritedFlags().VisitAll(add)
	meant := flagSynonyms[typed]
	dashes := "--" + typed
	if len(typed) == 1 {
		dashes = "-" + typed
	}
	if strings.HasPrefix(meant, "-o ") && slices.Contains(names, "output") {
		return retyped(argv, dashes, strings.Fields(meant)...)
	}
	if !slices.Contains(names, meant) {
		meant = ""
		if len(typed) > 1 {
			meant = nearest.First(typed, names)
		}
	}
	if meant == "" {
		return ""
	}
	for i, word := range argv {
		if word == dashes || strings.HasPrefix(word, dashes+"=") {
			with := slices.Clone(argv)
			with[i] = "--" + meant + strings.TrimPrefix(word, dashes)
			return line(with)
		}
	}
	return ""
}

// correctCommand names the command that is meant by an unknown word.
func correctCommand(unknown *env.UnknownCommand, argv []string) string {
	path := strings.Fields(unknown.Group)[1:]
	meant := ""
	if other, ok := commandSynonyms[strings.Join(append(slices.Clone(path), unknown.Word), " ")]; ok {
		meant = other
	} else if unknown.Near != "" {
		meant = strings.Join(append(slices.Clone(path), unknown.Near), " ")
	}
	if meant == "" {
		return ""
	}
	at := slices.Index(argv, unknown.Word)
	if at < 0 {
		return line(strings.Fields(meant))
	}
	// Flags may stand before the command; they stay, after it.
	var before []string
	for _, word := range argv[:at] {
		if !slices.Contains(path, word) {
			before = append(before, word)
		}
	}
	return line(slices.Concat(strings.Fields(meant), before, argv[at+1:]))
}

// flagTyped reports whether a flag is on the command line.
func flagTyped(argv []string, flag *pflag.Flag) bool { return len(typedValues(argv, flag)) > 0 }

// typedValues returns the values that were typed for a flag, the parts of lists
// one by one.
func typedValues(argv []string, flag *pflag.Flag) (out []string) {
	for i, word := range argv {
		value, found := strings.CutPrefix(word, "--"+flag.Name+"=")
		if !found && (word == "--"+flag.Name || flag.Shorthand != "" && word == "-"+flag.Shorthand) && i+1 < len(argv) {
			value, found = argv[i+1], true
		}
		if found {
			out = append(out, strings.Split(value, ",")...)
		}
	}
	return out
}

// retyped is the command line with one word replaced.
func retyped(argv []string, word string, by ...string) string {
	at := slices.Index(argv, word)
	if at < 0 {
		return ""
	}
	return line(slices.Concat(argv[:at], by, argv[at+1:]))
}

// retypedPart is the command line with a value, or a part of a list, replaced.
func retypedPart(argv []string, part, by string) string {
	for i, word := range argv {
		head, value, is := strings.Cut(word, "=")
		if !is {
			head, value = "", word
		} else {
			head += "="
		}
		parts := strings.Split(value, ",")
		if at := slices.Index(parts, part); at >= 0 {
			parts[at] = by
			with := slices.Clone(argv)
			with[i] = head + strings.Join(parts, ",")
			return line(with)
		}
	}
	return ""
}

// line writes a command as it is typed in a shell. Secrets are not repeated.
func line(argv []string) string {
	out := []string{"deckhand"}
	for i := 0; i < len(argv); i++ {
		if argv[i] == "--token" {
			i++
			continue
		}
		if strings.HasPrefix(argv[i], "--token=") {
			continue
		}
		out = append(out, quote(argv[i]))
	}
	return strings.Join(out, " ")
}

// quote writes a word so that a shell reads it as one.
func quote(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_=/.,:@+%", r)
	}
	if word != "" && strings.IndexFunc(word, func(r rune) bool { return !plain(r) }) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
