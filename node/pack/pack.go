// Package pack keeps programs for jails that their images lack, such as Chromium, as packs: the
// files of an archive, in a folder that every jail of the node is shown read-only.
//
// A Store has the packs of a node, and a Pin says which archive a pack is made of. Nothing is
// installed whose SHA-256 is not the pinned one, and an archive that names anything outside of its
// own folder is refused whole. A pack is unpacked beside the others and then put in its place at
// once: whatever dies in between, jails see all of it or nothing. Versions stay beside each other
// until they are pruned, which keeps those that a process uses.
package pack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/fault"
	"github.com/deckhand-sh/deckhand/internal/wholefile"
)

const (
	// MaxArchive bounds an archive in bytes.
	MaxArchive = 2 << 30
	// current is the link to the version that jails use, in the folder of a pack.
	current = "current"
	// stalled is how long a download may bring nothing, and lockEvery how often a command looks
	// whether another one has ended.
	stalled   = time.Minute
	lockEvery = 100 * time.Millisecond
)

var (
	nameForm   = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)
	digestForm = regexp.MustCompile(`^[0-9a-f]{64}$`)
	recordForm = regexp.MustCompile(`^([a-z][a-z0-9-]{0,39})-([0-9a-f]{64})\.json$`)
	errStalled = errors.New("nothing comes")
)

// Store keeps the packs of a node. Several processes may use one. Whatever dies in between, a
// version is there whole or not at all: a folder is put in its place after all of it was written
// and after its record, and is taken away before that.
type Store struct{ dir string }

// At returns the store in a node's data folder as it is.
func At(dataDir string) *Store { return &Store{filepath.Join(dataDir, "packs")} }

// Open returns the store in a node's data folder. It creates what is missing.
func Open(dataDir string) (*Store, error) {
	s := At(dataDir)
	for _, dir := range []string{s.dir, s.Shown(), s.making()} {
		if err := makeFolder(dir); err != nil {
			return nil, fmt.Errorf("make the folder of packs: %w", err)
		}
	}
	return s, nil
}

// makeFolder makes a folder that jails read, whatever the umask is.
func makeFolder(dir string) error {
	err := os.MkdirAll(dir, 0o755) //nolint:gosec // jails read what is in it
	if err == nil {
		err = os.Chmod(dir, 0o755) //nolint:gosec // as above
	}
	return err
}

// Shown returns the folder that jails are shown: it has NAME/current/ with the files of each pack.
func (s *Store) Shown() string { return filepath.Join(s.dir, "shown") }

// Pack is a version of a pack that is installed.
type Pack struct {
	Name string `json:"name"`
	// SHA256 is the archive's.
	SHA256 string `json:"sha256"`
	// Source is where the archive came from.
	Source    string    `json:"source"`
	Bytes     int64     `json:"bytes"`
	Files     int       `json:"files"`
	Installed time.Time `json:"installed"`
	// Current reports that jails use it, and InUse that a process runs it or has mapped a file of it.
	Current bool `json:"-"`
	InUse   bool `json:"-"`
	// Broken reports that its record cannot be read: it is not taken for installed.
	Broken bool `json:"-"`
}

// List returns what is installed, sorted by name, the current versions first.
func (s *Store) List() ([]Pack, error) {
	records, err := filepath.Glob(filepath.Join(s.dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var out []Pack
	for _, path := range records {
		m := recordForm.FindStringSubmatch(filepath.Base(path))
		if m == nil {
			continue
		}
		raw, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("read the record of a pack: %w", err)
		}
		var p Pack
		if json.Unmarshal(raw, &p) != nil || p.Name != m[1] || p.SHA256 != m[2] {
			p = Pack{Name: m[1], SHA256: m[2], Broken: true}
		}
		p.Source = public(p.Source)
		if _, err := os.Stat(s.folder(p)); err != nil {
			continue // it was being put there, or taken away, when something died
		}
		target, err := os.Readlink(filepath.Join(s.Shown(), p.Name, current))
		p.Current = err == nil && target == p.SHA256
		out = append(out, p)
	}
	used, err := inUse(out)
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i].InUse = used[out[i].SHA256]
	}
	slices.SortFunc(out, func(a, b Pack) int {
		if a.Name != b.Name {
			return strings.Compare(a.Name, b.Name)
		}
		if a.Current != b.Current {
			return map[bool]int{true: -1, false: 1}[a.Current]
		}
		return b.Installed.Compare(a.Installed)
	})
	return out, nil
}

func (s *Store) making() string       { return filepath.Join(s.dir, "new") }
func (s *Store) folder(p Pack) string { return filepath.Join(s.Shown(), p.Name, p.SHA256) }
func (s *Store) record(p Pack) string { return filepath.Join(s.dir, p.Name+"-"+p.SHA256+".json") }

// lock makes changes of the store wait for each other.
func (s *Store) lock(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(s.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the packs: %w", err)
	}
	wait := time.NewTicker(lockEvery)
	defer wait.Stop()
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) //nolint:gosec // a file descriptor
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock the packs: %w", err), f.Close())
		}
		select {
		case <-wait.C:
		case <-ctx.Done():
			_ = f.Close()
			return nil, fault.New(fault.Unavailable, "another command about packs is running").WithCause(ctx.Err()).WithFix("try again when it has ended")
		}
	}
	// What another process left when it died.
	if err = os.RemoveAll(s.making()); err == nil {
		err = makeFolder(s.making())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make room for a pack: %w", err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// Fetch downloads the archive of a pin and installs it.
func (s *Store) Fetch(ctx context.Context, client *http.Client, pin Pin) (Pack, error) {
	if pin.URL == "" {
		return Pack{}, fault.New(fault.Precondition, "the pin of %s has no url", pin.Name).WithFix("add it, or import the archive as a file")
	}
	if p, ok, err := s.has(ctx, pin); ok || err != nil {
		return p, err
	}
	loading, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(stalled, func() { cancel(errStalled) })
	defer watchdog.Stop()
	req, err := http.NewRequestWithContext(loading, http.MethodGet, pin.URL, nil)
	if err != nil {
		return Pack{}, fault.New(fault.Invalid, "the url of the pin %s is not valid", pin.Name).WithCause(err)
	}
	res, err := client.Do(req)
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		err = failed.Err // without the address
	}
	if err != nil {
		return Pack{}, fault.New(fault.Unavailable, "cannot download the pack %s", pin.Name).WithCause(err).WithFix("try again, or import the archive as a file")
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return Pack{}, fault.New(fault.Unavailable, "cannot download the pack %s: %s", pin.Name, res.Status).WithFix("check the url of its pin")
	}
	file, err := s.keep(loading, pin, reader{loading, res.Body, func() { watchdog.Reset(stalled) }})
	if err != nil {
		return Pack{}, err
	}
	defer func() { _ = file.Close() }()
	return s.install(ctx, pin, file, public(pin.URL))
}

// public returns where an archive came from without what may be a secret in a URL: everybody who sees
// the node reads it.
func public(source string) string {
	u, err := url.Parse(source)
	if err != nil || u.Host == "" {
		return source
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
}

// Import installs the archive of a pin from a file.
func (s *Store) Import(ctx context.Context, pin Pin, archive io.Reader, source string) (Pack, error) {
	if p, ok, err := s.has(ctx, pin); ok || err != nil {
		return p, err
	}
	file, err := s.keep(ctx, pin, reader{ctx, archive, nil})
	if err != nil {
		return Pack{}, err
	}
	defer func() { _ = file.Close() }()
	return s.install(ctx, pin, file, source)
}

// find returns the pack of a pin if it is installed.
func (s *Store) find(pin Pin) (Pack, bool, error) {
	all, err := s.List()
	if err != nil {
		return Pack{}, false, err
	}
	for _, p := range all {
		if p.Name == pin.Name && p.SHA256 == pin.SHA256 && !p.Broken {
			return p, true, nil
		}
	}
	return Pack{}, false, nil
}

// has returns the pack of a pin if it is installed, and makes it the current one.
func (s *Store) has(ctx context.Context, pin Pin) (Pack, bool, error) {
	p, ok, err := s.find(pin)
	if !ok || err != nil || p.Current {
		return p, ok, err
	}
	unlock, err := s.lock(ctx)
	if err != nil {
		return p, false, err
	}
	defer unlock()
	if p, ok, err = s.find(pin); !ok || err != nil {
		return p, ok, err
	}
	return p, true, s.use(&p)
}

// keep copies an archive into a file without a name, and checks that it is the one of a pin. The
// store is not locked meanwhile.
func (s *Store) keep(ctx context.Context, pin Pin, archive io.Reader) (_ *os.File, err error) {
	if err := pin.check(); err != nil {
		return nil, err
	}
	file, err := os.CreateTemp(s.dir, "archive-")
	if err == nil {
		err = os.Remove(file.Name())
	}
	if err != nil {
		return nil, fmt.Errorf("keep the archive: %w", err)
	}
	defer func() {
		if err != nil {
			_ = file.Close()
		}
	}()
	digest := sha256.New()
	n, err := io.Copy(io.MultiWriter(file, digest), io.LimitReader(archive, MaxArchive+1))
	switch got := hex.EncodeToString(digest.Sum(nil)); {
	case err != nil && errors.Is(context.Cause(ctx), errStalled):
		return nil, fault.New(fault.Unavailable, "the download of %s brought nothing for %s", pin.Name, stalled).WithFix("try again, or import the archive as a file")
	case err != nil:
		return nil, fault.New(fault.Unavailable, "the archive of %s was not read whole", pin.Name).WithCause(err).WithFix("try again")
	case n > MaxArchive:
		return nil, fault.New(fault.Invalid, "the archive of %s is larger than %d GiB", pin.Name, MaxArchive>>30)
	case got != pin.SHA256:
		return nil, fault.New(fault.Denied, "the archive of %s has the SHA-256 %s, and its pin says %s: nothing was installed", pin.Name, got, pin.SHA256).
			WithFix("get the right archive, or change the pin if you trust this one")
	}
	_, err = file.Seek(0, io.SeekStart)
	return file, err
}

// install unpacks an archive, and makes it the current version of its pack.
func (s *Store) install(ctx context.Context, pin Pin, archive io.Reader, source string) (Pack, error) {
	unlock, err := s.lock(ctx)
	if err != nil {
		return Pack{}, err
	}
	defer unlock()
	if p, ok, err := s.find(pin); ok || err != nil { // another process was first
		if ok {
			err = s.use(&p)
		}
		return p, err
	}
	at := filepath.Join(s.making(), pin.Name)
	p := Pack{Name: pin.Name, SHA256: pin.SHA256, Source: source, Installed: time.Now().UTC()}
	if p.Files, p.Bytes, err = unpack(ctx, archive, at); err != nil {
		return Pack{}, errors.Join(err, os.RemoveAll(at))
	}
	err = s.drop(p) // what cannot be read, or has no record
	if err == nil {
		err = s.write(p)
	}
	if err == nil {
		err = makeFolder(filepath.Dir(s.folder(p)))
	}
	if err == nil {
		err = os.Rename(at, s.folder(p))
	}
	if err == nil {
		err = flush(filepath.Dir(s.folder(p)), s.Shown())
	}
	if err != nil {
		return Pack{}, fmt.Errorf("put the pack %s in its place: %w", p.Name, err)
	}
	return p, s.use(&p)
}

// write writes the record of a pack; the lock is held.
func (s *Store) write(p Pack) error {
	raw, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	return wholefile.Write(s.record(p), append(raw, '\n'), 0o644)
}

// drop deletes a version if it is there: its folder at once, and then its record. The lock is held.
func (s *Store) drop(p Pack) error {
	away := filepath.Join(s.making(), "old")
	err := os.Rename(s.folder(p), away)
	if err == nil {
		err = flush(filepath.Dir(s.folder(p)))
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.Remove(s.record(p))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.RemoveAll(away)
}

// flush has the disk keep what folders contain.
func flush(folders ...string) error {
	for _, one := range folders {
		f, err := os.Open(one)
		if err != nil {
			return err
		}
		if err = errors.Join(f.Sync(), f.Close()); err != nil {
			return err
		}
	}
	return nil
}

// use makes a version the one that jails use; the lock is held.
func (s *Store) use(p *Pack) error {
	link := filepath.Join(s.making(), current)
	err := os.Symlink(p.SHA256, link)
	if err == nil {
		err = os.Rename(link, filepath.Join(s.Shown(), p.Name, current))
	}
	if err == nil {
		err = flush(filepath.Join(s.Shown(), p.Name))
	}
	if err != nil {
		return fmt.Errorf("make a version of the pack %s the current one: %w", p.Name, err)
	}
	p.Current = true
	return nil
}

// Prune deletes the versions that are not the current ones of their packs, all of the packs with
// some names, and what is left of versions. It keeps what a process runs or has mapped, and returns
// what it deleted and what it kept for that reason.
func (s *Store) Prune(ctx context.Context, names ...string) (deleted, kept []Pack, err error) {
	if _, err := os.Stat(s.dir); err == nil {
		unlock, err := s.lock(ctx)
		if err != nil {
			return nil, nil, err
		}
		defer unlock()
	}
	all, err := s.List()
	if err != nil {
		return nil, nil, err
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(p Pack) bool { return p.Name == name }) {
			return nil, nil, fault.New(fault.NotFound, "there is no pack %q on this node", name).WithFix("list what there is: deckhand node pack list NODE, or deckhand-node pack list on the node")
		}
	}
	for _, p := range all {
		if p.Current && !slices.Contains(names, p.Name) {
			continue
		}
		if p.InUse {
			kept = append(kept, p)
			continue
		}
		if p.Current {
			err = os.Remove(filepath.Join(s.Shown(), p.Name, current))
		}
		if err == nil {
			err = s.drop(p)
		}
		if err != nil {
			return deleted, kept, fmt.Errorf("delete a version of the pack %s: %w", p.Name, err)
		}
		deleted = append(deleted, p)
		_ = os.Remove(filepath.Dir(s.folder(p))) // if it is empty
	}
	return deleted, kept, s.dropRest(all)
}

// dropRest deletes folders without a record, and records without a folder; the lock is held.
func (s *Store) dropRest(known []Pack) error {
	var rest []Pack
	folders, err := filepath.Glob(filepath.Join(s.Shown(), "*", "*"))
	if err != nil {
		return err
	}
	for _, path := range folders {
		if p := (Pack{Name: filepath.Base(filepath.Dir(path)), SHA256: filepath.Base(path)}); digestForm.MatchString(p.SHA256) {
			rest = append(rest, p)
		}
	}
	records, err := filepath.Glob(filepath.Join(s.dir, "*.json"))
	if err != nil {
		return err
	}
	for _, path := range records {
		if m := recordForm.FindStringSubmatch(filepath.Base(path)); m != nil {
			rest = append(rest, Pack{Name: m[1], SHA256: m[2]})
		}
	}
	for _, p := range rest {
		if slices.ContainsFunc(known, func(other Pack) bool { return other.Name == p.Name && other.SHA256 == p.SHA256 }) {
			continue
		}
		if err := s.drop(p); err != nil {
			return fmt.Errorf("delete what is left of the pack %s: %w", p.Name, err)
		}
	}
	return nil
}

// inUse returns which versions a process of the machine runs or has mapped, by their digest, which
// is a part of the path whatever root the process has.
func inUse(packs []Pack) (map[string]bool, error) {
	used := map[string]bool{}
	if len(packs) == 0 {
		return used, nil
	}
	look := func(text string) {
		for _, p := range packs {
			used[p.SHA256] = used[p.SHA256] || strings.Contains(text, "/"+p.Name+"/"+p.SHA256+"/")
		}
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	for _, process := range processes {
		for _, name := range []string{"exe", "cwd"} {
			if target, err := os.Readlink(filepath.Join(process, name)); err == nil {
				look(target + "/")
			}
		}
		maps, err := os.ReadFile(filepath.Join(process, "maps"))
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, unix.ESRCH) && !errors.Is(err, fs.ErrPermission) {
			return nil, fmt.Errorf("look which packs are in use: %w", err)
		}
		look(string(maps))
	}
	return used, nil
}

// reader reads until a context ends.
type reader struct {
	ctx context.Context //nolint:containedctx // it lives as long as one copy
	io.Reader
	// got is called after each part; nil for nothing.
	got func()
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.Reader.Read(p)
	if n > 0 && r.got != nil {
		r.got()
	}
	return n, err
}
