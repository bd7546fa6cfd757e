package role

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/deckhand-sh/deckhand/internal/fault"
	deckhandv1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/v1"
	"github.com/deckhand-sh/deckhand/sdk"
)

// localContext is the context that `sudo deckhand up` gives to its user.
const localContext = "local"

// clientsDir is the folder of the tokens that were given so, by user id, so that
// the next start gives the same ones. Only root may read it.
const clientsDir = "clients"

// sudoer is the user who ran sudo.
type sudoer struct {
	uid, gid   uint32
	name, home string
}

// sudoUser returns the user who ran this process with sudo; false when root itself
// did, or another program.
func sudoUser() (sudoer, bool) {
	uid, err := strconv.ParseUint(os.Getenv("SUDO_UID"), 10, 32)
	if err != nil || uid == 0 || os.Geteuid() != 0 {
		return sudoer{}, false
	}
	// The name of the variable is not believed: that of the user database is.
	known, err := user.LookupId(strconv.FormatUint(uid, 10))
	if err != nil {
		return sudoer{}, false
	}
	gid, err := strconv.ParseUint(known.Gid, 10, 32)
	if err != nil || known.HomeDir == "" {
		return sudoer{}, false
	}
	return sudoer{uid: uint32(uid), gid: uint32(gid), name: known.Username, home: known.HomeDir}, true
}

// connect gives the user a token of their own for this hub, as a context of their
// command line, and returns what to say about it. Their other contexts stay, and
// so does the one that is current.
func (s sudoer) connect(ctx context.Context, client *sdk.Client, dataDir string) (string, error) {
	token, err := s.token(ctx, client, dataDir)
	if err != nil {
		return "", err
	}
	// The file is written with the user's own rights: root must not follow what
	// stands in a folder of somebody else.
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "context", "add", localContext, "--replace-loopback", "--hub", client.URL())
	cmd.Env = []string{"HOME=" + s.home, "PATH=/usr/bin:/bin", "DECKHAND_TOKEN=" + token}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: s.uid, Gid: s.gid, Groups: []uint32{s.gid}}, Pdeathsig: syscall.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("store the token for %s: %w: %s", s.name, err, strings.TrimSpace(string(out)))
	}
	return fmt.Sprintf("%s can use it without sudo: the context %q is in %s.", s.name, localContext, filepath.Join(s.home, ".config/deckhand/config.yaml")), nil
}

// token returns the token that the user has from a start before, if it still
// works, or a new one.
func (s sudoer) token(ctx context.Context, client *sdk.Client, dataDir string) (string, error) {
	dir := filepath.Join(dataDir, clientsDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("make the folder of tokens: %w", err)
	}
	path := filepath.Join(dir, strconv.FormatUint(uint64(s.uid), 10))
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the token of %s: %w", s.name, err)
	}
	if kept := strings.TrimSpace(string(data)); kept != "" {
		as, err := sdk.New(sdk.Config{URL: client.URL(), Token: kept})
		if err != nil {
			return "", err
		}
		_, err = as.Agents.ListAgents(ctx, &deckhandv1.ListAgentsRequest{PageSize: 1})
		if err == nil {
			return kept, nil
		}
		if !fault.Is(fault.FromConnect(err), fault.Unauthenticated) {
			return "", fault.FromConnect(err)
		}
	}
	res, err := client.Tokens.CreateToken(ctx, &deckhandv1.CreateTokenRequest{Name: s.name + " on this machine, by sudo deckhand up"})
	if err != nil {
		return "", fault.FromConnect(err)
	}
	if err := os.WriteFile(path, []byte(res.GetSecret()+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("keep the token of %s: %w", s.name, err)
	}
	return res.GetSecret(), nil
}
