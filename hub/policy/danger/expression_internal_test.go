package danger

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// An expression with its words finds what it finds without them.
func TestWordsHideNoMatch(t *testing.T) {
	t.Parallel()
	all := []*expression{
		execs, deletes, walks, deepDeletes, writes, reads, sockets, fetch, evals, bombs, cBomb, allEnv, chdirs, deletesCall, unreadable, indirect,
		codePattern1, codePattern5, codePattern7, codePattern8, assigned, imported, unpacked, froms, lasting, someLog, someHistory, proc, device, suspicious,
	}
	require.NotEmpty(t, execs.words)
	require.NotEmpty(t, deletes.words)
	pieces := []string{
		"os.", "system", "(", "«1»", ")", " ", "rmtree", "shutil.", "\n", "open", "fork", "while", "1", ":", "{", "kill", "-1", ",", "socket", "import", "as", "=", ";", "x",
		"/proc/", "self", "/root", "/var/log/", "auth.log", "/.bash_history", "/.ssh/authorized_keys", "eval", "urlopen", "os.environ", "chmod", "from", "unlink", "/dev/", "sda", "getline", "|",
	}
	rapid.Check(t, func(t *rapid.T) {
		text := ""
		for _, p := range rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 12).Draw(t, "pieces") {
			text += p
		}
		for _, e := range all {
			if got, want := e.MatchString(text), e.Regexp.MatchString(text); got != want {
				t.Fatalf("%s on %q: %v, want %v (words %q)", e, text, got, want, e.words)
			}
			if got, want := len(e.FindAllStringIndex(text, -1)), len(e.Regexp.FindAllStringIndex(text, -1)); got != want {
				t.Fatalf("%s on %q: %d matches, want %d", e, text, got, want)
			}
		}
	})
}
