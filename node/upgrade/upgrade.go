// Package upgrade replaces the program of a node by that of a newer release, when the node's
// hub asks.
//
// The hub names a version and a digest, and nothing that it says or serves is believed:
// Prepare downloads the release's list of digests with its signature, verifies it with the
// release key that is on the machine since its installation, refuses a version that is not
// newer than the running one, and downloads the program whose digest the list has. Then the
// daemon stops, and [Ready.Take] tries the new program: it starts it in place of the daemon,
// as a child, and waits until the hub has accepted its session and sent heartbeats. Only then
// is the old program replaced, and this process becomes the new one, under the same id. If the
// new program ends or has no such session within [TrialTime], it is stopped and the old one
// goes on. What is installed is what was verified: the digest is compared once more.
//
// The file of the old program is not touched before the new one has worked, so a machine
// that fails during the trial starts the old one. Jails and their commands belong to
// containerd and to the init of each jail, and continue throughout.
package upgrade

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/jedisct1/go-minisign"
	"golang.org/x/mod/semver"

	"github.com/deckhand-sh/deckhand/internal/backoff"
	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/textcut"
	"github.com/deckhand-sh/deckhand/internal/version"
	"github.com/deckhand-sh/deckhand/internal/wholefile"
	nodev1 "github.com/deckhand-sh/deckhand/proto/gen/deckhand/node/v1"
)

const (
	// Path is below the hub's URL: there is a release as scripts/release makes it.
	Path = "/install/"
	// SumsFile lists the digests of a release.
	SumsFile = "SHA256SUMS"
	// SignatureFile is its signature by minisign.
	SignatureFile = SumsFile + ".minisig"
	// ProgramFile begins the name of the program; the kind of machine follows.
	ProgramFile = "deckhand-node-linux-"

	// signedFor begins the trusted comment of a release's signature: "Deckhand 1.2.3 of …".
	signedFor = "trusted comment: Deckhand "

	maxSums      = 1 << 20
	maxSignature = 8 << 10
	maxProgram   = 256 << 20
	maxProblem   = 500
	// downloadTime is how long the downloads may take together.
	downloadTime = 10 * time.Minute
	// versionTime is how long the new program may take to say its version.
	versionTime = 20 * time.Second

	stateFile = "state.json"
	// downloaded begins the names of programs that were downloaded; their digest follows.
	downloaded = "deckhand-node-"
	// downloading and temporary are the names of files that are being written.
	downloading, temporary = ".download-*", ".deckhand-node-*"
)

// Config says where an Upgrader finds what it needs. All are required but Client.
type Config struct {
	// Key is the file of the release key, a public key of minisign.
	Key string
	// Dir keeps the new program until it has replaced the old one, and what became of the
	// last upgrade.
	Dir string
	// HubURL returns the address of the hub's API.
	HubURL func() string
	// Trial says that this program is tried.
	Trial bool
	// Client downloads; nil for http.DefaultClient.
	Client *http.Client
	Log    hclog.Logger
}

// Upgrader upgrades this process's program.
type Upgrader struct {
	cfg Config
	// self is the file of this program when it was started, and running what it was.
	self    string
	running os.FileInfo

	mu sync.Mutex // one upgrade at a time
	// pending is what Prepare returned and nobody has dropped.
	pending *Ready
}

// New creates an Upgrader.
func New(cfg Config) (*Upgrader, error) {
	if cfg.Client == nil {
		cfg.Client = http.DefaultClient
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	// As the egress proxy, which is the same program, may have to read it as another user.
	if err := os.MkdirAll(cfg.Dir, 0o711); err != nil {
		return nil, fmt.Errorf("make the folder of upgrades: %w", err)
	}
	running, err := os.Stat("/proc/self/exe")
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	u := &Upgrader{cfg: cfg, self: self, running: running}
	if cfg.Trial {
		return u, nil // the program that tries it has a trial and a file in progress
	}
	if last := u.Last(); last.GetState() == nodev1.SessionResponse_Upgrade_STATE_TRIED {
		interrupted := &Ready{ID: last.GetId(), Version: last.GetVersion(), dir: cfg.Dir, log: cfg.Log}
		if last.GetVersion() == version.Version {
			// It had replaced the old program already.
			interrupted.record("installed", "")
		} else {
			interrupted.record("failed", "the machine or the daemon ended during the trial")
		}
	}
	u.clean()
	return u, nil
}

// clean removes what upgrades left that were interrupted. Another node of this machine may
// run the same program, so what is new beside it stays.
func (u *Upgrader) clean() {
	remove := func(dir, pattern string, age time.Duration) {
		paths, _ := filepath.Glob(filepath.Join(dir, pattern)) // the pattern is right
		for _, path := range paths {
			info, err := os.Lstat(path)
			if err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) >= age {
				err = os.Remove(path)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				u.cfg.Log.Warn("cannot remove what an upgrade left", "error", err)
			}
		}
	}
	for _, pattern := range []string{downloading, temporary, downloaded + "*"} {
		remove(u.cfg.Dir, pattern, 0)
	}
	remove(filepath.Dir(u.self), temporary, downloadTime)
}

// Drop gives up what Prepare returned, so that another upgrade can be prepared.
func (u *Upgrader) Drop(r *Ready) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pending == r {
		u.pending = nil
	}
}

// Prepare downloads and verifies the program of a release. It changes nothing of this
// program.
func (u *Upgrader) Prepare(ctx context.Context, order *nodev1.UpgradeRequest) (*Ready, error) {
	// Aborted, so that the hub says it again later.
	busy := fault.New(fault.Aborted, "this node prepares or tries an upgrade already").WithFix("wait until it has ended")
	if u.cfg.Trial || !u.mu.TryLock() {
		return nil, busy
	}
	defer u.mu.Unlock()
	if u.pending != nil {
		return nil, busy
	}
	ctx, cancel := context.WithTimeout(ctx, downloadTime)
	defer cancel()
	key, err := u.key()
	if err != nil {
		return nil, err
	}
	if err := newer(order.GetVersion()); err != nil {
		return nil, err
	}
	if err := unchanged(u.self, u.running); err != nil {
		return nil, err
	}
	if err := writable(u.self); err != nil {
		return nil, err
	}
	if err := u.verify(ctx, key, order); err != nil {
		return nil, err
	}
	program := filepath.Join(u.cfg.Dir, downloaded+order.GetDigest())
	if err := u.download(ctx, program, order.GetDigest()); err != nil {
		return nil, err
	}
	if err := says(ctx, program, order.GetVersion()); err != nil {
		return nil, err
	}
	u.cfg.Log.Info("a newer release is ready to be tried", "version", order.GetVersion(), "running", version.Version)
	u.pending = &Ready{
		Program: program, ID: order.GetId(), Version: order.GetVersion(), digest: order.GetDigest(),
		self: u.self, running: u.running, dir: u.cfg.Dir, patience: TrialTime, log: u.cfg.Log,
	}
	return u.pending, nil
}

// key reads the release key.
func (u *Upgrader) key() (minisign.PublicKey, error) {
	key, err := minisign.NewPublicKeyFromFile(u.cfg.Key)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return key, fault.New(fault.Precondition, "this machine has no release key: %s is missing", u.cfg.Key).
			WithFix("put the public key of Deckhand's releases there, from a place that is not the hub, or upgrade with the package")
	case err != nil:
		return key, fault.New(fault.Precondition, "the release key %s cannot be read: %v", u.cfg.Key, err).WithFix("it is the public key file of minisign")
	}
	return key, nil
}

// newer refuses a version that is not newer than this one.
func newer(to string) error {
	if !semver.IsValid("v" + to) {
		return fault.New(fault.Invalid, "%q is no version", to).WithFix("name a release, such as 1.2.3")
	}
	switch semver.Compare("v"+to, "v"+version.Version) {
	case 0:
		return fault.New(fault.Precondition, "this node runs %s already", to)
	case -1:
		return fault.New(fault.Precondition, "this node runs %s, which is newer than %s", version.Version, to).
			WithFix("to go back, install the older package on the machine itself")
	}
	return nil
}

// writable reports an error unless the program's file can be replaced.
func writable(self string) error {
	probe, err := os.CreateTemp(filepath.Dir(self), temporary)
	if err == nil {
		err = errors.Join(probe.Close(), os.Remove(probe.Name()))
	}
	if err != nil {
		return fault.New(fault.Precondition, "the program %s cannot be replaced: %v", self, err).WithFix("upgrade with the package")
	}
	return nil
}

// verify checks that the release key has signed a program of that version with that digest
// for this kind of machine.
func (u *Upgrader) verify(ctx context.Context, key minisign.PublicKey, order *nodev1.UpgradeRequest) error {
	refused := func(format string, args ...any) error {
		return fault.New(fault.Denied, "the release of the hub is not accepted: "+format, args...).
			WithFix("put all files of one release into the hub's folder node-programs")
	}
	sums, err := u.get(ctx, SumsFile, maxSums)
	if err != nil {
		return err
	}
	text, err := u.get(ctx, SignatureFile, maxSignature)
	if err != nil {
		return err
	}
	signature, err := minisign.DecodeSignature(string(text))
	if err != nil {
		return refused("%s is not a signature", SignatureFile)
	}
	if ok, err := key.Verify(sums, signature); err != nil || !ok {
		return refused("its signature is not by this machine's release key %s: %v", u.cfg.Key, err)
	}
	// The signature covers the trusted comment too.
	said, found := strings.CutPrefix(signature.TrustedComment, signedFor)
	signed, _, _ := strings.Cut(said, " ")
	if !found || signed != order.GetVersion() {
		return refused("it is signed as %.64q, and %s was ordered", signed, order.GetVersion())
	}
	name := ProgramFile + runtime.GOARCH
	lines := bufio.NewScanner(bytes.NewReader(sums))
	for lines.Scan() {
		sum, file, _ := strings.Cut(lines.Text(), "  ")
		switch {
		case file != name:
		case sum != order.GetDigest():
			return refused("the digest of %s is another than what was ordered", name)
		default:
			return nil
		}
	}
	return refused("it has no %s", name)
}

// get downloads a small file of the release.
func (u *Upgrader) get(ctx context.Context, name string, limit int64) ([]byte, error) {
	var out bytes.Buffer
	err := again(ctx, func() error {
		out.Reset()
		return u.fetch(ctx, name, limit, &out)
	})
	return out.Bytes(), err
}

// waits are those before a download is tried again. They are jittered: not all nodes come at
// the same moment.
var waits = backoff.Policy{Base: time.Second, Max: 15 * time.Second}

// again calls do until it ends otherwise than with fault.Unavailable, or ctx ends.
func again(ctx context.Context, do func() error) error {
	for n := 1; ; n++ {
		err := do()
		if !fault.Is(err, fault.Unavailable) || backoff.Wait(ctx, waits.Delay(n)) != nil {
			return err
		}
	}
}

// fetch downloads a file once. An error of which another attempt may be the way out is
// fault.Unavailable.
func (u *Upgrader) fetch(ctx context.Context, name string, limit int64, to io.Writer) error {
	url := strings.TrimRight(u.cfg.HubURL(), "/") + Path + name
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return fmt.Errorf("download %s: %w", url, err)
	}
	res, err := u.cfg.Client.Do(req)
	if err != nil {
		return fault.New(fault.Unavailable, "cannot download %s: %v", url, err)
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusOK:
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return fault.New(fault.Unavailable, "cannot download %s: %s", url, res.Status)
	default:
		return fault.New(fault.Precondition, "the hub does not serve %s: %s", url, res.Status).
			WithFix("put all files of one release into the hub's folder node-programs")
	}
	n, err := io.Copy(to, io.LimitReader(res.Body, limit+1))
	switch {
	case err != nil:
		return fault.New(fault.Unavailable, "the download of %s broke off: %v", url, err)
	case n > limit:
		return fault.New(fault.Denied, "%s is larger than %d bytes", url, limit)
	}
	return nil
}

// download stores the program with that digest at path.
func (u *Upgrader) download(ctx context.Context, path, digest string) (err error) {
	file, err := os.CreateTemp(u.cfg.Dir, downloading)
	if err != nil {
		return fmt.Errorf("store the new program: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name()) // it was not completed
		}
	}()
	hash := sha256.New()
	err = again(ctx, func() error {
		hash.Reset()
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("store the new program: %w", err)
		}
		if err := file.Truncate(0); err != nil {
			return fmt.Errorf("store the new program: %w", err)
		}
		return u.fetch(ctx, ProgramFile+runtime.GOARCH, maxProgram, io.MultiWriter(file, hash))
	})
	if err == nil && hex.EncodeToString(hash.Sum(nil)) != digest {
		err = fault.New(fault.Denied, "the program that the hub serves has another digest than the release")
	}
	// All users may run it: the egress proxy is one.
	if err := errors.Join(err, file.Chmod(0o755), file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return fmt.Errorf("store the new program: %w", err)
	}
	return flush(u.cfg.Dir)
}

// says checks that a program runs on this machine and has that version.
func says(ctx context.Context, program, want string) error {
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, "--version").Output()
	if got := strings.Fields(string(out)); err != nil || len(got) == 0 || got[len(got)-1] != want {
		return fault.New(fault.Denied, "the new program does not run here as %s: it says %.100q (%v)", want, out, err)
	}
	return nil
}

// state is what became of the last upgrade, as it is stored.
type state struct {
	ID      string `json:"id"`
	Version string `json:"version"`
	State   string `json:"state"`
	Problem string `json:"problem,omitempty"`
}

var states = map[string]nodev1.SessionResponse_Upgrade_State{
	"tried": nodev1.SessionResponse_Upgrade_STATE_TRIED, "installed": nodev1.SessionResponse_Upgrade_STATE_INSTALLED, "failed": nodev1.SessionResponse_Upgrade_STATE_FAILED,
}

// Last returns what became of the last upgrade; nil before the first.
func (u *Upgrader) Last() *nodev1.SessionResponse_Upgrade {
	text, err := os.ReadFile(filepath.Join(u.cfg.Dir, stateFile))
	if err != nil {
		return nil
	}
	var s state
	if err := json.Unmarshal(text, &s); err != nil {
		u.cfg.Log.Warn("cannot read what became of the last upgrade", "error", err)
		return nil
	}
	return &nodev1.SessionResponse_Upgrade{Id: s.ID, Version: s.Version, State: states[s.State], Problem: s.Problem}
}

// record stores what became of the upgrade, as well as it can.
func (r *Ready) record(what, problem string) {
	if err := r.store(what, problem); err != nil {
		r.log.Warn("cannot store what became of the upgrade", "error", err)
	}
}

func (r *Ready) store(what, problem string) error {
	text, err := json.Marshal(state{ID: r.ID, Version: r.Version, State: what, Problem: textcut.Runes(problem, maxProblem, "…")})
	if err == nil {
		err = wholefile.Write(filepath.Join(r.dir, stateFile), text, 0o600)
	}
	if err != nil {
		return fmt.Errorf("store what became of the upgrade: %w", err)
	}
	return nil
}
