package danger

import (
	"slices"
	"strings"

	"github.com/deckhand-sh/deckhand/hub/policy/shell"
)

// fetches reports whether a command brings data from elsewhere.
func fetches(c *shell.Command) bool {
	switch c.Name() {
	case "curl", "wget", "wget2", "aria2c", "axel", "fetch", "http", "https", "xh", "curlie", "lynx", "links", "w3m", "elinks", "GET", "lwp-request", "lwp-download", "ftp", "tftp", "nc", "ncat", "netcat",
		"socat", "telnet", "scp", "sftp", "rclone", "dig", "nslookup", "host", "drill", "ssh", "gh", "whois", "finger":
		return !(c.Name() == "nc" && has(c, "-z"))
	case "openssl":
		return has(c, "s_client")
	case "aws", "gsutil", "gcloud", "s3cmd", "mc", "az":
		return has(c, "cp", "cat", "get", "get-object", "sync", "download")
	}
	for _, r := range c.Reads {
		if strings.HasPrefix(r.Text, "/dev/tcp/") || strings.HasPrefix(r.Text, "/dev/udp/") {
			return true
		}
	}
	if c.Language != "" && c.Language != "shell" {
		t := c.Code.Text
		for _, s := range []string{"urllib", "requests.get", "httpx.", "urlopen", "LWP::", "HTTP::Tiny", "Net::HTTP", "open-uri", "file_get_contents('http", `file_get_contents("http`, "fetch(", "http.get", "https.get", "socket.socket", "TCPSocket", "fsockopen"} {
			if strings.Contains(t, s) {
				return true
			}
		}
	}
	return false
}

// decodes reports whether a command makes readable what was hidden.
func decodes(c *shell.Command) bool {
	switch c.Name() {
	case "base64", "gbase64", "base32", "basenc":
		return has(c, "-d", "-D", "--decode", "-di", "-id")
	case "xxd":
		return option(c, 'r')
	case "openssl":
		return has(c, "-d", "-base64", "base64")
	case "uudecode", "gpg", "rev", "od", "gunzip", "zcat", "bzcat", "xzcat", "unxz", "bunzip2", "rot13", "caesar", "age", "ccrypt", "iconv":
		return true
	case "gzip", "xz", "bzip2", "zstd", "lz4":
		return option(c, 'd', "--decompress")
	}
	return c.Language != "" && c.Language != "shell" && (strings.Contains(c.Code.Text, "b64decode") || strings.Contains(c.Code.Text, "decode_base64") || strings.Contains(c.Code.Text, "unhexlify") || strings.Contains(c.Code.Text, "fromhex"))
}

// remote checks programs that run code from elsewhere.
func (f *finder) remote(c *shell.Command) {
	name := c.Name()
	runs := c.Language != "" && !c.Code.Known
	if name == "" && len(c.Args) > 0 {
		runs = true // the program itself is unknown
	}
	if !runs && strings.Contains(c.Arg(0), "/") && len(c.From) > 0 && name != "" {
		runs = !strings.HasPrefix(c.Arg(0), "/usr/") && !strings.HasPrefix(c.Arg(0), "/bin/") && !strings.HasPrefix(c.Arg(0), "/opt/") && f.isFile(c)
	}
	if name == "source" || name == "." {
		runs = runs || len(c.From) > 0 && c.Language != ""
	}
	if !runs {
		return
	}
	if f.comesFrom(c, fetches) {
		f.add(RemoteCode, c, "it runs unseen code from elsewhere")
	} else if f.comesFrom(c, decodes) {
		f.add(HiddenCode, c, "it runs code that was made unreadable")
	}
}

// isFile reports whether a command is a file which the script brought.
func (f *finder) isFile(c *shell.Command) bool {
	return c.Language == "shell" || !c.Code.Known && c.Code.Text != ""
}

var shells = []string{"sh", "bash", "dash", "zsh", "ksh", "ash", "fish", "mksh", "rbash"}

// connects checks programs that give a remote machine a shell.
func (f *finder) connects(c *shell.Command, name string) {
	switch name {
	case "nc", "ncat", "netcat", "nc.traditional", "nc.openbsd", "cryptcat", "pwncat", "rlwrap":
		if option(c, 'e', "--exec", "--sh-exec", "--lua-exec") || option(c, 'c', "--sh-exec") && name != "nc.openbsd" && !has(c, "-zv", "-z", "-vz") {
			f.add(ReverseShell, c, "it gives a shell to another machine")
		}
	case "socat":
		if s := strings.ToLower(strings.Join(texts(c.Args), " ")); (strings.Contains(s, "exec:") || strings.Contains(s, "system:") || strings.Contains(s, "shell:")) && (strings.Contains(s, "tcp") || strings.Contains(s, "openssl") || strings.Contains(s, "udp") || strings.Contains(s, "vsock")) {
			f.add(ReverseShell, c, "it gives a shell to another machine")
		}
	case "xterm", "konsole":
		if option(c, 0, "-display") || has(c, "-display") {
			f.add(ReverseShell, c, "it gives a shell to another machine")
		}
	case "msfvenom", "msfconsole", "chisel", "ngrok", "frpc", "gs-netcat", "bore", "pwnkit":
		if name != "ngrok" || has(c, "tcp") {
			f.add(ReverseShell, c, "%s opens a way in", name)
		}
	case "telnetd", "in.telnetd", "rshd", "shellinabox", "ttyd", "gotty":
		f.add(ReverseShell, c, "%s gives a shell to other machines", name)
	}
}

func socket(p string) bool {
	return strings.HasPrefix(p, "/dev/tcp/") || strings.HasPrefix(p, "/dev/udp/")
}

// touches reports whether a redirection of a command is a connection.
func touches(c *shell.Command) bool {
	connection := func(w shell.Word) bool { return socket(w.Text) }
	return slices.ContainsFunc(c.Reads, connection) || slices.ContainsFunc(c.Writes, connection)
}

// shells checks shells whose input or output is a connection.
func (f *finder) shells() {
	connection, fifo, netcat := false, false, false
	for i := range f.script.Commands {
		c := &f.script.Commands[i]
		connection = connection || touches(c)
		switch c.Name() {
		case "mkfifo":
			fifo = true
		case "mknod":
			fifo = fifo || has(c, "p")
		case "nc", "ncat", "netcat", "telnet", "socat", "openssl", "nc.traditional", "nc.openbsd", "cryptcat":
			netcat = netcat || !has(c, "-z", "-zv", "-vz") && (c.Name() != "openssl" || has(c, "s_client"))
		}
	}
	if !connection && !netcat {
		return
	}
	for i := range f.script.Commands {
		c := &f.script.Commands[i]
		isShell := slices.Contains(shells, c.Name()) && !has(c, "-c") || c.Name() == "python3" && has(c, "-i")
		switch {
		case isShell && (touches(c) || connection && (c.Dup || option(c, 'i'))),
			(isShell || c.Name() == "" && len(c.Args) > 0 || c.Name() == "eval") && netcat && (fifo || f.comesFrom(c, connects)),
			isShell && netcat && f.feeds(i),
			connection && (c.Name() == "" && len(c.Args) > 0 && !c.Args[0].Known || c.Name() == "eval" && c.Language != ""):
			f.add(ReverseShell, c, "it takes commands from another machine")
		}
	}
}

func connects(c *shell.Command) bool {
	switch c.Name() {
	case "nc", "ncat", "netcat", "telnet", "socat", "cryptcat":
		return true
	case "openssl":
		return has(c, "s_client")
	}
	return false
}

// feeds reports whether a connection reads what a command writes.
func (f *finder) feeds(i int) bool {
	for j := range f.script.Commands {
		if c := &f.script.Commands[j]; connects(c) && slices.Contains(c.From, i) {
			return true
		}
	}
	return false
}
