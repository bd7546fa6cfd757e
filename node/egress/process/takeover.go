package process

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// takeoverAfter is how long a proxy that is started waits for the one of a daemon before, which
// ends by itself when that daemon does. One that hangs is killed then.
const takeoverAfter = 3 * time.Second

// endOthers kills the proxies that have the folder of this one, except one.
func endOthers(cfg Config, except int) error {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	var problems []error
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || pid == except {
			continue
		}
		if killed, err := endIfProxy(cfg, pid); killed {
			cfg.Log.Warn("killed the egress proxy of a daemon that has ended: it did not end by itself", "pid", pid)
		} else if err != nil {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

// endIfProxy kills a process if it is a proxy with the folder of this one.
func endIfProxy(cfg Config, pid int) (killed bool, err error) {
	if !isProxy(cfg, pid) {
		return false, nil
	}
	// What is looked at from here on is the same process as is killed, whoever gets the number.
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return false, ignoreGone(err)
	}
	defer unix.Close(fd)
	if !isProxy(cfg, pid) {
		return false, nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil {
		return false, ignoreGone(err)
	}
	return true, nil
}

func ignoreGone(err error) error {
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return fmt.Errorf("kill the egress proxy of a daemon that has ended: %w", err)
}

// isProxy reports whether a process runs as the proxy's user with the settings of its folder.
func isProxy(cfg Config, pid int) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil {
		return false
	}
	args := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
	at := slices.Index(args, Argument)
	var s settings
	if at < 0 || at != len(args)-2 || json.Unmarshal([]byte(args[at+1]), &s) != nil || s.Dir != cfg.Dir || s.UID != cfg.UID {
		return false
	}
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return false
	}
	uid := strconv.FormatUint(uint64(cfg.UID), 10)
	for text := range strings.Lines(string(status)) {
		if name, rest, _ := strings.Cut(text, ":"); name == "Uid" {
			return slices.Contains(strings.Fields(rest), uid)
		}
	}
	return false
}
