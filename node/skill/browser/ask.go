package browser

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/deckhand-sh/deckhand/internal/toolname"
	"github.com/deckhand-sh/deckhand/node/skill/keeper"
	"github.com/deckhand-sh/deckhand/node/skill/report"
)

// connectWait is how long one who asks waits for a browser's keeper to come.
const connectWait = 10 * time.Second

// downloadFolder is where downloads are put in the workspace.
const downloadFolder = "downloads"

// Ask passes a request to the keeper of the browser in a folder and writes its answer. It
// reads the files of an upload from a workspace, and writes downloads there.
func Ask(ctx context.Context, folder, workspace string, stdin io.Reader, stdout io.Writer) error {
	raw, err := io.ReadAll(io.LimitReader(stdin, maxRequest))
	if err != nil {
		return err
	}
	var req Request
	if err := json.Unmarshal(raw, &req); err != nil {
		return fmt.Errorf("the request: %w", err)
	}
	if req.Exec == "" {
		if proxy, err := url.Parse(os.Getenv("http_proxy")); err == nil {
			req.Exec = proxy.User.Username()
		}
	}
	root, err := os.OpenRoot(workspace)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	said := ask(ctx, folder, root, req)
	return json.NewEncoder(stdout).Encode(said)
}

func ask(ctx context.Context, folder string, root *os.Root, req Request) Answer {
	var open []*os.File
	defer func() {
		for _, f := range open {
			_ = f.Close()
		}
	}()
	if req.Tool == toolname.BrowserUpload {
		var args Args
		_ = json.Unmarshal(req.Arguments, &args) // the keeper says what is wrong with them
		for _, name := range args.Paths {
			f, size, err := openUpload(root, name)
			if err != nil {
				return Answer{Error: err.Error()}
			}
			open = append(open, f)
			req.Files = append(req.Files, File{Name: path.Base(filepath.ToSlash(name)), Size: size})
		}
	}
	conn := keeper.Connect(ctx, filepath.Join(folder, socketName), connectWait)
	if conn == nil {
		return Answer{NotRunning: true}
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	s := newStream(conn)
	err := s.send(req)
	for i, f := range open {
		if err == nil {
			_, err = io.CopyN(conn, f, req.Files[i].Size)
		}
	}
	var said Answer
	if err == nil {
		err = s.receive(&said, maxAnswer)
	}
	if err != nil {
		return Answer{Ended: true, Error: "the browser's keeper ended before it answered"}
	}
	files, lines, err := saveAll(s, root, said.Files)
	said.Files = files
	said.Answer += lines
	if err != nil {
		said.Answer += fmt.Sprintf("a download was not saved: %s. It is tried again with the next call of %s\n", err, toolname.BrowserWait)
		return said
	}
	_, _ = io.WriteString(conn, confirmation) // if it is lost, the files are sent again
	return said
}

// confirmation is what the one who asked says when it has everything.
const confirmation = "ok\n"

// openUpload opens a file of the workspace.
func openUpload(root *os.Root, name string) (*os.File, int64, error) {
	inside := strings.TrimPrefix(path.Clean("/"+strings.TrimPrefix(filepath.ToSlash(name), "/workspace/")), "/")
	f, err := root.Open(inside)
	if err != nil {
		return nil, 0, fmt.Errorf("paths: %s: %w", report.Clean([]byte(name), 200), reason(err))
	}
	info, err := f.Stat()
	switch {
	case err == nil && !info.Mode().IsRegular():
		err = errors.New("it is no file")
	case err == nil && info.Size() > maxUpload:
		err = fmt.Errorf("it is larger than %d MiB", maxUpload>>20)
	}
	if err != nil {
		_ = f.Close()
		return nil, 0, fmt.Errorf("paths: %s: %w", report.Clean([]byte(name), 200), err)
	}
	return f, info.Size(), nil
}

func reason(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// saveAll writes downloads into the workspace, and returns them with a line about each.
func saveAll(s *stream, root *os.Root, files []File) (saved []File, lines string, err error) {
	for _, f := range files {
		name, sum, err := save(s, root, f)
		if err != nil {
			return saved, lines, err
		}
		saved = append(saved, File{Name: path.Join(downloadFolder, name), Size: f.Size, URL: f.URL, SHA256: sum})
		lines += fmt.Sprintf("downloaded %s/%s: %d bytes, sha256 %s, from %s\n", downloadFolder, name, f.Size, sum, report.Clean([]byte(f.URL), 200))
	}
	return saved, lines, nil
}

// save writes one download under a name that is free.
func save(s *stream, root *os.Root, f File) (name, sum string, err error) {
	if err := root.Mkdir(downloadFolder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", "", reason(err)
	}
	safe := safeName(f.Name)
	ending := path.Ext(safe)
	var file *os.File
	for n := 1; ; n++ {
		if name = safe; n > 1 {
			name = fmt.Sprintf("%s (%d)%s", strings.TrimSuffix(safe, ending), n, ending)
		}
		file, err = root.OpenFile(path.Join(downloadFolder, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if !errors.Is(err, fs.ErrExist) || n > 1000 {
			break
		}
	}
	if err != nil {
		return "", "", reason(err)
	}
	digest := sha256.New()
	_, err = io.CopyN(io.MultiWriter(file, digest), s.in, f.Size)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", "", errors.Join(reason(err), root.Remove(path.Join(downloadFolder, name)))
	}
	return name, hex.EncodeToString(digest.Sum(nil)), nil
}

// safeName returns a name that is one of a file, visible and without surprises, from one that
// a server chose.
func safeName(name string) string {
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	name = strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" ._-()+,=@", r) {
			return r
		}
		return '_'
	}, name)
	name = strings.TrimLeft(strings.TrimSpace(name), ".-")
	if ending := path.Ext(name); len(name) > 120 {
		ending = ending[:min(len(ending), 20)]
		name = strings.ToValidUTF8(name[:120-len(ending)], "") + ending
	}
	if name == "" || name == "_" {
		return "download"
	}
	return name
}

// stream sends messages, and files after them, over a connection.
type stream struct {
	conn net.Conn
	in   *bufio.Reader
}

func newStream(conn net.Conn) *stream { return &stream{conn, bufio.NewReader(conn)} }

// send sends a message: JSON in one line.
func (s *stream) send(message any) error {
	raw, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_, err = s.conn.Write(append(raw, '\n'))
	return err
}

// receive reads a message of at most so many bytes.
func (s *stream) receive(message any, most int) error {
	var line []byte
	for {
		part, err := s.in.ReadSlice('\n')
		if line = append(line, part...); len(line) > most {
			return errors.New("the message is too long")
		}
		if err == nil {
			return json.Unmarshal(line, message)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

func (s *stream) sendFile(path string, size int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	_, err = io.CopyN(s.conn, f, size)
	return err
}

func (s *stream) receiveFile(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, s.in, size)
	return errors.Join(err, f.Close())
}
