package tool

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/toolname"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
)

// maxPreview bounds a preview in bytes.
const maxPreview = 4 << 10

// Preview describes to a person what a call would do. Secrets in it are not masked.
func (t *Tool) Preview(arguments map[string]any) string {
	most := cmp.Or(t.previewBytes, maxPreview)
	if t.preview != nil {
		return cut(t.preview(arguments), most)
	}
	data, err := json.MarshalIndent(arguments, "", "  ")
	if err != nil {
		return "" // came from JSON
	}
	return cut(string(data), most)
}

// maxTitle bounds a title in bytes.
const maxTitle = 200

// Title returns a line about a call: the tool, and what it is called on.
func Title(name string, arguments map[string]any) string {
	object := ""
	switch {
	case text(arguments, "command") != "":
		object = firstCommand(text(arguments, "command"))
	case text(arguments, "from") != "":
		object = text(arguments, "from") + " -> " + text(arguments, "to")
	case name == toolname.GitPush:
		object = text(arguments, "ref")
	default:
		for _, key := range []string{"path", "url", "query", "pattern", "question", "goal", "agent", "name", "job", "repository", "subject", "title", "event", "target", "expression", "key"} {
			if object = text(arguments, key); object != "" {
				break
			}
		}
		object = firstLine(object)
	}
	if len(object) > maxTitle {
		object = strings.ToValidUTF8(object[:maxTitle], "") + "..."
	}
	return strings.TrimSuffix(name+" "+object, " ")
}

// prelude begins lines of a script that say nothing about what it does.
var prelude = []string{"#", "set -", "set +", "export ", "cd "}

// firstCommand returns the first line of a script that says what it does, with how many
// lines the script has.
func firstCommand(script string) string {
	lines := strings.Split(strings.TrimSpace(script), "\n")
	if len(lines) == 1 {
		return lines[0]
	}
	first := lines[0]
	for _, line := range lines {
		line = strings.TrimSpace(line)
		// A line that runs something else too, such as cd x && make, says more.
		plain := line == "" || !strings.ContainsAny(line, "&|;`") && !strings.Contains(line, "$(") && slices.ContainsFunc(prelude, func(p string) bool { return strings.HasPrefix(line, p) })
		if !plain {
			first = line
			break
		}
	}
	return fmt.Sprintf("%s (%d lines)", first, len(lines))
}

// firstLine returns the first line of a text that is not empty.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimLeft(s, " \t\n"), "\n")
	return line
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s\n[... %d bytes in all]", strings.ToValidUTF8(s[:most], ""), len(s))
}

func previewShell(arguments map[string]any) string {
	if dir := text(arguments, "cwd"); dir != "" {
		return "in " + dir + ":\n" + text(arguments, "command")
	}
	return text(arguments, "command")
}

func previewFileWrite(arguments map[string]any) string {
	content := text(arguments, "content")
	return fmt.Sprintf("%s, %d bytes:\n%s", text(arguments, "path"), len(content), content)
}

// mostHarmful is the worst category of tool that a role may use.
var mostHarmful = map[string]deckhandv1.ToolCategory{
	"viewer":   deckhandv1.ToolCategory_TOOL_CATEGORY_UNSPECIFIED,
	"basic":    deckhandv1.ToolCategory_TOOL_CATEGORY_SAFE,
	"advanced": deckhandv1.ToolCategory_TOOL_CATEGORY_MODERATE,
	"admin":    deckhandv1.ToolCategory_TOOL_CATEGORY_DANGEROUS,
}

// Covers reports whether a role may use tools of a category.
func Covers(role string, category deckhandv1.ToolCategory) bool { return category <= mostHarmful[role] }

// CategoryName returns a category's name in its stored form.
func CategoryName(category deckhandv1.ToolCategory) string {
	return strings.ToLower(strings.TrimPrefix(category.String(), "TOOL_CATEGORY_"))
}

// CategoryOf returns the category with a name.
func CategoryOf(name string) deckhandv1.ToolCategory {
	return deckhandv1.ToolCategory(deckhandv1.ToolCategory_value["TOOL_CATEGORY_"+strings.ToUpper(name)])
}
