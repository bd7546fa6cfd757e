// Package systemd holds the units of Deckhand's services: of everything on one machine
// (deckhand.service), of the roles that run apart (deckhand-hub.service,
// deckhand-worker.service, and deckhand-sysusers.service, which creates their user) and of a
// node (deckhand-node.service). The packages install
// them, and so do `deckhand up --install` and `deckhand-node install`, which work where
// there is no package.
package systemd

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"os/exec"
	"strings"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

//go:embed *.service
var units embed.FS

// The names of the units.
const (
	Up     = "deckhand.service"
	Hub    = "deckhand-hub.service"
	Worker = "deckhand-worker.service"
	Node   = "deckhand-node.service"
)

// PackagedDirs are the folders of the units of packages and of "make install".
var PackagedDirs = []string{"/usr/lib/systemd/system", "/lib/systemd/system", "/usr/local/lib/systemd/system"}

// Control runs systemctl. Its error has what systemctl printed.
func Control(ctx context.Context, args ...string) error {
	printed, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(printed))
	}
	return nil
}

// Unit returns the text of a unit that runs program with the configuration in the
// folder etc.
func Unit(name, program, etc string) (string, error) {
	for _, path := range []string{program, etc} {
		if strings.ContainsAny(path, " \t\n%\"'\\") {
			return "", fault.New(fault.Invalid, "the path %q cannot be written in a systemd unit", path).WithFix("use one without spaces, quotes and %%")
		}
	}
	text, err := units.ReadFile(name)
	if err != nil {
		return "", err
	}
	// Not text/template: it calls methods by name, for which the linker would keep every
	// method of the program.
	return strings.NewReplacer("@PROGRAM@", program, "@ETC@", etc).Replace(string(text)), nil
}
