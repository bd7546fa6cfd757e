package gitpush_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/stretchr/testify/require"

	"github.com/deckhand-sh/deckhand/internal/gitpush"
)

var (
	zero = strings.Repeat("0", 40)
	one  = strings.Repeat("1", 40)
	two  = strings.Repeat("2", 40)
)

const flush = "0000"

func line(text string) string { return fmt.Sprintf("%04x%s", len(text)+4, text) }

func command(old, id, ref string) string { return old + " " + id + " " + ref }

// certificate is a signed push with lines added in its parts.
func certificate(header, updates, signature string) string {
	var out strings.Builder
	out.WriteString(line("push-cert\x00 report-status"))
	text := "certificate version 0.1\npusher Ada <ada@example.com> 1700000000 +0000\npushee https://example.com/a.git\nnonce 17-ab\n" + header + "\n" +
		command(one, two, "refs/heads/main") + "\n" + updates +
		"-----BEGIN PGP SIGNATURE-----\n\niQ==\n-----END PGP SIGNATURE-----\n" + signature + "push-cert-end\n"
	for l := range strings.Lines(text) {
		out.WriteString(line(l))
	}
	return out.String()
}

func TestThePartsOfAPushAreRead(t *testing.T) {
	t.Parallel()
	head := line("shallow "+two) + line(command(zero, one, "refs/heads/a")+"\x00 report-status push-options side-band-64k agent=git/2.39.5") +
		line(command(one, zero, "refs/tags/b")+"\n") + flush + line("ERR is an option") + line("ci.skip\n") + flush
	p, err := gitpush.Read(strings.NewReader(head+"PACK…"), gitpush.Limits{})
	require.NoError(t, err)
	require.Equal(t, []gitpush.Update{{Ref: "refs/heads/a", New: one}, {Ref: "refs/tags/b", Old: one}}, p.Updates)
	require.Equal(t, []string{two}, p.Shallow)
	require.Equal(t, []string{"ERR is an option", "ci.skip"}, p.Options)
	require.True(t, p.Has("side-band-64k"))
	require.Equal(t, gitpush.SHA1, p.Format)
	require.Nil(t, p.Certificate)
	require.Equal(t, head, string(p.Head))
	body, err := p.Body()
	require.NoError(t, err)
	all, err := io.ReadAll(body)
	require.NoError(t, err)
	require.Equal(t, head+"PACK…", string(all))

	p, err = gitpush.Read(strings.NewReader(certificate("", command(zero, one, "refs/heads/b")+"\n", "")+flush+"PACK"), gitpush.Limits{})
	require.NoError(t, err)
	require.Len(t, p.Updates, 2)
	require.Equal(t, "17-ab", p.Certificate.Nonce)
	require.Equal(t, "https://example.com/a.git", p.Certificate.Pushee)
}

func TestRequestsThatChangeNothingPass(t *testing.T) {
	t.Parallel()
	for _, body := range []string{flush, line("shallow "+one) + flush} {
		p, err := gitpush.Read(strings.NewReader(body), gitpush.Limits{})
		require.NoError(t, err)
		require.Empty(t, p.Updates)
		require.False(t, p.HasPack())
		require.Equal(t, body, string(p.Head))
	}
}

func TestWhatCannotBeParsedIsRefused(t *testing.T) {
	t.Parallel()
	good := command(one, two, "refs/heads/main") + "\x00 report-status"
	caps := func(list string) string { return line(command(one, two, "refs/heads/main")+"\x00"+list) + flush }
	ref := func(name string) string { return line(command(one, two, name)+"\x00 report-status") + flush }
	long := strings.Repeat("3", 64)
	for name, c := range map[string]struct{ body, want string }{
		"empty body":                           {"", "ends within"},
		"no flush":                             {line(good), "ends within"},
		"length that is cut off":               {"00", "pkt-line is not valid"},
		"length that is no number":             {"zzzz", "pkt-line is not valid"},
		"length with a sign":                   {"+04a", "pkt-line is not valid"},
		"length below 4":                       {"0003", "pkt-line is not valid"},
		"delimiter packet":                     {line(good) + "0001" + line(command(one, two, "refs/heads/b")) + flush, "pkt-line is not valid"},
		"response-end packet":                  {line(good) + "0002", "pkt-line is not valid"},
		"empty line":                           {line(good) + "0004" + flush, "pkt-line is not valid"},
		"length beyond the maximum":            {"ffff" + strings.Repeat("x", 70000), "pkt-line is not valid"},
		"line that is cut off":                 {"0100" + good, "ends within"},
		"pack without references":              {flush + "PACK", "data follows"},
		"data after a deletion":                {line(command(one, zero, "refs/heads/a")+"\x00 report-status") + flush + "PACK", "data follows"},
		"first line without capabilities":      {line(command(one, two, "refs/heads/main")) + flush, "has no capabilities"},
		"capabilities on the second line":      {line(good) + line(command(one, two, "refs/heads/b")+"\x00 push-options") + flush, "line that is not the first"},
		"second NUL in the capabilities":       {caps(" report-status\x00push-options"), "byte 0x00"},
		"newline in the capabilities":          {caps(" report-status\npush-options"), "byte 0x0a"},
		"tab in the capabilities":              {caps(" report-status\tpush-options"), "byte 0x09"},
		"unknown capability":                   {caps(" report-status push-reflog"), `"push-reflog" is not known`},
		"flag with a value":                    {caps(" push-options=1"), `"push-options=1" is not known`},
		"value without a name":                 {caps(" =1"), "is not known"},
		"capability twice":                     {caps(" atomic atomic"), "occurs twice"},
		"object format twice":                  {caps(" object-format=sha1 object-format=sha256"), "occurs twice"},
		"unknown object format":                {caps(" object-format=md5"), `"md5" is not known`},
		"hashes of another format":             {caps(" object-format=sha256"), "not two sha256 hashes"},
		"SHA-256 hashes that are not declared": {line(command(long, long, "refs/heads/a")+"\x00 report-status") + flush, "not two sha1 hashes"},
		"upper-case hashes":                    {line(command(strings.Repeat("A", 40), two, "refs/heads/a")+"\x00") + flush, "not two sha1 hashes"},
		"hash that is no hex":                  {line(command(strings.Repeat("g", 40), two, "refs/heads/a")+"\x00") + flush, "not two sha1 hashes"},
		"no reference":                         {line(one+" "+two+" \x00") + flush, "not two sha1 hashes"},
		"tab between the hashes":               {line(one+"\t"+two+" refs/heads/a\x00") + flush, "not two sha1 hashes"},
		"neither old nor new":                  {line(command(zero, zero, "refs/heads/a")+"\x00") + flush, "neither has"},
		"reference twice":                      {line(good) + line(command(one, two, "refs/heads/main")) + flush, "updated twice"},
		"shallow line after an update":         {line(good) + line("shallow "+one) + flush, "shallow line follows"},
		"shallow line without a hash":          {line("shallow refs/heads/a") + line(good) + flush, "no sha1 hash"},
		"shallow line with capabilities":       {line("shallow "+one+"\x00 push-options") + line(good) + flush, "no sha1 hash"},
		"shallow line of another format":       {line("shallow "+long) + line(good) + flush, "no sha1 hash"},
		"too much before the pack":             {strings.Repeat(line("shallow "+one), 200) + flush, "more than 4096 bytes"},
		"too many references":                  {line(good) + line(command(one, two, "refs/heads/b")) + line(command(one, two, "refs/heads/c")) + line(command(one, two, "refs/heads/d")) + flush, "more than 3 references"},
		"push option of two lines":             {caps(" push-options") + line("a\nb") + flush, "not one line"},
		"push option that is not UTF-8":        {caps(" push-options") + line("\xff") + flush, "not one line"},
		"push options without an end":          {caps(" push-options") + line("a"), "ends within"},

		"HEAD":                       {ref("HEAD"), "does not begin with refs/"},
		"branch without refs":        {ref("main"), "does not begin with refs/"},
		"reference below refs":       {ref("refs/main"), "not below a folder"},
		"two dots":                   {ref("refs/heads/../../config"), "two dots"},
		"dot at the start":           {ref("refs/heads/.a"), "begins with a dot"},
		"dot at the end":             {ref("refs/heads/a."), "ends with a dot"},
		"lock":                       {ref("refs/heads/a.lock/b"), "ends with .lock"},
		"two slashes":                {ref("refs/heads//a"), "is empty"},
		"slash at the end":           {ref("refs/heads/a/"), "is empty"},
		"reflog":                     {ref("refs/heads/a@{1}"), "contains @{"},
		"space in a reference":       {ref("refs/heads/a b"), "does not allow"},
		"newline in a reference":     {ref("refs/heads/a\nng refs/heads/b"), "does not allow"},
		"DEL in a reference":         {ref("refs/heads/a\x7f"), "does not allow"},
		"pattern as a reference":     {ref("refs/heads/*"), "does not allow"},
		"backslash in a reference":   {ref(`refs/heads/a\b`), "does not allow"},
		"reference not in UTF-8":     {ref("refs/heads/\xff"), "not UTF-8"},
		"reference that is too long": {ref("refs/heads/" + strings.Repeat("a", 1024)), "at most 1024"},

		"update before a certificate":        {line(good) + certificate("", "", "") + flush, "certificate follows an update"},
		"update after a certificate":         {certificate("", "", "") + line(command(one, two, "refs/heads/b")) + flush, "line follows the push certificate"},
		"two certificates":                   {certificate("", "", "") + certificate("", "", "") + flush, "line follows the push certificate"},
		"shallow line after a certificate":   {certificate("", "", "") + line("shallow "+one) + flush, "line follows the push certificate"},
		"certificate without an end":         {line("push-cert\x00") + line("certificate version 0.1\n") + flush, "has no end"},
		"certificate without updates":        {line("push-cert\x00") + line("certificate version 0.1\n") + line("\n") + line("push-cert-end\n") + flush, "no updates or no signature"},
		"certificate without a signature":    {line("push-cert\x00") + line("certificate version 0.1\n") + line("\n") + line(command(one, two, "refs/heads/a")+"\n") + line("push-cert-end\n") + flush, "no updates or no signature"},
		"certificate of another version":     {line("push-cert\x00") + line("certificate version 0.2\n") + flush, "version 0.2"},
		"certificate without a version":      {line("push-cert\x00") + line("nonce 1\n") + flush, "does not begin with its version"},
		"certificate with two nonces":        {certificate("nonce 2\n", "", "") + flush, `"nonce 2"`},
		"certificate with an unknown line":   {certificate("agent me\n", "", "") + flush, `"agent me"`},
		"certificate with two signatures":    {certificate("", "", "-----BEGIN SSH SIGNATURE-----\n") + flush, "two signatures"},
		"update after the signature start":   {certificate("", "-----BEGIN PGP SIGNATURE-----\n", "") + flush, "two signatures"},
		"certificate with another line":      {certificate("", "hello\n", "") + flush, "update 2 is not"},
		"certificate with a reference twice": {certificate("", command(one, two, "refs/heads/main")+"\n", "") + flush, "updated twice"},
		"certificate line without newline":   {line("push-cert\x00") + line("certificate version 0.1") + flush, "not one line"},
		"certificate with two lines in one":  {line("push-cert\x00") + line("certificate version 0.1\n") + line("\n") + line(command(one, two, "refs/heads/a")+"\n"+command(one, two, "refs/heads/b")+"\n") + flush, "not one line"},
		"certificate with NUL":               {certificate("", command(one, two, "refs/heads/b")+"\x00\n", "") + flush, "not one line"},
		"certificate with options only":      {certificate("push-option a\n", "", "") + flush, "push has none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := gitpush.Read(strings.NewReader(c.body), gitpush.Limits{Head: 4096, Updates: 3})
			if name == "length beyond the maximum" {
				_, err = gitpush.Read(strings.NewReader(c.body), gitpush.Limits{})
			}
			var e *gitpush.Error
			require.ErrorAs(t, err, &e)
			require.Contains(t, e.What, c.want)
			require.GreaterOrEqual(t, e.Status, 400)
		})
	}
}

func TestRequestsOfPushesAreRecognised(t *testing.T) {
	t.Parallel()
	body := func() io.Reader { return strings.NewReader(flush) }
	for _, target := range []string{"/a.git/git-receive-pack", "/a.git/git-receive%2dpack", "/a.git/GIT-RECEIVE-PACK", "/a.git/git-receive-pack/"} {
		require.True(t, gitpush.Is(httptest.NewRequest(http.MethodPost, target, body())), target)
	}
	disguised := httptest.NewRequest(http.MethodPut, "/a.git/other", body())
	require.False(t, gitpush.Is(disguised))
	disguised.Header.Set("Content-Type", gitpush.RequestType)
	require.True(t, gitpush.Is(disguised))
	require.False(t, gitpush.Is(httptest.NewRequest(http.MethodGet, "/a.git/info/refs?service=git-receive-pack", nil)))
	require.False(t, gitpush.Is(httptest.NewRequest(http.MethodPost, "/a.git/git-upload-pack", body())))

	for want, change := range map[string]func(*http.Request){
		"instead of POST":              func(r *http.Request) { r.Method = http.MethodPut },
		"content type is not":          func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") },
		"Content-Type occurs 0 times":  func(r *http.Request) { r.Header.Del("Content-Type") },
		"Content-Type occurs 2 times":  func(r *http.Request) { r.Header.Add("Content-Type", "text/plain") },
		"content encoding is not gzip": func(r *http.Request) { r.Header.Set("Content-Encoding", "deflate") },
		"Content-Encoding occurs 2":    func(r *http.Request) { r.Header["Content-Encoding"] = []string{"gzip", "gzip"} },
		"body is not in gzip as its":   func(r *http.Request) { r.Header.Set("Content-Encoding", "gzip") },
	} {
		r := httptest.NewRequest(http.MethodPost, "/a.git/git-receive-pack", body())
		r.Header.Set("Content-Type", gitpush.RequestType)
		change(r)
		_, err := gitpush.ReadRequest(r, gitpush.Limits{})
		var e *gitpush.Error
		require.ErrorAs(t, err, &e)
		require.Contains(t, e.What, want)
	}
}

func TestAReportIsReadByAnotherParser(t *testing.T) {
	t.Parallel()
	refusals := []gitpush.Refusal{{Ref: "refs/heads/b", Reason: "no\nng refs/heads/a\x00 " + strings.Repeat("ü", 1000)}}
	for _, capabilities := range []string{"report-status", "report-status-v2 side-band-64k", ""} {
		var head strings.Builder
		head.WriteString(line(command(zero, one, "refs/heads/a") + "\x00 " + capabilities))
		head.WriteString(line(command(zero, one, "refs/heads/b")))
		for i := range 2000 { // the report is longer than a packet
			head.WriteString(line(command(zero, one, fmt.Sprintf("refs/heads/c/%d", i))))
		}
		p, err := gitpush.Read(strings.NewReader(head.String()+flush+"PACK"), gitpush.Limits{})
		require.NoError(t, err)
		w := httptest.NewRecorder()
		require.NoError(t, gitpush.Refuse(w, p, refusals, gitpush.Limits{}))
		if capabilities == "" {
			require.Equal(t, http.StatusForbidden, w.Code)
			require.Contains(t, w.Body.String(), "refs/heads/a "+gitpush.NotPushed)
			continue
		}
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, gitpush.ReportType, w.Header().Get("Content-Type"))
		status := readReport(t, w.Body.Bytes(), strings.Contains(capabilities, "side-band"))
		require.Len(t, status, 2003)
		require.Equal(t, "unpack ok\n", status[0])
		require.Equal(t, "ng refs/heads/a "+gitpush.NotPushed+"\n", status[1])
		require.True(t, strings.HasPrefix(status[2], "ng refs/heads/b no ng refs/heads/a  ü"), status[2])
		require.Less(t, len(status[2]), 600)
	}
}

// readReport returns the lines of a report, which must end with a flush packet.
func readReport(t testing.TB, body []byte, wrapped bool) []string {
	if wrapped {
		body, _ = io.ReadAll(sideband.NewDemuxer(sideband.Sideband64k, bytes.NewReader(body)))
	}
	var out []string
	lines := pktline.NewScanner(bytes.NewReader(body))
	for lines.Scan() {
		if len(lines.Bytes()) == 0 {
			require.False(t, lines.Scan(), "something follows the flush packet")
			require.NoError(t, lines.Err())
			return out
		}
		out = append(out, string(lines.Bytes()))
	}
	require.Fail(t, "the report has no flush packet", "%v", lines.Err())
	return nil
}

func TestARequestThatIsNotReadInTimeIsReportedAsItsError(t *testing.T) {
	t.Parallel()
	broken := errors.New("connection reset")
	_, err := gitpush.Read(io.MultiReader(strings.NewReader("00"), failing{broken}), gitpush.Limits{})
	require.ErrorIs(t, err, broken)
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func FuzzRead(f *testing.F) {
	f.Add([]byte(flush))
	f.Add([]byte(line(command(one, two, "refs/heads/main")+"\x00 report-status push-options object-format=sha1") + line(command(one, zero, "refs/tags/a")) + flush + line("option") + flush + "PACK"))
	f.Add([]byte(line("shallow "+one) + certificate("push-option a\n", "", "") + flush + "PACK"))
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := gitpush.Read(bytes.NewReader(body), gitpush.Limits{Head: 8192, Updates: 20})
		if err != nil {
			var e *gitpush.Error
			require.ErrorAs(t, err, &e)
			return
		}
		require.True(t, bytes.HasPrefix(body, p.Head))
		names := map[string]bool{}
		for _, u := range p.Updates {
			require.NoError(t, gitpush.CheckRef(u.Ref))
			require.False(t, names[u.Ref])
			names[u.Ref] = true
			require.True(t, u.Old != "" || u.New != "")
			// What was read is what the server reads: it is there as it stands.
			require.Contains(t, string(p.Head), " "+u.Ref)
		}
		out, err := p.Body()
		require.NoError(t, err)
		all, err := io.ReadAll(out)
		require.NoError(t, err)
		require.Equal(t, body, all)
	})
}

func FuzzReport(f *testing.F) {
	f.Add("not allowed", true)
	f.Add("no\nng refs/heads/b x\r\x00", false)
	f.Fuzz(func(t *testing.T, reason string, wrapped bool) {
		capabilities := "report-status"
		if wrapped {
			capabilities += " side-band-64k"
		}
		p, err := gitpush.Read(strings.NewReader(line(command(zero, one, "refs/heads/a")+"\x00"+capabilities)+line(command(zero, one, "refs/heads/b"))+flush+"PACK"), gitpush.Limits{})
		require.NoError(t, err)
		w := httptest.NewRecorder()
		require.NoError(t, gitpush.Refuse(w, p, []gitpush.Refusal{{Ref: "refs/heads/a", Reason: reason}}, gitpush.Limits{}))
		status := readReport(t, w.Body.Bytes(), wrapped)
		require.Len(t, status, 3)
		require.True(t, strings.HasPrefix(status[1], "ng refs/heads/a "))
		require.Equal(t, 1, strings.Count(status[1], "\n"))
		require.Equal(t, "ng refs/heads/b "+gitpush.NotPushed+"\n", status[2])
	})
}
