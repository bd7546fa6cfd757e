package httprule_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/httprule"
)

func TestCheckRefusesWhatAServerMightReadDifferently(t *testing.T) {
	t.Parallel()
	request := func(change func(r *http.Request)) *http.Request {
		r := httptest.NewRequest("POST", "/a?b=c&method=x", nil)
		r.Header.Set("Content-Type", "application/json")
		change(r)
		return r
	}
	require.NoError(t, httprule.Check(request(func(*http.Request) {})))
	require.NoError(t, httprule.Check(request(func(r *http.Request) { r.Host = "[2001:db8::1]:8443" })))
	require.NoError(t, httprule.Check(request(func(r *http.Request) { r.Header.Set("Upgrade", "websocket") })))
	for name, change := range map[string]func(r *http.Request){
		"lower case":           func(r *http.Request) { r.Method = "post" },
		"no method":            func(r *http.Request) { r.Method = "" },
		"CONNECT":              func(r *http.Request) { r.Method = "CONNECT" },
		"TRACE":                func(r *http.Request) { r.Method = "TRACE" },
		"no host":              func(r *http.Request) { r.Host = "" },
		"only a port":          func(r *http.Request) { r.Host = ":80" },
		"a user":               func(r *http.Request) { r.Host = "a@b" },
		"a zone":               func(r *http.Request) { r.Host = "[fe80::1%25eth0]" },
		"two types":            func(r *http.Request) { r.Header.Add("Content-Type", "text/plain") },
		"an underscore":        func(r *http.Request) { r.Header["Content_Type"] = []string{"text/plain"} },
		"another Host":         func(r *http.Request) { r.Header.Set("Host", "evil.example") },
		"h2c":                  func(r *http.Request) { r.Header.Set("Upgrade", "h2c") },
		"two upgrades":         func(r *http.Request) { r.Header["Upgrade"] = []string{"websocket", "h2c"} },
		"a list of upgrades":   func(r *http.Request) { r.Header.Set("Upgrade", "websocket, h2c") },
		"a line feed":          func(r *http.Request) { r.Header.Set("X-A", "a\nb") },
		"TE over HTTP/2":       func(r *http.Request) { r.ProtoMajor = 2; r.Header.Set("Transfer-Encoding", "chunked") },
		"TE over HTTP/1.0":     func(r *http.Request) { r.ProtoMinor = 0; r.TransferEncoding = []string{"chunked"} },
		"an override":          func(r *http.Request) { r.Header.Set("X-Http-Method-Override", "GET") },
		"another override":     func(r *http.Request) { r.Header.Set("X-Method-Override", "DELETE") },
		"a third override":     func(r *http.Request) { r.Header["x_http_method"] = []string{"DELETE"} },
		"a path":               func(r *http.Request) { r.Header.Set("X-Rewrite-Url", "/admin") },
		"a query":              func(r *http.Request) { r.URL.RawQuery = "a&_method=DELETE" },
		"an encoded query":     func(r *http.Request) { r.URL.RawQuery = "_metho%64=DELETE" },
		"PHP's array":          func(r *http.Request) { r.URL.RawQuery = "_method[]=DELETE" },
		"PHP's dots":           func(r *http.Request) { r.URL.RawQuery = ".method=DELETE" },
		"a semicolon":          func(r *http.Request) { r.URL.RawQuery = "a=b;_METHOD=DELETE" },
		"a name without value": func(r *http.Request) { r.URL.RawQuery = "_method" },
		"an invalid escape":    func(r *http.Request) { r.URL.RawQuery = "_metho%6=x" },
		"the field as a query": func(r *http.Request) { r.URL.RawQuery = "X-HTTP-Method-Override=PUT" },
	} {
		assert.Error(t, httprule.Check(request(change)), name)
	}
}

func form(contentType, body string) *http.Request {
	r := httptest.NewRequest("POST", "/", strings.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	return r
}

func TestFormsWithAMethodAreRefused(t *testing.T) {
	t.Parallel()
	const encoded = "application/x-www-form-urlencoded"
	for _, body := range []string{"_method=DELETE", "a=b&%5Fmethod=DELETE", "a;_method=x", "_method%00x=PUT"} {
		require.ErrorContains(t, httprule.OverrideForm(form(encoded, body)), "replaces the method", body)
		require.Error(t, httprule.OverrideForm(form("Application/X-WWW-Form-URLEncoded; charset=utf-8; =", body)), body)
	}
	r := form(encoded, "method=DELETE&a=_method")
	require.NoError(t, httprule.OverrideForm(r))
	body, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	require.Equal(t, "method=DELETE&a=_method", string(body))

	require.ErrorContains(t, httprule.OverrideForm(form(encoded, strings.Repeat("a", httprule.MaxForm+1))), "send a smaller one")
	r = form(encoded, "x")
	r.Header.Set("Content-Encoding", "gzip")
	require.ErrorContains(t, httprule.OverrideForm(r), "content encoding")
	require.NoError(t, httprule.OverrideForm(form("application/json", `{"_method":"DELETE"}`)))
	require.NoError(t, httprule.OverrideForm(httptest.NewRequest("GET", "/", nil)))
}

func TestMultipartFormsAreReadAsTheyPass(t *testing.T) {
	t.Parallel()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	file, err := w.CreateFormFile("upload", "my_method.rb")
	require.NoError(t, err)
	_, err = file.Write(bytes.Repeat([]byte("def _method\r\n\r\nname=\"_method\" content-dispo\n"), 5000))
	require.NoError(t, err)
	require.NoError(t, w.WriteField("method", "x"))
	good := body.String()
	require.NoError(t, w.WriteField("_method", "DELETE"))
	require.NoError(t, w.WriteField("later", "x"))
	bad := body.String()
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader, "with the end": iotest.DataErrReader,
	} {
		r := form(w.FormDataContentType(), "")
		r.Body = io.NopCloser(wrap(strings.NewReader(good)))
		require.NoError(t, httprule.OverrideForm(r))
		got, err := io.ReadAll(r.Body)
		require.NoError(t, err, name)
		require.Equal(t, good, string(got), name)

		r = form(w.FormDataContentType(), "")
		r.Body = io.NopCloser(wrap(strings.NewReader(bad)))
		require.NoError(t, httprule.OverrideForm(r))
		got, err = io.ReadAll(r.Body)
		require.ErrorContains(t, err, "replaces the method", name)
		require.NotContains(t, string(got[len(good):]), "name=", name)
		_, err = r.Body.Read(make([]byte, 10))
		require.Error(t, err)
	}
	for _, header := range []string{
		`Content-Disposition: form-data; name=_method`,
		`content-disposition:form-data;NAME = "_METHOD"`,
		"Content-Disposition: form-data;\r\n name=\"_method\"",
		`Content-Disposition: form-data; name='_method'`,
		`Content-Disposition: form-data; name="_meth\od"`,
		`Content-Disposition: form-data; name="%5Fmethod"`,
		`Content-Disposition: form-data; name*=UTF-8''_method`,
		`Content-Disposition: form-data; name*0="_met"; name*1="hod"`,
		`Content-Disposition: form-data; name="a"; name="_method"`,
		`Content-Disposition: form-data; filename="a"; name="_method[]"`,
	} {
		r := form("multipart/form-data; boundary=b", "--b\r\n"+header+"\r\n\r\nDELETE\r\n--b--\r\n")
		require.NoError(t, httprule.OverrideForm(r))
		_, err := io.ReadAll(r.Body)
		assert.Error(t, err, header)
	}
}
