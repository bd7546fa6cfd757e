package config

import (
	"os"
	"strings"
)

// StateDirectory returns the first folder that systemd made for the state of this service
// (StateDirectory= in systemd.exec(5)); empty if there is none.
func StateDirectory() string {
	first, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":")
	return first
}
