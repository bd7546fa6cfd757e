// Package listenaddr explains why a program cannot listen on an address. Probe tries
// an address before anything else is started, and Fault turns the error of a listener
// into one for people: if another process has the port, it is named. A process that
// cannot be found, as by a user other than root, is left out.
package listenaddr

import (
	"bufio"
	"encoding/hex"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/deckhand-sh/deckhand/internal/fault"
)

// Probe reports whether a process can listen on the TCP address of a setting. An empty
// address and port 0 always can.
func Probe(field, address string) error {
	if address == "" {
		return nil
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return Fault(field, address, err)
	}
	return listener.Close()
}

// Fault is the error for people of a listener on the address of a setting.
func Fault(field, address string, err error) *fault.Error {
	_, port, _ := net.SplitHostPort(address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		if pid, name := holder(port); pid != 0 {
			return fault.New(fault.Precondition, "cannot listen on --%s %s: %s (process %d) uses that port", field, address, name, pid).
				WithFix("stop it, or choose another address with --%s", field).WithCause(err)
		}
		return fault.New(fault.Precondition, "cannot listen on --%s %s: another program uses that port", field, address).
			WithFix("find it with `ss -ltnp sport = :%s` and stop it, or choose another address with --%s", port, field).WithCause(err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fault.New(fault.Precondition, "cannot listen on --%s %s: this machine does not have that address", field, address).
			WithFix("choose one that `ip address` lists, or 0.0.0.0 for all, with --%s", field).WithCause(err)
	case errors.Is(err, syscall.EACCES):
		return fault.New(fault.Precondition, "cannot listen on --%s %s: only root may use ports below 1024", field, address).
			WithFix("choose a port from 1024 on with --%s, or give the service the capability CAP_NET_BIND_SERVICE", field).WithCause(err)
	}
	return fault.New(fault.Precondition, "cannot listen on --%s %s: %v", field, address, err).
		WithFix("choose another address with --%s", field).WithCause(err)
}

// holder returns the process that listens on a TCP port of this machine, or 0.
func holder(port string) (pid int, name string) {
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return 0, ""
	}
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		for _, inode := range listening(table, uint16(number)) {
			sockets["socket:["+inode+"]"] = true
		}
	}
	if len(sockets) == 0 {
		return 0, ""
	}
	// The only error is a malformed pattern.
	files, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, file := range files {
		target, err := os.Readlink(file)
		if err != nil || !sockets[target] {
			continue
		}
		process := filepath.Dir(filepath.Dir(file))
		comm, err := os.ReadFile(filepath.Join(process, "comm"))
		if err != nil {
			continue
		}
		if pid, err = strconv.Atoi(filepath.Base(process)); err == nil {
			return pid, printable(strings.TrimSpace(string(comm)))
		}
	}
	return 0, ""
}

// printable makes the name of a process, which its owner chooses, harmless.
func printable(name string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, name)
}

// listening returns the inodes of the listening sockets of a port in a table of
// proc(5).
func listening(table string, port uint16) []string {
	file, err := os.Open(table)
	if err != nil {
		return nil
	}
	defer file.Close()
	const local, state, inode, listen = 1, 3, 9, "0A"
	want := ":" + strings.ToUpper(hex.EncodeToString([]byte{byte(port >> 8), byte(port)}))
	var inodes []string
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if f := strings.Fields(lines.Text()); len(f) > inode && f[state] == listen && strings.HasSuffix(f[local], want) {
			inodes = append(inodes, f[inode])
		}
	}
	return inodes
}
