package danger

import "strings"

// What JavaScript does in a page that somebody is logged in to.
var (
	pageSecrets = compile(`\b(?:document\.cookie|cookieStore|localStorage|sessionStorage|indexedDB|navigator\.credentials|PasswordCredential)\b|\btype\s*=\s*["']?password`)
	pageSends   = compile(`\.(?:submit|requestSubmit)\s*\(|\b(?:sendBeacon|XMLHttpRequest|WebSocket|EventSource|RTCPeerConnection)\b|\bmethod\s*["']?\s*:\s*["'](?i:post|put|patch|delete)["']`)
	pageHidden  = compile(`\b(?:eval|Function|atob|setTimeout|setInterval)\s*\(\s*(?:["'\x60]|atob|unescape|decodeURI|String\.fromCharCode)|\bString\.fromCharCode\s*\(`)
	pageRemote  = compile(`\bimport\s*\(|\bimportScripts\s*\(|createElement\s*\(\s*["'\x60]script["'\x60]\s*\)|serviceWorker\.register`)
)

// Page returns what is dangerous in a script that runs in a web page with the rights of
// the user who is logged in there.
func Page(script string) (out []Finding) {
	const most = 256 << 10
	script = script[:min(len(script), most)]
	for _, one := range []struct {
		re   *expression
		kind Kind
		what string
	}{
		{pageSecrets, Credentials, "it reads what the site has stored in the browser, such as the cookies of a login"},
		{pageSends, PageRequest, "it sends a form or a request with the rights of the user who is logged in"},
		{pageHidden, HiddenCode, "it runs code that it makes from text"},
		{pageRemote, RemoteCode, "it loads code from elsewhere into the page"},
	} {
		at := one.re.FindString(script)
		if at == "" {
			continue
		}
		before, _, _ := strings.Cut(script, at)
		out = append(out, Finding{Kind: one.kind, What: one.what, Command: at, Line: 1 + strings.Count(before, "\n")})
	}
	return out
}
