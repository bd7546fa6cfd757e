// Package httprule decides whether an HTTP request is allowed, by its method and
// path and, for GraphQL, by the types of its operations. The hub uses it where a
// persona is applied, and the node's proxy where requests are made, so that both
// read a rule in the same way.
//
// Canonical reads a request target. Its Path is what rules decide on and, byte
// for byte, what must be sent to the server: a target that two servers might
// read differently is refused, never repaired. Parse reads a Pattern, such as
// "GET /repos/{owner}/{repo}/**". Decide applies Rules to a Path. Operations
// reads the operations of a GraphQL request. Check and Override refuse requests
// whose method, host or path a server might take from another place than the
// request line. StrictConn refuses HTTP/1 messages whose extent is ambiguous.
//
// # Reading a path
//
// A path is split at "/" and each segment is decoded once. Refused are: dot
// segments, empty segments, backslashes, semicolons and control characters,
// plain or encoded; what would decode a second time (%252f); invalid escapes;
// invalid UTF-8; plain characters that a URL cannot have; and characters that
// some servers replace by one of ". / \ ; %". A trailing slash is significant:
// it is an empty last segment.
//
// An encoded slash (%2F) is part of its segment, as in GitLab's
// /api/v4/projects/group%2Fproject. Many servers decode it before they split,
// so that /users/1%2Fkeys is the same as /users/1/keys to them. Therefore
//
//   - a literal, * and {name} do not match a segment with an encoded slash;
//   - {name%2F} does: whoever writes it says that this server keeps the slash
//     inside of the segment;
//   - ** does: it covers the path in either reading;
//   - what denies, or requires a tool, matches if either reading does.
//
// # Allowing is narrow, denying is wide
//
// A pattern that allows compares bytes. One that denies or requires a tool also
// matches what a lenient server may take for the same path: letters in another
// case, a trailing slash more or less, and dots and spaces at the end of a
// segment; and GET covers HEAD. A server can still have names for a resource
// that no rule knows (Rails' .json suffix), so that narrow allow rules are safer
// than a wide one with exceptions.
//
// # Why there is no library in it
//
// The matchers of net/http.ServeMux, gorilla/mux and chi route to one handler,
// the most specific or the first one, and clean or redirect the path: here
// every rule counts, a deny wins, and nothing is cleaned. ServeMux also decodes
// %2F inside of wildcards without a way to refuse it. Envoy and Cilium normalise
// a path before they match it, with options for each ambiguity; their safest
// setting, to reject, is what this package always does. Open Policy Agent would
// leave reading the path to us. What remains to be written is a comparison of
// two lists of segments.
package httprule
