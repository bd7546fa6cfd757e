package jail

import (
	"os"
	"runtime"
	"sync"

	"github.com/deckhand-sh/deckhand/node/image"
)

// platform returns what commands of this machine's jails run on, such as "linux/amd64, Debian
// GNU/Linux 12 (bookworm)". Their root shows the machine's own system folders.
var platform = sync.OnceValue(func() string {
	out := runtime.GOOS + "/" + runtime.GOARCH
	for _, file := range []string{"/etc/os-release", "/usr/lib/os-release"} {
		if content, err := os.ReadFile(file); err == nil {
			if name := image.PrettyName(string(content)); name != "" {
				return out + ", " + name
			}
		}
	}
	return out
})
