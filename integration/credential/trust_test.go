package credential

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/integration/harness"
	"github.com/deckhand-sh/deckhand/internal/waittest"
)

// javaGet is a program of one file, which java compiles as it starts it.
const javaGet = `
import java.net.*; import java.net.http.*;
public class Get { public static void main(String[] a) throws Exception {
  URI proxy = URI.create(System.getenv("https_proxy"));
  HttpClient c = HttpClient.newBuilder().proxy(ProxySelector.of(new InetSocketAddress(proxy.getHost(), proxy.getPort()))).build();
  System.out.println(c.send(HttpRequest.newBuilder(URI.create(a[0])).build(), HttpResponse.BodyHandlers.ofString()).body());
} }`

// nodeGet asks twice, with a pause in which the test restarts the daemon.
const nodeGet = `
const tls = require("tls"), http = require("http"), fs = require("fs");
const proxy = new URL(process.env.https_proxy), to = new URL(process.argv[2]);
function get() { return new Promise((resolve, reject) => {
  const c = http.request({host: proxy.hostname, port: proxy.port, method: "CONNECT", path: to.host, headers: {"Proxy-Authorization": "Basic " + Buffer.from(proxy.username + ":x").toString("base64")}});
  c.on("error", reject);
  c.on("connect", (res, socket) => {
    if (res.statusCode != 200) return reject(new Error("CONNECT " + res.statusCode));
    const s = tls.connect({socket, host: to.hostname}, () => s.write("GET " + to.pathname + " HTTP/1.1\r\nHost: " + to.host + "\r\nConnection: close\r\n\r\n"));
    let text = ""; s.on("data", d => text += d); s.on("end", () => resolve(text.split("\r\n\r\n").pop())); s.on("error", reject);
  });
  c.end();
}); }
(async () => {
  console.log("first: " + await get());
  fs.writeFileSync("asked", "");
  while (!fs.existsSync("again")) await new Promise(r => setTimeout(r, 50));
  for (let i = 0; ; i++) { try { console.log("second: " + await get()); break; } catch (e) { if (i > 100) throw e; await new Promise(r => setTimeout(r, 100)); } }
})();`

// Programs as they are reach a bound host and trust it, without a change by the user. What a
// running program trusts stays valid when the daemon is killed and started again.
func TestProgramsTrustTheProxy(t *testing.T) {
	t.Parallel()
	echo := newEcho(t)
	host := newOrigin(t, "10.98.9.1", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != bearer {
			w.WriteHeader(http.StatusUnauthorized)
		}
		if echo.Serve(w, r) || packages(t, w, r) {
			return
		}
		_, _ = io.WriteString(w, "private data")
	})
	// A host without a credential, which rules by method and path are for, has the certificate of
	// an authority that the machine of the node trusts, and no others.
	ruled := newOrigin(t, "10.98.9.2", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "private data") })
	f := harness.New(t)
	f.NodeEnv = trusting(t, ruled)
	node := f.StartNode()
	f.StartWorker()
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte(bearer), 0o600))
	f.CLI(0, "credential", "create", "api", "--kind", "header", "--header", "X-Api-Key", "--host", host.host, "--port", host.port, "--roots", host.roots,
		"--private", "--agent", "caller", "--value-file", file)
	programs := map[string]string{
		"curl":    "curl -sS " + host.url() + "/",
		"rules":   "curl -sS " + ruled.url() + "/public/x && curl -sS -X POST " + ruled.url() + "/public/x && curl -sS " + ruled.url() + "/other",
		"python":  `/usr/bin/python3 -c 'import urllib.request as u, sys; print(u.urlopen(sys.argv[1]).read().decode())' ` + host.url() + "/",
		"openssl": "openssl verify -CAfile /etc/ssl/certs/ca-certificates.crt /deckhand/trust/authorities.pem",
	}
	if exec.Command("/usr/bin/python3", "-m", "pip", "--version").Run() == nil {
		programs["pip"] = "/usr/bin/python3 -m pip install --quiet --target pip --disable-pip-version-check --index-url " + host.url() + "/simple/ hello && PYTHONPATH=pip /usr/bin/python3 -c 'import hello'"
	}
	if _, err := os.Stat("/usr/lib/chromium/chromium"); err == nil {
		programs["chromium"] = "/usr/lib/chromium/chromium --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir=/tmp/chromium" +
			" --proxy-server=http://127.0.0.1:3128 --dump-dom " + host.url() + "/ 2>/dev/null"
	}
	if _, err := os.Stat("/usr/bin/java"); err == nil {
		programs["java"] = "java Get.java " + host.url() + "/"
	}
	var script strings.Builder
	script.WriteString("turns:\n  - text: I write.\n    calls:\n")
	write := func(path, text string) {
		script.WriteString("      - tool: file_write\n        arguments:\n          path: " + path + "\n          content: |\n")
		for line := range strings.Lines(strings.TrimPrefix(text, "\n")) {
			script.WriteString("            " + line)
		}
		script.WriteString("\n")
	}
	write("Get.java", javaGet)
	write("get.js", nodeGet)
	script.WriteString("  - text: I call.\n    calls:\n")
	var names []string
	for name, command := range programs {
		names = append(names, name)
		script.WriteString("      - tool: shell_exec\n        arguments:\n          command: >-\n            " + command + "\n")
	}
	if _, err := exec.LookPath("/usr/bin/node"); err == nil {
		names = append(names, "node")
		script.WriteString("      - tool: shell_exec\n        arguments: {command: \"node get.js " + host.url() + "/\"}\n")
		// The test puts its own program into the workspace while node waits.
		script.WriteString("      - tool: shell_exec\n        arguments: {command: \"" + echoTo + "=" + net.JoinHostPort(host.host, host.port) + " ./grpc-client\"}\n")
	}
	script.WriteString("  - text: All done.\n    calls:\n      - {tool: complete_task, arguments: {summary: called}}\n")
	f.Persona("caller", script.String(), "mode: autonomous", "approvals: {categories: []}", "credentials: [api]",
		"egress: {allow: [{host: "+ruled.host+", ports: ["+ruled.port+`], http: ["allow GET /public/**"]}]}`)
	id := f.Submit("caller")
	if names[len(names)-1] == "node" {
		workspaces := filepath.Join(f.NodeDir, "workspaces")
		var at string
		waittest.Until(t, 90*time.Second, "node to have asked", func() bool {
			found, _ := filepath.Glob(filepath.Join(workspaces, "*", "asked"))
			if len(found) == 1 {
				at = filepath.Dir(found[0])
			}
			require.NotContains(t, f.Task(id).State, "SUCCEEDED", "node did not wait")
			return at != ""
		})
		self, err := os.ReadFile("/proc/self/exe")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(at, "grpc-client"), self, 0o755)) //nolint:gosec // the jail's user runs it
		node.Kill()
		f.StartNode()
		require.NoError(t, os.WriteFile(filepath.Join(at, "again"), nil, 0o644))
	}
	f.Ended(id)
	var steps []struct{ Tool, State, Observation string }
	f.JSON(&steps, "task", "steps", id)
	steps = steps[2:]
	if names[len(names)-1] == "node" {
		names = append(names, "grpc")
	}
	require.Len(t, steps, len(names)+1)
	for i, name := range names {
		switch name {
		case "openssl":
			assert.Contains(t, steps[i].Observation, "authorities.pem: OK", name)
		case "rules":
			assert.Regexp(t, "(?s)private data.*no rule allows POST.*no rule allows GET", steps[i].Observation, name)
		case "grpc":
			assert.Contains(t, steps[i].Observation, "one two; trailer: done", name)
		case "node":
			assert.Contains(t, steps[i].Observation, "first: private data\nsecond: private data", name)
		default:
			assert.Contains(t, steps[i].Observation, "private data", name)
		}
	}
}
