package tool

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/deckhand-sh/deckhand/internal/nodelink"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

// withShell returns a spec with a command line for the jail's shell: bash, or what an image
// has in its place.
func withShell(c Call, spec *nodev1.ExecSpec, command string) *nodev1.ExecSpec {
	spec.Argv = []string{"/bin/bash", "-c", command}
	if c.Jail.GetRootfs() == nodelink.RootImage {
		spec.Shell = &nodev1.Shell{PlainArgv: plainArgv(command)}
	}
	return spec
}

// plainArgv returns the arguments of a command line that needs no shell, which is one
// program with literal arguments; nil for any other.
func plainArgv(command string) []string {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil || len(file.Stmts) != 1 {
		return nil
	}
	stmt := file.Stmts[0]
	call, ok := stmt.Cmd.(*syntax.CallExpr)
	if !ok || stmt.Negated || stmt.Background || stmt.Coprocess || stmt.Disown || len(stmt.Redirs) > 0 || len(call.Assigns) > 0 {
		return nil
	}
	var out []string
	for _, word := range call.Args {
		text, ok := literalWord(word.Parts)
		if !ok {
			return nil
		}
		out = append(out, text)
	}
	return out
}

// literalWord returns a word that a shell would not expand.
func literalWord(parts []syntax.WordPart) (string, bool) {
	var out strings.Builder
	for _, part := range parts {
		switch part := part.(type) {
		case *syntax.Lit:
			if strings.ContainsAny(part.Value, `\*?[]{}~`) {
				return "", false
			}
			out.WriteString(part.Value)
		case *syntax.SglQuoted:
			if part.Dollar {
				return "", false
			}
			out.WriteString(part.Value)
		case *syntax.DblQuoted:
			for _, inner := range part.Parts {
				text, ok := inner.(*syntax.Lit)
				if !ok || part.Dollar || strings.Contains(text.Value, `\`) {
					return "", false
				}
				out.WriteString(text.Value)
			}
		default:
			return "", false
		}
	}
	return out.String(), true
}
