// Package datadir returns the path of the folder in which `deckhand up` and a
// hub keep their data on this machine, and of the files in it by which the
// command line finds the hub. Its functions return errors only if the user has
// no home folder.
package datadir

import (
	"fmt"
	"os"
	"path/filepath"
)

// System is the data folder of root.
const System = "/var/lib/deckhand"

// SystemHub is the data folder of the service deckhand-hub.
const SystemHub = "/var/lib/deckhand-hub"

// Files of the data folder. All have mode 0600 except URLFile, by which users
// other than root learn that a hub runs.
const (
	// AdminTokenFile holds the token that lets the command line on the same
	// machine call the hub as its administrator.
	AdminTokenFile = "admin-token"
	// WorkerTokenFile holds the token of the first installation's workers.
	WorkerTokenFile = "worker-token"
	// URLFile holds the URL of the hub's API.
	URLFile = "hub-url"
	// LogFile is the log of a `deckhand up` at a terminal.
	LogFile = "log/up.jsonl"
)

// Default returns the data folder that is used unless another is named:
// /var/lib/deckhand for root, ~/.local/share/deckhand for other users.
func Default() (string, error) {
	if os.Geteuid() == 0 {
		return System, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the data folder: %w", err)
	}
	return filepath.Join(home, ".local", "share", "deckhand"), nil
}
