package jail

import (
	"os"
	"runtime"
	"strings"
	"sync"
)

// platform returns what commands of this machine's jails run on, such as "linux/amd64, Debian
// GNU/Linux 12 (bookworm)". Their root shows the machine's own system folders.
var platform = sync.OnceValue(func() string {
	out := runtime.GOOS + "/" + runtime.GOARCH
	for _, file := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		if content, err := os.ReadFile(file); err == nil {
			if name := prettyName(string(content)); name != "" {
				return out + ", " + name
			}
		}
	}
	return out
})

// prettyName returns the name of the distribution that an os-release file gives; see
// os-release(5). What has control characters is no name.
func prettyName(osRelease string) string {
	for line := range strings.Lines(osRelease) {
		value, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME=")
		if !ok {
			continue
		}
		return strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return -1
			}
			return r
		}, strings.ToValidUTF8(strings.Trim(value, `"'`), ""))
	}
	return ""
}
