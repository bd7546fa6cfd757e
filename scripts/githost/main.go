// Command githost is a Git host for the demo of pull requests: one repository over HTTPS,
// acme/web, whose check fails, and the part of GitHub's API that an app uses. It listens on
// 127.0.0.2, issues tokens to the app whose key it writes, and keeps everything in a folder:
//
//	githost FOLDER
//
// In the folder it writes app.pem (the app's key), roots.pem (its certificate), and at last
// port. The repository is acme/web.git there, and pulls.json has the pull requests.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/cgi" //nolint:gosec // of a Go that has no such bug any more
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	address = "127.0.0.2"
	api     = "/api/v3"
	// tokenLife is how long a token is valid.
	tokenLife = time.Hour
	// maxBody bounds a request to the API, in bytes.
	maxBody = 1 << 20
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: githost FOLDER")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

// host is the Git host.
type host struct {
	dir     string
	backend http.Handler
	app     *rsa.PublicKey

	mu     sync.Mutex
	tokens map[string]map[string]any // with what each may do; guarded by mu
	pulls  []map[string]any          // guarded by mu
}

func run(dir string) error {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	h := &host{dir: dir, app: &key.PublicKey, tokens: map[string]map[string]any{}}
	if err := h.createRepository(); err != nil {
		return err
	}
	cert, roots, err := certificate()
	if err != nil {
		return err
	}
	for name, block := range map[string]*pem.Block{
		"app.pem": {Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}, "roots.pem": {Type: "CERTIFICATE", Bytes: roots},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "port"), []byte(port), 0o600); err != nil {
		return err
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}}}
	return server.ServeTLS(listener, "", "")
}

// createRepository creates the repository, with a check that fails.
func (h *host) createRepository() error {
	bare, work := filepath.Join(h.dir, "acme", "web.git"), filepath.Join(h.dir, "work")
	files := map[string]string{
		"greet.sh": "#!/bin/sh\n# Greets by name.\necho \"Hello, $2!\"\n",
		"check.sh": "#!/bin/sh\ngot=$(sh greet.sh Ann)\n[ \"$got\" = \"Hello, Ann!\" ] || { echo \"check failed: got '$got'\"; exit 1; }\necho \"check passed\"\n",
	}
	if err := os.MkdirAll(work, 0o700); err != nil {
		return err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=main", bare},
		{"-C", bare, "config", "http.receivepack", "true"},
		{"init", "--quiet", "--initial-branch=main", work},
		{"-C", work, "add", "--all"},
		{"-C", work, "-c", "user.name=Ann", "-c", "user.email=ann@example.com", "commit", "--quiet", "--message", "Greet by name"},
		{"-C", work, "push", "--quiet", bare, "main"},
	} {
		if out, err := exec.Command("git", args...).CombinedOutput(); err != nil { //nolint:gosec,noctx // arguments of our own
			return fmt.Errorf("git %s: %w: %s", args[0], err, out)
		}
	}
	core, err := exec.Command("git", "--exec-path").Output() //nolint:noctx // it answers at once
	if err != nil {
		return fmt.Errorf("look for git's programs: %w", err)
	}
	h.backend = &cgi.Handler{
		Path: filepath.Join(strings.TrimSpace(string(core)), "git-http-backend"), Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + h.dir, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=safe.directory", "GIT_CONFIG_VALUE_0=*"},
	}
	return nil
}

// certificate returns a certificate for the address, by itself.
func certificate() (tls.Certificate, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "demo Git host"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.ParseIP(address)}, IsCA: true, BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}, raw, err
}

// ServeHTTP serves the repository and the API.
func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/acme/web.git/") {
		user, token, _ := r.BasicAuth()
		if user != "x-access-token" || h.right(token, "contents") != "write" {
			w.Header().Set("WWW-Authenticate", "Basic")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		h.backend.ServeHTTP(w, r)
		return
	}
	status, answer := h.answer(r)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer)
}

// answer serves the API.
func (h *host) answer(r *http.Request) (int, any) {
	message := func(text string) map[string]any { return map[string]any{"message": text} }
	path := strings.TrimPrefix(r.URL.Path, api)
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	var in map[string]any
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&in); err != nil {
			return http.StatusBadRequest, message(err.Error())
		}
	}
	if path == "/app/installations/1/access_tokens" {
		signed, err := jose.ParseSigned(token, []jose.SignatureAlgorithm{jose.RS256})
		if err == nil {
			_, err = signed.Verify(h.app)
		}
		if err != nil {
			return http.StatusUnauthorized, message("the app's signature is not valid")
		}
		raw := make([]byte, 16)
		_, _ = rand.Read(raw)
		made := "ghs_" + hex.EncodeToString(raw)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.tokens[made] = in
		return http.StatusCreated, map[string]any{"token": made, "expires_at": time.Now().Add(tokenLife).UTC().Format(time.RFC3339)}
	}
	if h.right(token, "pull_requests") != "write" {
		return http.StatusUnauthorized, message("Bad credentials")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case path != "/repos/acme/web/pulls":
		return http.StatusNotFound, message("Not Found")
	case r.Method == http.MethodGet:
		return http.StatusOK, append([]map[string]any{}, h.pulls...)
	}
	in["number"], in["state"] = len(h.pulls)+1, "open"
	in["html_url"] = fmt.Sprintf("https://%s/acme/web/pull/%d", r.Host, len(h.pulls)+1)
	h.pulls = append(h.pulls, in)
	raw, err := json.MarshalIndent(h.pulls, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(h.dir, "pulls.json"), raw, 0o600)
	}
	if err != nil {
		return http.StatusInternalServerError, message(err.Error())
	}
	return http.StatusCreated, in
}

// right returns what a token may do.
func (h *host) right(token, permission string) any {
	h.mu.Lock()
	defer h.mu.Unlock()
	permissions, _ := h.tokens[token]["permissions"].(map[string]any)
	return permissions[permission]
}
