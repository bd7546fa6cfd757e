// Package remote finds out from where the command line is used: over SSH, or at
// the machine itself. Its functions do not fail: what is not known is "".
package remote

import (
	"net"
	"os"
	"os/user"
	"strings"
)

// Target returns what to give to ssh to come to this machine in the way in which
// this session came, USER@ADDRESS; "" when it did not come over SSH.
func Target() string {
	// SSH_CONNECTION is: client address, client port, server address, server port.
	fields := strings.Fields(os.Getenv("SSH_CONNECTION"))
	if len(fields) != 4 || net.ParseIP(fields[2]) == nil {
		return ""
	}
	target := fields[2]
	if name := userName(); name != "" {
		target = name + "@" + target
	}
	if fields[3] != "22" {
		target = "-p " + fields[3] + " " + target
	}
	return target
}

// Host returns Target, or this machine's name for a session that did not come
// over SSH.
func Host() string {
	if target := Target(); target != "" {
		return target
	}
	host, err := os.Hostname()
	if err != nil {
		return ""
	}
	return host
}

// userName is the person's, also below sudo.
func userName() string {
	for _, variable := range []string{"SUDO_USER", "USER"} {
		if name := os.Getenv(variable); name != "" {
			return name
		}
	}
	current, err := user.Current()
	if err != nil {
		return ""
	}
	return current.Username
}
