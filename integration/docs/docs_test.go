package docs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/hub/fleet/image/signature/signaturetest"
	"github.com/deckhand-sh/deckhand/hub/storage/postgres"
	"github.com/deckhand-sh/deckhand/hub/storage/postgres/postgrestest"
	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/datadir"
	"github.com/deckhand-sh/deckhand/internal/waittest"
	"github.com/deckhand-sh/deckhand/node/image/imagetest"
	"github.com/deckhand-sh/deckhand/node/jail"
	"github.com/deckhand-sh/deckhand/node/jail/jailtest"
)

// commandOf finds what a line of a code block runs.
var commandOf = regexp.MustCompile(`^(?:\$ )?(?:sudo )?((?:[A-Z_]+=\S+ )*(?:bin/)?(?:deckhand|deckhand-node|make|apt-get|curl) .*)$`)

// documented returns every command in the code blocks of a document, lines that
// end in a backslash joined.
func documented(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	var out []string
	inside := false
	for line := range strings.Lines(strings.ReplaceAll(string(data), "\\\n", " ")) {
		line = strings.Join(strings.Fields(line), " ")
		if strings.HasPrefix(line, "```") {
			inside = !inside
			continue
		}
		if m := commandOf.FindStringSubmatch(line); inside && m != nil {
			out = append(out, m[1])
		}
	}
	return out
}

// Every command in the README and the docs works as it is written there, hosts
// and secrets put in.
func TestEveryDocumentedCommandWorks(t *testing.T) {
	t.Parallel()
	dir, certs := jailtest.Dir(t), t.TempDir()
	up := harness.Start(t, nil, harness.Binary(t, "deckhand"), "up", "--data-dir", dir, "--listen", "127.0.0.1:0", "--edge-listen", "127.0.0.1:0",
		"--registry-addresses", "127.0.0.0/8", "--registry-config", certs)
	waittest.Until(t, time.Minute, "everything to be up", func() bool { return strings.Contains(up.Output.String(), "Deckhand is up") })
	f := &harness.Fleet{T: t, Dir: dir}
	log := filepath.Join(t.TempDir(), "dpkg.log")
	require.NoError(t, os.WriteFile(log, []byte(strings.Repeat("2026-11-20 10:00:00 install bash:amd64 <none> 5.2\n", 20)), 0o600))
	home := t.TempDir()

	var nodes []struct{ Name, Status string }
	f.Connected(1)
	f.JSON(&nodes, "node", "list")

	inPlace := strings.NewReplacer(
		"web-1", nodes[0].Name,
		"/var/log/dpkg.log", log,
		"https://hub.example.com", f.URL(),
		"dhu_…", strings.TrimSpace(harness.ReadFile(t, filepath.Join(dir, "admin-token"))),
	)
	roles := &roles{t: t}
	stage := &stage{Fleet: f, dir: t.TempDir(), certs: certs, log: up.Output.String}
	docs, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	ran := 0
	for _, path := range append([]string{"../../README.md"}, docs...) {
		begun, end := time.Now(), stage.set(filepath.Base(path))
		for _, command := range documented(t, path) {
			ran++
			words := strings.Fields(command)
			switch {
			case command == "make test", strings.HasPrefix(command, "apt-get install"):
				// This is make test, and its set-up has installed the packages.
			case command == "make build", command == "make install":
				// Built it is, and TestTheREADMEWorksForANormalUser installs it elsewhere.
			case command == "make demo":
				demo(t)
			case command == "scripts/demo-pr":
				demoPullRequest(t)
			case strings.HasSuffix(words[0], "deckhand") && words[1] == "up" && !strings.Contains(command, "--print-config"):
				// Runs since the beginning.
			case strings.Contains(command, "/install/node"):
				installNode(f, command)
			case roles.is(words) && filepath.Base(path) != "install.md":
				roles.run(command)
			default:
				command = inPlace.Replace(command)
				command = strings.NewReplacer("task_3q9", stage.task, "inbox_3q9", stage.item, "DIGEST", stage.digest, "dlv_3q9", stage.delivery,
					"http://10.0.0.7:8000", stage.server, "mirror.example.com", stage.registry, "token.txt", filepath.Join(stage.dir, "token.txt"),
					"password.txt", filepath.Join(stage.dir, "password.txt"), "app.pem", filepath.Join(stage.dir, "app.pem"), "keys.json", filepath.Join(stage.dir, "keys.json"),
					"corp-ca.pem", filepath.Join(stage.dir, "corp-ca.pem"), "api.corp.example", stage.apiHost, "8443", stage.apiPort,
					"registry.example.com", stage.private, "docs/images/", stage.images, "tools.tar", filepath.Join(stage.dir, "tools.tar"), "cosign.pub", filepath.Join(stage.dir, "cosign.pub"),
					"trusted_root.json", filepath.Join(stage.dir, "trusted_root.json"), "tidy.md", filepath.Join(stage.dir, "tidy.md"),
					"application_default_credentials.json", filepath.Join(stage.dir, "application_default_credentials.json"),
					"backup-key.txt", filepath.Join(stage.dir, "backup-key.txt"), "/srv/backups", filepath.Join(stage.dir, "backups"), "age1...", stage.recipient(),
					"hub.jsonl", filepath.Join(stage.dir, "hub.jsonl"), "worker.jsonl", filepath.Join(stage.dir, "worker.jsonl"), "node.jsonl", filepath.Join(stage.dir, "node.jsonl"),
					"memory.jsonl", filepath.Join(stage.dir, "memory.jsonl"), "deckhand-bundle.tar.gz", filepath.Join(stage.dir, "deckhand-bundle.tar.gz"),
					"deckhand-20261127T020000.000Z", stage.backup(), "/var/lib/deckhand-restored", stage.restored,
					"postgres://deckhand:secret@db.example.com/deckhand", "'"+stage.database+"'").Replace(command)
				cmd := exec.Command("bash", "-c", command)
				cmd.Dir = harness.Root
				cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(harness.Binary(t, "deckhand"))+":"+os.Getenv("PATH"),
					"DECKHAND_DATA_DIR="+dir, "HOME="+home, "XDG_CONFIG_HOME=")
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "%s: %s\n%s", path, command, out)
				stage.ran(command)
			}
		}
		end()
		t.Logf("%s took %s", filepath.Base(path), time.Since(begun).Round(100*time.Millisecond))
	}
	require.Greater(t, ran, 12, "the commands were not found")
}

// stage has what a document's commands are about.
type stage struct {
	*harness.Fleet

	dir string
	// task, item and delivery stand for task_3q9, inbox_3q9 and dlv_3q9.
	task, item, delivery string
	// digest stands for DIGEST: what was shown of the item.
	digest string
	// server is a model server, registry a mirror of Docker Hub, private a registry that
	// asks for a password, and certs where nodes look for the certificates of registries.
	server, registry, private, certs string
	// images is the folder of the personas of docs/images.md, with its slash.
	images string
	// database is the URL of the private database of deckhand up, and restored an empty
	// data folder.
	database, restored string
	// log returns what deckhand up has logged.
	log func() string
	// apiHost and apiPort are those of an API with a certificate of its own.
	apiHost, apiPort string
}

// set brings about what a document begins with. What it answers clears up
// afterwards.
func (s *stage) set(document string) (end func()) {
	switch document {
	case "README.md":
		// It brings the first task about itself.
		return func() { s.task = strings.Fields(s.CLI(0, "task", "list", "-o", "name").Out)[0] }
	case "control.md":
		before := s.task
		s.task = s.runs("sleeper", "tools: [shell_exec]", "sleep 600")
		waittest.Until(s.T, time.Minute, "the task to run", func() bool {
			return strings.Contains(s.CLI(0, "task", "list", "--state", "running", "-o", "name").Out, s.task)
		})
		return func() {
			// It has ended if an interrupt ended its sleep.
			harness.Run(s.T, []string{"DECKHAND_DATA_DIR=" + s.Dir}, "task", "cancel", s.task)
			for _, hold := range strings.Fields(s.CLI(0, "hold", "list", "-o", "name").Out) {
				s.CLI(0, "hold", "release", hold)
			}
			s.task = before
		}
	case "api.md":
		// It submits to the agent of the quickstart.
		before := s.task
		s.CLI(0, "agent", "apply", "-f", "../../docs/quickstart/")
		token := filepath.Join(s.dir, "reports.txt")
		require.NoError(s.T, os.WriteFile(token, []byte("a-token-of-reports-7fk3"), 0o600))
		s.CLI(0, "credential", "create", "reports", "--kind", "bearer", "--host", "reports.example.com", "--value-file", token)
		return func() {
			s.CLI(0, "credential", "delete", "reports")
			s.task = before
		}
	case "backup.md":
		cluster, err := postgres.Config{DataDir: filepath.Join(s.Dir, "postgres")}.Complete(s.T.Context())
		require.NoError(s.T, err)
		s.database, s.restored = cluster.URL("deckhand"), filepath.Join(jailtest.Dir(s.T), "restored")
	case "providers.md":
		// Connecting asks for the models that there are.
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"data":[]}`) }))
		s.server = server.URL
		return server.Close
	case "knowledge.md":
		return s.connects("openai", "knowledge", "embed", "--off")
	case "patterns.md":
		return s.connects("anthropic", "pattern", "settings", "--model", "")
	case "credentials.md":
		api := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.Header.Get("Authorization") != "Bearer a-robots-token-8fk2" {
				w.WriteHeader(http.StatusUnauthorized)
			}
		}))
		var err error
		s.apiHost, s.apiPort, err = net.SplitHostPort(api.Listener.Addr().String())
		require.NoError(s.T, err)
		key, err := rsa.GenerateKey(rand.Reader, 2048)
		require.NoError(s.T, err)
		for file, text := range map[string]string{
			"token.txt": "a-robots-token-8fk2\n", "password.txt": "robot:a-robots-password-3kd9\n",
			"keys.json":   `{"Version": 1, "AccessKeyId": "AKIAIOSFODNN7EXAMPLE", "SecretAccessKey": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}`,
			"app.pem":     string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
			"corp-ca.pem": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})),
		} {
			require.NoError(s.T, os.WriteFile(filepath.Join(s.dir, file), []byte(text), 0o600))
		}
		return api.Close
	case "monitoring.md":
		// As on a terminal, and as of roles of their own.
		for _, path := range []string{filepath.Join(s.Dir, datadir.LogFile), filepath.Join(s.dir, "hub.jsonl"), filepath.Join(s.dir, "worker.jsonl"), filepath.Join(s.dir, "node.jsonl")} {
			require.NoError(s.T, os.MkdirAll(filepath.Dir(path), 0o700))
			require.NoError(s.T, os.WriteFile(path, []byte(s.log()), 0o600))
		}
	case "browser.md":
		require.NoError(s.T, os.WriteFile(filepath.Join(s.dir, "password.txt"), []byte("a-robots-password-3kd9\n"), 0o600))
	case "office.md":
		require.NoError(s.T, os.WriteFile(filepath.Join(s.dir, "application_default_credentials.json"),
			[]byte(`{"type": "authorized_user", "client_id": "1234", "client_secret": "GOCSPX-3kd9Lq81vT7", "refresh_token": "1//0g-refresh-8fk2Lq7TzX"}`), 0o600))
	case "incident.md":
		return s.incident()
	case "images.md":
		r := imagetest.NewRegistry(s.T)
		require.NoError(s.T, os.CopyFS(s.certs, os.DirFS(r.CertsDir)))
		s.registry = r.Host
		s.toolchains(r)
		require.NoError(s.T, os.WriteFile(filepath.Join(s.dir, "token.txt"), []byte("a-robots-token-8fk2\n"), 0o600))
		imagetest.Save(s.T, filepath.Join(s.dir, "tools.tar"), "team/tools:1", imagetest.Busybox(s.T))
		builder, _ := r.Push(s.T, "team/builder:1", imagetest.Busybox(s.T))
		s.Persona("builder", "turns: [{calls: [{tool: complete_task, arguments: {summary: done}}]}]",
			"jail: {image: '"+builder+"', setup: [touch /installed]}")
		require.NoError(s.T, os.WriteFile(filepath.Join(s.dir, "cosign.pub"), []byte(signaturetest.NewKey(s.T).PEM(s.T)), 0o600))
		require.NoError(s.T, os.WriteFile(filepath.Join(s.dir, "trusted_root.json"), signaturetest.NewSigstore(s.T).TrustedRoot(s.T), 0o600))
		return func() { s.CLI(0, "registry", "rules", "--allow-all", "--allow-root=false") }
	case "triggers.md":
		s.CLI(0, "trigger", "create", "by-hand", "--agent", "log-triage", "--manual")
		s.delivery = strings.TrimSpace(s.CLI(0, "trigger", "fire", "by-hand", "-o", "name").Out)
	case "modes.md":
		before := s.task
		s.task = s.runs("coder", "mode: review\ntools: [shell_exec]", "touch report")
		waittest.Until(s.T, time.Minute, "the review to be asked for", func() bool {
			s.item = strings.TrimSpace(s.CLI(0, "inbox", "list", "--kind", "review", "--task", s.task, "-o", "name").Out)
			return s.item != ""
		})
		return func() { s.task = before }
	case "inbox.md":
		s.runs("cleaner", "tools: [shell_exec]\napprovals: {tools: [shell_exec]}", "rm -rf old")
		waittest.Until(s.T, time.Minute, "the question to be asked", func() bool {
			s.item = strings.TrimSpace(s.CLI(0, "inbox", "list", "--agent", "cleaner", "-o", "name").Out)
			return s.item != ""
		})
	}
	return func() {}
}

// connects connects a provider, whose models answer nothing but one vector. end runs a command before that is
// gone.
func (s *stage) connects(provider string, undo ...string) (end func()) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		answer := `{"data":[]}`
		if req.URL.Path == "/embeddings" { // a model is tried before it is set
			answer = `{"data":[{"embedding":[1,0]}]}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	key := filepath.Join(s.dir, provider+".key")
	require.NoError(s.T, os.WriteFile(key, []byte("a-models-key-8fk2Lq7TzX"), 0o600))
	s.CLI(0, "provider", "connect", provider, "--base-url", server.URL, "--key-file", key)
	return func() {
		s.CLI(0, undo...)
		s.CLI(0, "provider", "disconnect", provider)
		server.Close()
	}
}

// recipient returns the public key of the key pair that the commands have made.
func (s *stage) recipient() string {
	data, err := os.ReadFile(filepath.Join(s.dir, "backup-key.txt"))
	if err != nil {
		return "age1..."
	}
	_, after, _ := strings.Cut(string(data), "# public key: ")
	key, _, _ := strings.Cut(after, "\n")
	return key
}

// backup returns the name of the newest backup that the commands have made.
func (s *stage) backup() string {
	made, err := filepath.Glob(filepath.Join(s.dir, "backups", "deckhand-*Z"))
	require.NoError(s.T, err)
	if len(made) == 0 {
		return "none"
	}
	return filepath.Base(made[len(made)-1])
}

// ran waits for what the commands after this one are about: a task of the
// quickstart's agent, and the approval that it asks for.
func (s *stage) ran(command string) {
	s.T.Helper()
	if !strings.HasPrefix(command, "deckhand run first-agent") && !strings.Contains(command, "/v1/tasks -H") {
		return
	}
	var items []struct{ ID, TaskID, ShownDigest string }
	waittest.Until(s.T, time.Minute, "the approval to be asked for", func() bool {
		s.JSON(&items, "inbox", "list", "--agent", "first-agent")
		return len(items) == 1
	})
	s.task, s.item, s.digest = items[0].TaskID, items[0].ID, items[0].ShownDigest
}

// runs begins a task that runs a command, and answers its id.
func (s *stage) runs(agent, keys, command string) string {
	s.T.Helper()
	for file, text := range map[string]string{
		agent + ".md": "---\nname: " + agent + "\ndescription: For the docs.\nprovider: script\nscript: " + agent + ".yaml\n" +
			"limits: {iterations: 5}\nworkspace: {scope: task}\n" + keys + "\n---\nGo on.\n",
		agent + ".yaml": "turns:\n  - calls: [{tool: shell_exec, arguments: {command: " + command + "}}]\n" +
			"  - calls: [{tool: complete_task, arguments: {summary: done}}]\n",
	} {
		require.NoError(s.T, os.WriteFile(filepath.Join(s.dir, file), []byte(text), 0o600))
	}
	s.CLI(0, "agent", "apply", "-f", filepath.Join(s.dir, agent+".md"))
	return strings.TrimSpace(s.CLI(0, "run", agent, "-o", "name").Out)
}

// demo runs make demo, which cleans up after itself.
func demo(t *testing.T) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "app.log")
	require.NoError(t, os.WriteFile(log, []byte(strings.Repeat("2026-11-20T10:00:00Z ERROR cannot reach db-1: timeout\n", 30)), 0o600))
	cmd := exec.Command("make", "-s", "-C", harness.Root, "demo")
	cmd.Env = append(os.Environ(), "LOG="+log, "ANTHROPIC_API_KEY=")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, text := range []string{"Model: scripted", "phase execute_action", "db-1", "cost", "task_"} {
		require.Contains(t, string(out), text)
	}
}

// demoPullRequest runs the demo of pull requests, which cleans up after itself.
func demoPullRequest(t *testing.T) {
	t.Helper()
	cmd := exec.Command("scripts/demo-pr")
	cmd.Dir = harness.Root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	for _, text := range []string{
		"refs/heads/deckhand/greet: (new) ->", "Greet the first argument", `"state": "open"`, "secrets in the environment: none", "secrets in files: none", "/git-receive-pack",
	} {
		require.Contains(t, string(out), text)
	}
}

// installNode runs the command that makes a machine a node, which installs into folders of
// the test's. It starts nothing where no systemd runs.
func installNode(f *harness.Fleet, command string) {
	t := f.T
	t.Helper()
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		return // it would start a service of this machine
	}
	dir := t.TempDir()
	token := strings.TrimSpace(f.CLI(0, "node", "token", "-o", "name").Out)
	cmd := exec.Command("bash", "-o", "pipefail", "-c", strings.NewReplacer("https://hub.example.com:7800", f.URL(), "dhj_...", token,
		"sudo --preserve-env=DECKHAND_HUB_URL,DECKHAND_JOIN_TOKEN ", "env DECKHAND_BIN_DIR="+dir+" DECKHAND_UNIT_DIR="+dir+" DECKHAND_CONFIG_DIR="+dir+"/etc ").Replace(command))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s\n%s", command, out)
	require.Contains(t, string(out), "Installed deckhand-node version")
	require.NotContains(t, string(out), token)
	require.Contains(t, harness.ReadFile(t, filepath.Join(dir, "deckhand-node.service")), "ExecStart="+dir+"/deckhand-node --config "+dir+"/etc/node.yaml")
	require.Equal(t, "DECKHAND_JOIN_TOKEN="+token+"\n", harness.ReadFile(t, filepath.Join(dir, "etc/node.env")))
	require.Contains(t, harness.ReadFile(t, filepath.Join(dir, "etc/node.yaml")), "hub-url: "+f.URL())
}

// roles runs the documented hub, worker and node, one after the other, on a
// database and a NATS server of their own.
type roles struct {
	t       *testing.T
	replace *strings.Replacer
	dir     string
	hub     *harness.Process
}

func (r *roles) is(words []string) bool {
	for i, word := range words {
		if word == "deckhand-node" {
			return true
		}
		if word == "deckhand" {
			// The token of the role's own hub, which its node then uses.
			return words[i+1] == "hub" || words[i+1] == "worker" || (words[i+1] == "node" && words[i+2] == "token")
		}
	}
	return false
}

func (r *roles) run(command string) {
	t := r.t
	t.Helper()
	if r.hub == nil {
		r.prepare()
	}
	token := func(name string) string { return strings.TrimSpace(harness.ReadFile(t, filepath.Join(r.dir, name))) }
	env := []string{"DECKHAND_DATA_DIR=" + r.dir, "SSL_CERT_FILE=" + filepath.Join(r.dir, "hub.pem")}
	var words []string
	if r.hub != nil {
		command = strings.NewReplacer("https://hub.example.com:7800", strings.TrimSpace(harness.ReadFile(t, filepath.Join(r.dir, "hub-url"))),
			"dhw_...", token("worker-token")).Replace(command)
		if before, after, found := strings.Cut(command, "dhj_..."); found {
			command = before + r.joinToken(env) + after
		}
	}
	for _, word := range strings.Fields(r.replace.Replace(command)) {
		if len(words) == 0 && strings.Contains(word, "=") {
			env = append(env, word)
		} else {
			words = append(words, word)
		}
	}
	switch words[0] + " " + words[1] {
	case "deckhand hub":
		r.hub = harness.Start(t, env, harness.Binary(t, "deckhand"), words[1:]...)
		waittest.Until(t, time.Minute, "the hub to be ready", func() bool { return strings.Contains(r.hub.Output.String(), "hub is ready") })
	case "deckhand worker":
		p := harness.Start(t, env, harness.Binary(t, "deckhand"), words[1:]...)
		waittest.Until(t, time.Minute, "the worker to be registered", func() bool { return strings.Contains(p.Output.String(), "registered") })
	case "deckhand node":
		require.NotEmpty(t, r.joinToken(env))
	default:
		nodeDir, namespace := jailtest.Dir(t), "docs-"+filepath.Base(r.dir)
		t.Cleanup(func() {
			jailtest.RemoveAll(t, jail.Config{DataDir: nodeDir, Containerd: jailtest.Containerd(t), Namespace: namespace})
		})
		env = append(env, "DECKHAND_DATA_DIR="+nodeDir, "DECKHAND_CONTAINERD="+jailtest.Containerd(t), "DECKHAND_CONTAINERD_NAMESPACE="+namespace)
		p := harness.Start(t, env, harness.Binary(t, "deckhand-node"), words[1:]...)
		waittest.Until(t, time.Minute, "the node to be linked", func() bool { return strings.Contains(p.Output.String(), "linked to the hub") })
	}
}

func (r *roles) joinToken(env []string) string {
	res := harness.Run(r.t, env, "node", "token")
	require.Zero(r.t, res.Code, res.Err)
	return strings.TrimSpace(res.Out)
}

// prepare makes what the documentation's hub is told of: certificate, database
// and NATS server.
func (r *roles) prepare() {
	t := r.t
	r.dir = t.TempDir()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	for name, block := range map[string]*pem.Block{"hub.pem": {Type: "CERTIFICATE", Bytes: der}, "hub.key": {Type: "PRIVATE KEY", Bytes: keyDER}} {
		require.NoError(t, os.WriteFile(filepath.Join(r.dir, name), pem.EncodeToMemory(block), 0o600))
	}
	opts, err := server.ProcessConfigFile("../../docs/nats.conf")
	require.NoError(t, err)
	opts.Host, opts.Port, opts.StoreDir, opts.NoSigs, opts.NoLog = "127.0.0.1", server.RANDOM_PORT, t.TempDir(), true, true
	nats, err := server.NewServer(opts)
	require.NoError(t, err)
	nats.Start()
	t.Cleanup(func() { nats.Shutdown(); nats.WaitForShutdown() })
	require.True(t, nats.ReadyForConnections(30*time.Second))
	r.replace = strings.NewReplacer(
		"postgres://deckhand:secret@db.example.com/deckhand", postgrestest.Database(t),
		"tls://", "nats://", "nats.example.com:4222", strings.TrimPrefix(nats.ClientURL(), "nats://"),
		"0.0.0.0:7800", "127.0.0.1:0", "0.0.0.0:7801", "127.0.0.1:0", "--edge-address hub.example.com:7801", "",
		"hub.pem", filepath.Join(r.dir, "hub.pem"), "hub.key", filepath.Join(r.dir, "hub.key"),
	)
}
