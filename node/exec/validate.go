package exec

import (
	"errors"
	"fmt"
	"math"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/node/jail"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// maxWords limits argv and env together: the kernel accepts about 2 MB, and
	// reports an error itself if a command exceeds its own limit.
	maxWords   = 2 << 20
	maxStdin   = 1 << 20
	maxTimeout = 7 * 24 * time.Hour
)

var execID = regexp.MustCompile(`^[a-z][a-z0-9_.-]{1,63}$`)

// validate rejects a spec from which no command can be made.
func validate(s *nodev1.ExecSpec) error {
	id := s.GetExecId()
	bad := func(field, format string, args ...any) *fault.Error {
		return fault.New(fault.Invalid, field+": "+format, args...).WithCode(fault.InvalidParameters).WithObject(id)
	}
	if !execID.MatchString(id) {
		return bad("exec_id", "%q is not an id", id).WithFix("use 2 to 64 of a-z 0-9 _ . - with a letter first")
	}
	if err := validateHost(s); err != nil {
		return err
	}
	if len(s.GetArgv()) == 0 || s.GetArgv()[0] == "" {
		return bad("argv", "it names no program")
	}
	words := 0
	for _, arg := range s.GetArgv() {
		words += len(arg) + 1
		if strings.ContainsRune(arg, 0) {
			return bad("argv", "an argument holds a NUL byte").WithFix("pass binary data on stdin")
		}
	}
	for _, entry := range s.GetEnv() {
		words += len(entry) + 1
		name, _, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			return bad("env", "an entry is not NAME=value")
		}
		if strings.ContainsRune(entry, 0) {
			return bad("env", "the value of %q holds a NUL byte", strings.ReplaceAll(name, "\x00", "?"))
		}
	}
	if words > maxWords {
		return bad("argv", "argv and env are %d bytes together", words).WithFix("keep them under 2 MiB, or pass data in a file or on stdin")
	}
	if s.GetTool() != "" && (s.GetStdinOpen() || s.GetPty() != nil) {
		return bad("tool", "it is %.128q, and standard input stays open", s.GetTool()).WithFix("leave out stdin_open and pty, or tool")
	}
	if len(s.GetStdin()) > maxStdin {
		return bad("stdin", "it is %d bytes", len(s.GetStdin())).WithFix("keep it under 1 MiB, or pass data in a file")
	}
	if dir := s.GetDir(); dir != "" && (!path.IsAbs(dir) || strings.ContainsRune(dir, 0)) {
		return bad("dir", "%q is not an absolute path in the jail", dir)
	}
	if s.Timeout != nil {
		if t := s.GetTimeout().AsDuration(); t <= 0 || t > maxTimeout {
			return bad("timeout", "%s is out of range", t).WithFix("use more than 0 and at most 7 days")
		}
	}
	if s.BackgroundAfter != nil {
		if after := s.GetBackgroundAfter().AsDuration(); after < 0 || after > maxTimeout {
			return bad("background_after", "%s is out of range", after).WithFix("use at most 7 days, or 0 for a job from its start")
		}
	}
	if s.OfflineGrace != nil {
		if g := s.GetOfflineGrace().AsDuration(); g <= 0 || g > maxTimeout {
			return bad("offline_grace", "%s is out of range", g).WithFix("use more than 0 and at most 7 days")
		}
	}
	if s.GetOutputLimitBytes() < 0 {
		return bad("output_limit_bytes", "it is negative").WithFix("use 0 for the node's own bound")
	}
	if s.Pty != nil {
		if err := validatePty(s.GetPty()); err != nil {
			return err.WithObject(id)
		}
	}
	if _, _, err := parseUser(s.GetUser()); err != nil {
		return bad("user", "%v", err).WithFix("name a user id, or uid:gid, from 1 to 65534, or leave it empty for the jail's own user")
	}
	return nil
}

func validatePty(p *nodev1.Pty) *fault.Error {
	if r, c := p.GetRows(), p.GetCols(); r < 1 || c < 1 || r > math.MaxUint16 || c > math.MaxUint16 {
		return fault.New(fault.Invalid, "pty: %d rows and %d columns is not a valid size", r, c).
			WithCode(fault.InvalidParameters).WithFix("use 1 to 65535 of each")
	}
	return nil
}

// parseUser parses a user and group of a jail; 0 means the jail's default.
func parseUser(text string) (uid, gid uint32, err error) {
	if text == "" {
		return 0, 0, nil
	}
	user, group, both := strings.Cut(text, ":")
	if !both {
		group = user
	}
	for _, part := range []struct {
		text string
		id   *uint32
	}{{user, &uid}, {group, &gid}} {
		n, err := strconv.ParseUint(part.text, 10, 16)
		if err != nil || n == math.MaxUint16 {
			return 0, 0, fmt.Errorf("%q is not a user id of the jail", text)
		}
		if n == 0 {
			return 0, 0, errors.New("commands do not run as root")
		}
		*part.id = uint32(n)
	}
	return uid, gid, nil
}

// validateHost rejects a command on the host that does not hold the node's
// lock.
func validateHost(s *nodev1.ExecSpec) error {
	lock := s.GetHostLock()
	named := lock.GetLockId() != "" && lock.GetHolder() != ""
	switch {
	case s.GetJailId() == jail.HostID && !named:
		return fault.New(fault.Denied, "a command on the machine itself needs the node's lock, and host_lock names none").
			WithFix("lock the node with: deckhand node lock").WithObject(s.GetExecId())
	case s.GetJailId() != jail.HostID && len(s.GetHostPaths()) > 0:
		return fault.New(fault.Invalid, "host_paths: jail %q is not the machine itself", s.GetJailId()).
			WithCode(fault.InvalidParameters).WithFix("leave it empty for a jail").WithObject(s.GetExecId())
	case len(s.GetHostPaths()) > 0 && s.BackgroundAfter != nil:
		return fault.New(fault.Invalid, "host_paths: commands on the machine itself do not go on in the background").
			WithCode(fault.InvalidParameters).WithFix("leave background_after unset").WithObject(s.GetExecId())
	case s.GetJailId() != jail.HostID && lock != nil:
		return fault.New(fault.Invalid, "host_lock: jail %q is not the machine itself", s.GetJailId()).
			WithCode(fault.InvalidParameters).WithFix("leave it unset for a jail").WithObject(s.GetExecId())
	}
	return nil
}
