package pattern

import (
	"math"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/deckhand-sh/deckhand/internal/toolname"
)

// stop are words that say nothing about what a task is about.
var stop = strings.Fields(`
about after again all also and any are before being but can check could did does doing done
each few find for from get give goal had has have her here him his how into its just let make
may more most much must need new not now off once one only other our out over own please run
same see she should show some such task tasks than that the their them then there these they
this those through too two under until use used using very want was way well were what when
where which while who why will with would you your`)

// Keywords returns the words of a text that say what it is about: in lower case, each once, in
// their order, at most 24.
func Keywords(text string) []string {
	out := []string{}
	for _, word := range strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if len(word) < 3 || len(word) > 40 || slices.Contains(stop, word) || !strings.ContainsFunc(word, unicode.IsLetter) {
			continue
		}
		word = stem(word)
		if len(out) < maxKeywords && !slices.Contains(out, word) {
			out = append(out, word)
		}
	}
	return out
}

// stem brings the commonest English endings of a word to one form.
func stem(word string) string {
	for _, ending := range []struct{ from, to string }{{"sses", "ss"}, {"ies", "y"}, {"ing", ""}, {"ed", ""}, {"s", ""}} {
		if root, found := strings.CutSuffix(word, ending.from); found && len(root)+len(ending.to) >= 4 && !strings.HasSuffix(root, "s") {
			return root + ending.to
		}
	}
	return word
}

// similarity is the cosine of two sets of words.
func similarity(a, b []string) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	shared := 0
	for _, word := range a {
		if slices.Contains(b, word) {
			shared++
		}
	}
	return float64(shared) / math.Sqrt(float64(len(a)*len(b)))
}

// General is the domain of what belongs to none.
const General = "general"

// domains are the fields of work, with the words and the endings of files that are signs of
// them.
var domains = []struct {
	name  string
	signs []string
}{
	{"go", []string{"go", "golang", "gofmt", ".go", "go.mod"}},
	{"python", []string{"python", "python3", "pip", "pytest", "django", ".py", "pyproject.toml"}},
	{"javascript", []string{"node", "npm", "yarn", "javascript", "typescript", "vitest", ".js", ".ts", ".tsx", "package.json"}},
	{"rust", []string{"cargo", "rust", "rustc", ".rs"}},
	{"java", []string{"java", "maven", "mvn", "gradle", ".java", "pom.xml"}},
	{"database", []string{"database", "postgres", "postgresql", "psql", "mysql", "sqlite", "sqlite3", "migration", "sql", ".sql"}},
	{"container", []string{"docker", "container", "podman", "kubernetes", "kubectl", "helm", "dockerfile"}},
	{"logs", []string{"log", "journal", "incident", toolname.LogDigest, toolname.TailStats, toolname.JournalRead, ".log"}},
	{"web", []string{"website", "page", "browser", "html", toolname.BrowserNavigate, toolname.BrowserClick, ".html", ".css"}},
	{"documents", []string{"document", "report", "summary", "readme", "csv", toolname.CSVProfile, ".md", ".csv", ".pdf", ".docx"}},
	{"operations", []string{"server", "service", "systemctl", "deploy", "backup", toolname.HostExec, toolname.NodeExecMany, toolname.ServiceStatus}},
}

// domainOf returns the field of work of a goal and of what was called for it.
func domainOf(goal string, calls ...string) string {
	count := map[string]int{}
	see := func(text string, weight int) {
		for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '.' && r != '_' && r != '-'
		}) {
			word = strings.Trim(word, ".-")
			ending := path.Ext(word)
			for _, d := range domains {
				if slices.Contains(d.signs, word) || slices.Contains(d.signs, stem(word)) || ending != "" && slices.Contains(d.signs, ending) {
					count[d.name] += weight
				}
			}
		}
	}
	see(goal, 3)
	for _, call := range calls {
		see(call, 1)
	}
	best := General
	for _, d := range domains {
		if count[d.name] > count[best] {
			best = d.name
		}
	}
	return best
}
