package httprule

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Check refuses a request that a server might read differently from the proxy:
// by its method, its host, its framing, or what Override refuses. It is for
// requests that net/http or x/net/http2 have parsed, and reads no body.
// StrictConn refuses what these parsers repair in silence.
//
// The caller compares r.Host with the host that the connection is for.
func Check(r *http.Request) error {
	switch {
	case !validMethod(r.Method):
		return fmt.Errorf("%.40q is not a method in upper-case letters", r.Method)
	case r.Method == "CONNECT":
		return errors.New("CONNECT inside of a connection is not possible; connect to the host itself")
	case r.Method == "TRACE" || r.Method == "TRACK":
		return fmt.Errorf("%s is not possible: its response repeats the request with its credentials", r.Method)
	case r.ProtoMajor == 1 && len(r.TransferEncoding) > 0 && (r.ProtoMinor == 0 || !slices.Equal(r.TransferEncoding, []string{"chunked"})):
		return fmt.Errorf("the transfer encoding %.40q is not possible; use chunked and HTTP/1.1", r.TransferEncoding)
	}
	if err := checkHost(r.Host); err != nil {
		return err
	}
	for name, values := range r.Header {
		if err := checkField(r, name, values); err != nil {
			return err
		}
	}
	return Override(r)
}

// single are the fields of which two would be read differently.
var single = []string{"content-type", "content-length", "content-encoding", "host", "transfer-encoding", "upgrade"}

func checkField(r *http.Request, name string, values []string) error {
	folded := fold(name)
	switch {
	case slices.Contains(single, folded) && (len(values) != 1 || folded != strings.ToLower(name)):
		return fmt.Errorf("the header field %.40q is there more than once, or misspelt; send it once", name)
	case folded == "host" && values[0] != r.Host:
		return fmt.Errorf("the header field Host is %.80q and the request is for %.80q; send one of them", values[0], r.Host)
	case folded == "transfer-encoding" && r.ProtoMajor >= 2:
		return errors.New("the header field Transfer-Encoding does not exist in HTTP/2")
	case folded == "upgrade" && !strings.EqualFold(values[0], "websocket"):
		return fmt.Errorf("an upgrade to %.40q is not possible: no rule could read what follows; only websocket is", values[0])
	}
	for _, v := range values {
		if i := strings.IndexFunc(v, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }); i >= 0 {
			return fmt.Errorf("the header field %.40q has the control character %q in it", name, v[i:i+1])
		}
	}
	return nil
}

// fold returns the name of a header field as a server knows it that passes
// fields on as variables (CGI, WSGI, Rack): "-" and "_" are one there.
func fold(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// overrides are header fields by which a framework lets a client replace the
// method or the path of the request line.
var overrides = []string{
	"x-http-method-override", "x-http-method", "x-method-override", "x-method",
	"x-original-method", "x-original-url", "x-original-uri", "x-rewrite-url", "x-override-url", "x-http-path-override",
	"x-http-destinationurl", "x-forwarded-method", "x-forwarded-uri", "x-forwarded-path", "x-forwarded-prefix",
}

// Override refuses a request that asks the server to read another method or path
// than those of its request line: by a header field such as
// X-HTTP-Method-Override, or by the parameter _method of the query. For
// parameters in a form see OverrideForm.
func Override(r *http.Request) error {
	for name := range r.Header {
		if slices.Contains(overrides, fold(name)) {
			return fmt.Errorf("the header field %.40q replaces the method or path of the request line; leave it out and send the request that is meant", name)
		}
	}
	return overrideQuery(r.URL.RawQuery, "query")
}

func overrideQuery(query, where string) error {
	// Some servers separate parameters by semicolons too.
	for pair := range strings.FieldsFuncSeq(query, func(c rune) bool { return c == '&' || c == ';' }) {
		name, _, _ := strings.Cut(pair, "=")
		decoded, err := url.QueryUnescape(name)
		if err != nil {
			return fmt.Errorf("the %s has a parameter name %.40q with an invalid escape; write %%25 for a percent sign", where, name)
		}
		if overridesMethod(decoded) {
			return fmt.Errorf("the parameter %.40q of the %s replaces the method of the request line; leave it out and send the request that is meant", decoded, where)
		}
	}
	return nil
}

// overridesMethod reports whether a framework may take a parameter for _method:
// PHP trims names, cuts them at NUL and "[", and makes "." and " " an underscore.
func overridesMethod(name string) bool {
	name, _, _ = strings.Cut(strings.TrimSpace(name), "\x00")
	name, _, _ = strings.Cut(name, "[")
	name = strings.NewReplacer(".", "_", " ", "_").Replace(strings.TrimSpace(name))
	return strings.EqualFold(name, "_method") || strings.EqualFold(name, "_httpmethod") || slices.Contains(overrides, fold(name))
}

// checkHost refuses what is not a name, or an IP address, with an optional port.
func checkHost(host string) error {
	name, port := host, ""
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		name, port = host[:i], host[i+1:]
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || port[0] == '0' {
			return fmt.Errorf("the host %.80q has a port that is not a number from 1 to 65535", host)
		}
	}
	if v6, ok := strings.CutPrefix(name, "["); ok {
		v6, closed := strings.CutSuffix(v6, "]")
		if addr, err := netip.ParseAddr(v6); !closed || err != nil || !addr.Is6() || addr.Zone() != "" {
			return fmt.Errorf("the host %.80q is not an IPv6 address in brackets", host)
		}
		return nil
	}
	switch {
	case name == "":
		return errors.New("the request has no host; send the header field Host")
	case strings.Contains(name, "@"):
		return fmt.Errorf("the host %.80q has a user name in it; send the host only", host)
	case strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-_") != "" || len(name) > 255:
		return fmt.Errorf("the host %.80q is not a host name or IP address", host)
	}
	return nil
}
