package browser

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/deckhand-sh/deckhand/internal/browserlink"
	"github.com/deckhand-sh/deckhand/internal/toolname"
	"github.com/deckhand-sh/deckhand/node/skill/keeper"
	"github.com/deckhand-sh/deckhand/node/skill/report"
)

const (
	// lockWait is how long a keeper waits for the one before it to be gone.
	lockWait = 10 * time.Second
	// maxRequest and maxAnswer bound what goes over the socket, without the files.
	maxRequest = 2 << 20
	maxAnswer  = 12 << 20
	// maxUpload bounds the files of an upload, and maxFiles their number.
	maxUpload = 64 << 20
	maxFiles  = 10
	// keptUploads is how many uploads' files are kept.
	keptUploads = 4
)

// Config says how a task's browser is kept.
type Config struct {
	// Folder is the browser's own: its socket, its profile and what it downloads.
	Folder string `json:"folder"`
	// Program is Chromium; empty for the one that is found.
	Program string `json:"program,omitempty"`
	// Proxy is the URL of the proxy for everything but loopback; empty for that of the
	// environment.
	Proxy string `json:"proxy,omitempty"`
	// IdleSeconds is how long it lives without a call.
	IdleSeconds int `json:"idle_seconds"`
	// Signed has the keeper end unless it is given a key.
	Signed bool `json:"signed,omitempty"`
	// Record has it write what the browser shows to Recording.
	Record    bool      `json:"record,omitempty"`
	Recording io.Writer `json:"-"`
	// Start has what other users of the jail must not see. With a key, calls must be signed.
	Start browserlink.Start `json:"-"`
}

// Request is a call of a tool. The bytes of its files follow it.
type Request struct {
	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Exec is the command that makes the call: the browser's requests meanwhile belong to it.
	Exec  string `json:"exec,omitempty"`
	Files []File `json:"files,omitempty"`
	// Number and Deadline are those of a browserlink.Call, Secret is the sealed value of a
	// credential, and Signature that of the call.
	Number    int64  `json:"number,omitempty"`
	Deadline  int64  `json:"deadline,omitempty"`
	Secret    []byte `json:"secret,omitempty"`
	Signature []byte `json:"signature,omitempty"`
}

// File is one that is sent over the socket.
type File struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	// URL is where a download came from, and SHA256 its digest once it is saved.
	URL    string `json:"url,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
}

// Answer is the result of a call.
type Answer struct {
	// NotRunning reports that no browser was kept.
	NotRunning bool           `json:"not_running,omitempty"`
	Answer     string         `json:"answer,omitempty"`
	Images     []report.Image `json:"images,omitempty"`
	Error      string         `json:"error,omitempty"`
	// Ended reports that the keeper ended before it answered: the call may have been made.
	Ended bool `json:"ended,omitempty"`
	// URL and Title are those of the active tab after the call.
	URL   string `json:"url,omitempty"`
	Title string `json:"title,omitempty"`
	// Files are downloads. Over the socket their bytes follow; they are deleted when the
	// other side confirms that it has them.
	Files []File `json:"files,omitempty"`
	// Session is the sealed state of the browser after the call, if it has changed.
	Session []byte `json:"session,omitempty"`
	// Target is what became of the call's target, sealed; see browserlink.UsedTarget.
	Target []byte `json:"target,omitempty"`
	// Typed reports that a credential was typed, whatever came after it.
	Typed bool `json:"typed,omitempty"`
}

// maxStart bounds the standard input of a keeper.
const maxStart = 2 << 20

// Main runs `browser serve CONFIG`, which reads a browserlink.Start from standard input,
// `browser ask FOLDER`, which reads the request from there, or `browser watch FOLDER`, and returns
// the exit status.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var err error
	switch {
	case len(args) == 2 && args[0] == "serve":
		var cfg Config
		if err = json.Unmarshal([]byte(args[1]), &cfg); err == nil {
			cfg.Recording = stdout
			err = readStart(stdin, &cfg.Start)
		}
		if err == nil {
			err = Serve(ctx, cfg)
		}
	case len(args) == 2 && args[0] == "ask":
		err = Ask(ctx, args[1], ".", stdin, stdout)
	case len(args) == 2 && args[0] == "watch":
		err = Watch(ctx, args[1], stdin, stdout)
	default:
		fmt.Fprintln(stderr, "usage: deckhand-skill browser serve CONFIG | browser ask FOLDER | browser watch FOLDER")
		return 2
	}
	if err != nil {
		fmt.Fprintln(stderr, "deckhand-skill:", err)
		return 1
	}
	return 0
}

// readStart reads what a keeper is given besides its configuration; hubs of earlier releases
// give nothing.
func readStart(from io.Reader, to *browserlink.Start) error {
	text, err := io.ReadAll(io.LimitReader(from, maxStart))
	if err != nil || len(text) == 0 {
		return err
	}
	if err := json.Unmarshal(text, to); err != nil {
		return errors.New("standard input is not what a browser starts with")
	}
	return nil
}

// server owns a browser, and takes the calls for it.
type server struct {
	browser *browser
	idle    *keeper.Idle
	asking  sync.WaitGroup
	key     browserlink.Key
	keeper  string
	began   time.Time // when the hub's time was start
	start   int64     // in milliseconds since 1970
	// turn has room for the call in progress, or the person who has taken the browser over.
	turn    chan struct{}
	viewers viewers
	uploads []string // folders of files, the oldest first; guarded by turn
	// made are the commands whose calls were made, the oldest first; guarded by turn.
	made []string
	// last is the highest number of a call that was made; guarded by turn.
	last int64
}

// maxMade is how many calls are remembered, so that none is made twice.
const maxMade = 2000

// Serve keeps a browser until it has been idle for too long.
func Serve(ctx context.Context, cfg Config) error {
	if !filepath.IsAbs(cfg.Folder) || cfg.IdleSeconds <= 0 {
		return errors.New("folder and idle_seconds must be given")
	}
	if cfg.Signed && len(cfg.Start.Key) == 0 {
		return errors.New("standard input has no key")
	}
	began := time.Now()
	if err := ownFolder(cfg.Folder); err != nil {
		return err
	}
	unlock, err := keeper.Lock(ctx, filepath.Join(cfg.Folder, "lock"), lockWait)
	if err != nil {
		return err
	}
	defer unlock()
	upstream := cmp.Or(cfg.Proxy, os.Getenv("http_proxy"))
	if upstream == "" {
		upstream = "http://127.0.0.1:9" // nothing listens there: only the jail itself can be reached
	}
	proxy, err := newProxy(upstream)
	if err != nil {
		return err
	}
	defer proxy.close()
	socket := filepath.Join(cfg.Folder, socketName)
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	// The agent's user asks.
	if err := os.Chmod(socket, 0o666); err != nil { //nolint:gosec // the jail has no other users
		return errors.Join(err, listener.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k := &server{browser: newBrowser(cfg.Program, cfg.Folder, proxy), idle: keeper.NewIdle(time.Duration(cfg.IdleSeconds) * time.Second), turn: make(chan struct{}, 1)}
	k.viewers.all = map[chan struct{}]viewer{}
	watching, stopWatching := context.WithCancel(ctx)
	defer stopWatching()
	k.key, k.keeper, k.began, k.start = cfg.Start.Key, cfg.Start.Keeper, began, cmp.Or(cfg.Start.Now, began.UnixMilli())
	for _, one := range cfg.Start.Secrets {
		_ = k.browser.secrets.add(one.Credential, one.Value) // the newest are first
	}
	if cfg.Start.Lost {
		k.browser.kept.note = lostNote
	}
	k.browser.targets = newTargets(cfg.Start.Targets)
	if len(cfg.Start.Session) > 0 {
		session, err := browserlink.DecodeSession(cfg.Start.Session)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		sessions{k.browser}.begin(session)
	}
	defer k.browser.close()
	if cfg.Record && cfg.Recording != nil {
		k.asking.Go(func() { k.record(watching, cfg.Recording) })
	}
	go func() {
		k.idle.Wait(ctx, nil)
		_ = listener.Close()
	}()
	for {
		conn, err := listener.Accept()
		if err != nil {
			stopWatching()
			k.asking.Wait()
			return nil
		}
		k.asking.Go(func() { k.serve(ctx, watching, conn) })
	}
}

// socketName is the socket's in the folder.
const socketName = "s"

// ownFolder makes the browser's folder, which others may enter but not list, and refuses one
// that somebody else made.
func ownFolder(path string) error {
	if err := os.Mkdir(path, 0o711); err != nil && !errors.Is(err, os.ErrExist) { //nolint:gosec // the socket in it is for the agent
		return fmt.Errorf("make the browser's folder: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return fmt.Errorf("look at the browser's folder: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Getuid() {
		return fmt.Errorf("%s is not the browser's own: delete it", path)
	}
	return os.Chmod(path, 0o711) //nolint:gosec // as above
}

// serve reads one request and makes the call, or shows the browser as long as watching is alive.
func (k *server) serve(ctx, watching context.Context, conn net.Conn) {
	called := k.idle.Call()
	defer func() { called() }()
	defer func() { _ = conn.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	s := newStream(conn)
	var req Request
	if s.receive(&req, maxRequest) != nil {
		return
	}
	if req.Tool == browserlink.WatchTool {
		called()
		called = func() {} // a browser that is only looked at is idle
		defer context.AfterFunc(watching, cancel)()
		k.watch(ctx, s, req)
		return
	}
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return
	}
	secret, err := k.admit(req)
	if err != nil {
		_ = s.send(Answer{Error: err.Error()})
		return
	}
	files, err := k.receiveFiles(s, req.Files)
	if err != nil {
		_ = s.send(Answer{Error: "the files were not received whole: " + err.Error()})
		return
	}
	gone := make(chan struct{})
	confirmed := make(chan bool, 1)
	go func() {
		// Until it confirms, it says nothing more: an end of it is that of the one who asked.
		defer close(gone)
		line, err := s.in.ReadString('\n')
		confirmed <- err == nil && line == confirmation
		if err != nil {
			cancel()
		}
	}()
	said, downloads := k.call(ctx, req, files, secret)
	encoded := k.state(ctx, req, &said)
	if s.send(said) != nil {
		return
	}
	for _, d := range downloads {
		if s.sendFile(filepath.Join(k.browser.folder, "downloads", d.guid), d.size) != nil {
			return
		}
	}
	<-gone
	if <-confirmed {
		k.browser.handedOver(downloads)
		if encoded != "" {
			k.browser.kept.sent = encoded
		}
	}
}

// admit refuses a call that the hub has not signed for this keeper, that was made before, or that
// comes too late, and returns the secret that comes with it: a command of the agent may have kept
// it from the keeper.
func (k *server) admit(req Request) (*browserlink.Secret, error) {
	if len(k.key) == 0 {
		return nil, nil
	}
	signed := k.key.Signed(req.Signature, browserlink.Call{
		Keeper: k.keeper, Exec: req.Exec, Number: req.Number, Deadline: req.Deadline, Tool: req.Tool, Arguments: req.Arguments, Secret: req.Secret,
	})
	if req.Exec == "" || slices.Contains(k.made, req.Exec) || !signed {
		return nil, errors.New("the browser is used by the agent's tools only, not by its commands")
	}
	// The machine's clock may be set meanwhile; this one only goes on.
	if k.now() > req.Deadline {
		return nil, errors.New("the call came too late and was not made; make it again")
	}
	// Calls that only look run in parallel, in any order.
	if req.Number < k.last && changesState(req.Tool) {
		return nil, errors.New("the call came after a later one and was not made; make it again")
	}
	k.last = max(k.last, req.Number)
	if len(k.made) >= maxMade {
		k.made = k.made[1:]
	}
	k.made = append(k.made, req.Exec)
	if len(req.Secret) == 0 {
		return nil, nil
	}
	secret, err := k.key.OpenSecret(k.keeper, req.Exec, req.Secret)
	if err != nil {
		return nil, fmt.Errorf("the value of the credential: %w", err)
	}
	return &secret, nil
}

// now is the hub's time.
func (k *server) now() int64 { return k.start + time.Since(k.began).Milliseconds() }

// state reads the state of the browser after a call, and adds it to the answer if it is not
// what was handed over last. It returns that state.
func (k *server) state(ctx context.Context, req Request, said *Answer) string {
	if said.Error == "" {
		k.browser.kept.trying = false
	}
	if !changesState(req.Tool) {
		return ""
	}
	sessions{k.browser}.capture(ctx)
	if k.browser.kept.session == nil || len(k.key) == 0 {
		return ""
	}
	encoded, err := browserlink.EncodeSession(*k.browser.kept.session)
	if err != nil || string(encoded) == k.browser.kept.sent {
		return ""
	}
	if said.Session, err = k.key.SealSession(req.Exec, encoded); err != nil {
		return ""
	}
	return string(encoded)
}

// call makes a call and returns its answer, with the downloads that are to be handed over.
func (k *server) call(ctx context.Context, req Request, files []string, secret *browserlink.Secret) (said Answer, handOver []*download) {
	b := k.browser
	defer func() { b.secrets.maskAnswer(&said) }()
	typings := b.typings
	b.targets.used = nil
	r, downloads, err := b.run(ctx, req.Tool, req.Arguments, files, req.Exec, secret)
	said.Typed = b.typings > typings
	if used := b.targets.take(err == nil); used != nil && len(k.key) > 0 && b.secrets.absent(used.Page, used.Words, used.Name) {
		said.Target, _ = k.key.SealTarget(req.Exec, *used) // without it, nothing is remembered
	}
	b.mu.Lock()
	if b.active != nil {
		said.URL, said.Title = clean(b.active.url, 2000), b.active.title
	}
	b.mu.Unlock()
	if err != nil {
		said.Error = b.secrets.mask(cleanLines(strings.ToValidUTF8(err.Error(), "·")))
		said.Error = said.Error[:min(len(said.Error), 4000)]
		return said, nil
	}
	if !deliversFiles(req.Tool) {
		if len(downloads) > 0 {
			r.say("%d downloads are complete: get them with %s", len(downloads), toolname.BrowserWait)
		}
		downloads = nil
	}
	failed, surplus := b.takeFailed()
	for _, d := range failed {
		r.say("the download of %s failed: %s", clean(d.url, 200), d.failed)
	}
	if surplus > 0 {
		r.say("%d downloads were cancelled: at most %d can wait", surplus, maxDownloads)
	}
	kept := downloads[:0]
	for _, d := range downloads {
		info, err := os.Stat(filepath.Join(b.folder, "downloads", d.guid))
		if err != nil {
			r.say("the download of %s is lost", clean(d.url, 200))
			b.handedOver([]*download{d})
			continue
		}
		d.size = info.Size()
		kept = append(kept, d)
		said.Files = append(said.Files, File{Name: d.name, Size: d.size, URL: d.url})
	}
	said.Answer, said.Images = r.text(said.URL), r.images
	return said, kept
}

// deliversFiles reports whether a call may bring downloads: those that only look do not change
// the workspace.
func deliversFiles(tool string) bool {
	switch tool {
	case toolname.BrowserSnapshot, toolname.BrowserExtract, toolname.BrowserScreenshot, toolname.BrowserConsole, toolname.BrowserNetwork, toolname.BrowserTabs, toolname.BrowserHover, toolname.BrowserScroll:
		return false
	}
	return true
}

// receiveFiles puts the files of an upload where the browser can read them.
func (k *server) receiveFiles(s *stream, files []File) ([]string, error) {
	if len(files) > maxFiles {
		return nil, fmt.Errorf("there are more than %d", maxFiles)
	}
	if len(files) == 0 {
		return nil, nil
	}
	// The files of some earlier uploads stay: a page reads them when its form is sent.
	if over := len(k.uploads) - keptUploads + 1; over > 0 {
		for _, dir := range k.uploads[:over] {
			_ = os.RemoveAll(dir)
		}
		k.uploads = append(k.uploads[:0], k.uploads[over:]...)
	}
	dir, err := os.MkdirTemp(filepath.Join(k.browser.folder), "upload-")
	if err != nil {
		return nil, err
	}
	k.uploads = append(k.uploads, dir)
	var paths []string
	var total int64
	for _, f := range files {
		if total += f.Size; f.Size < 0 || total > maxUpload {
			return nil, fmt.Errorf("they are larger than %d MiB", maxUpload>>20)
		}
		path := filepath.Join(dir, safeName(f.Name))
		if err := s.receiveFile(path, f.Size); err != nil {
			return nil, err
		}
		paths = append(paths, path)
	}
	return paths, nil
}
